"""The practice GPU beside CUDA: what works there, what is refused, and in which words.

The table says what CUDA does, by PyTorch's documentation and source. Where there is a CUDA GPU, CUDA is
held to it as well.
"""

import copy
import functools
import io
import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course.checks import practice
from course.checks.tensors import missing_device
from implementation import make_model

pytestmark = pytest.mark.skipif(
    missing_device("practice") is not None, reason=str(missing_device("practice"))
)

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")

TWO = (
    r"Expected all tensors to be on the same device|expected self and mask to be on the same device"
)
INDEX = r"indices should be either on (the )?cpu or on the same device"
NUMPY = r"can't convert \w+:0 device type tensor to numpy"
GENERATOR = r"Expected a '\w+' (generator )?device type"


@pytest.fixture(params=[pytest.param("cuda", marks=needs_cuda), "practice"], scope="module")
def name(request):
    """All tests on CUDA come first: once torch knows the practice GPU, which it then takes for the
    accelerator, it can no longer go backward on CUDA.
    """
    return request.param


@pytest.fixture
def device(name):
    """Yield each device that is held to the table."""
    with practice.running() if name == "practice" else nullcontext():
        yield name


class Box:
    """Tensors of the same numbers on the CPU and on the device, for one row of the table."""

    def __init__(self, device):
        self.device = device
        self.cpu = torch.arange(6.0).view(2, 3)
        self.x = self.cpu.to(device)
        self.one = torch.tensor(1.0)
        self.rows = torch.tensor([1, 0])
        self.heads = torch.linspace(-1, 1, 64).view(1, 2, 4, 8).to(device)

    def made(self, *arguments, **options):
        """Make a tensor on the device with `torch.tensor`."""
        return torch.tensor(*arguments, device=self.device, **options)

    def generator(self):
        return torch.Generator(self.device).manual_seed(3)


def indexed_put(x, at, value):
    x = x.clone()
    x[at] = value
    return x


def without_gradients(compute):
    with torch.inference_mode():
        return compute()


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def in_place(x, name, *arguments):
    x = x.clone()
    getattr(x, name)(*arguments)
    return x


# What works, and is on the device.
WORKS = {
    "add": lambda b: b.x + b.x,
    "a number of the CPU": lambda b: b.x * b.one + b.one,
    "promotion": lambda b: b.x.long() + b.x.half(),
    "promotion by a number of the CPU": lambda b: b.x.half() + torch.tensor(2.0),
    "where": lambda b: torch.where(b.x > 2, b.x, torch.tensor(-1.0)),
    "masked_fill": lambda b: b.x.masked_fill(b.x > 2, torch.tensor(9.0)),
    "clamp": lambda b: b.x.clamp(1, 3),
    "index with CPU indices": lambda b: b.x[torch.tensor([1, 0])],
    "index with a CPU mask": lambda b: b.x[b.cpu > 2],
    "index with indices on the device": lambda b: b.x[b.rows.to(b.device)],
    "index_put with CPU indices": lambda b: indexed_put(b.x, b.rows, 7.0),
    "index_put of a number of the CPU": lambda b: indexed_put(b.x, b.rows, b.one),
    "assigning a CPU row copies it": lambda b: indexed_put(b.x, 0, torch.ones(3)),
    "copy_ from the CPU": lambda b: in_place(b.x, "copy_", b.cpu + 1),
    "fill_": lambda b: in_place(b.x, "fill_", b.one),
    "a view changed in place": lambda b: (lambda y: (y[0].mul_(2), y)[1])(b.x.clone()),
    "t_": lambda b: in_place(b.x, "t_"),
    "unsqueeze_": lambda b: in_place(b.x, "unsqueeze_", 0),
    "cat": lambda b: torch.cat([b.x, b.x]),
    "stack": lambda b: torch.stack([b.x, b.x]),
    "embedding": lambda b: F.embedding(b.made([1]), b.x),
    "scatter": lambda b: b.x.scatter(1, b.made([[0]]), 9.0),
    "gather": lambda b: b.x.gather(1, b.made([[2]])),
    "topk": lambda b: b.x.topk(2).values,
    "cumsum": lambda b: b.x.cumsum(-1),
    "einsum": lambda b: torch.einsum("ij,kj->ik", b.x, b.x),
    "matmul": lambda b: b.x @ b.x.T,
    "cross_entropy": lambda b: F.cross_entropy(b.x, b.made([1, 2])),
    "layer_norm": lambda b: F.layer_norm(b.x, (3,)),
    "sdpa": lambda b: F.scaled_dot_product_attention(b.heads, b.heads, b.heads, is_causal=True),
    "arange": lambda b: torch.arange(4, device=b.device),
    "zeros, ones, full": lambda b: (
        torch.zeros(2, device=b.device)
        + torch.ones(2, device=b.device)
        + torch.full((2,), 3.0, device=b.device)
    ),
    "eye": lambda b: torch.eye(3, device=b.device),
    "tril_indices": lambda b: torch.tril_indices(3, 3, device=b.device),
    "linspace": lambda b: torch.linspace(0, 1, 5, device=b.device),
    "torch.tensor": lambda b: b.made([1, 2]),
    "new_tensor": lambda b: b.x.new_tensor([1.0]),
    "new_zeros": lambda b: b.x.new_zeros(2),
    "zeros_like of a CPU tensor": lambda b: torch.zeros_like(b.cpu, device=b.device),
    "from NumPy": lambda b: torch.from_numpy(np.ones(3, np.float32)).to(b.device),
    "to another dtype": lambda b: b.x.to(torch.float64),
    "pinned and non_blocking": lambda b: b.cpu.pin_memory().to(b.device, non_blocking=True),
    "a module's parameter": lambda b: nn.Linear(3, 2).to(b.device).weight.detach() * 0,
    "views in inference mode": lambda b: without_gradients(
        lambda: b.x[0] + b.x.view(3, 2).T[0] + (b.x + 1).view(6)[:3]
    ),
    "a module saved and loaded": lambda b: saved(nn.Linear(3, 2).to(b.device)).weight.detach() * 0,
    "a module made there": lambda b: nn.Linear(3, 2, device=b.device).weight.detach() * 0,
}

# What is refused, with the exception and its words.
REFUSED = {
    "add": (lambda b: b.x + b.cpu, RuntimeError, TWO),
    "one entry of more dimensions": (lambda b: b.x + torch.ones(1), RuntimeError, TWO),
    "add in place": (lambda b: in_place(b.x, "add_", b.cpu), RuntimeError, TWO),
    "a number of the CPU changed in place": (
        lambda b: b.one.clone().add_(b.x.sum()),
        RuntimeError,
        TWO,
    ),
    "matmul": (lambda b: b.x @ b.cpu.T, RuntimeError, TWO),
    "where": (
        lambda b: torch.where(b.cpu > 2, b.x, b.x),
        RuntimeError,
        TWO + "|Expected condition",
    ),
    "masked_fill": (lambda b: b.x.masked_fill(b.cpu > 2, 0.0), RuntimeError, TWO),
    "cat": (lambda b: torch.cat([b.x, b.cpu]), RuntimeError, TWO),
    "stack": (lambda b: torch.stack([b.x, b.cpu]), RuntimeError, TWO),
    "stack of numbers": (lambda b: torch.stack([b.x.sum(), b.one]), RuntimeError, TWO),
    "embedding": (lambda b: F.embedding(torch.tensor([1]), b.x), RuntimeError, TWO),
    "embedding of a CPU table": (lambda b: F.embedding(b.made([1]), b.cpu), RuntimeError, TWO),
    "scatter": (lambda b: b.x.scatter(1, torch.tensor([[0]]), 9.0), RuntimeError, TWO),
    "gather": (lambda b: b.x.gather(1, torch.tensor([[0]])), RuntimeError, TWO),
    "index_select": (lambda b: b.x.index_select(0, b.rows), RuntimeError, TWO),
    "index of a CPU tensor": (lambda b: b.cpu[b.rows.to(b.device)], RuntimeError, INDEX),
    "index_put of CPU rows": (
        lambda b: indexed_put(b.x, b.rows, torch.ones(3)),
        RuntimeError,
        TWO,
    ),
    "cross_entropy": (lambda b: F.cross_entropy(b.x, torch.tensor([1, 2])), RuntimeError, TWO),
    "sdpa": (
        lambda b: F.scaled_dot_product_attention(
            b.heads, b.heads, b.heads, attn_mask=torch.ones(4, 4, dtype=torch.bool)
        ),
        RuntimeError,
        TWO + "|Expected attn_mask|device",
    ),
    "einsum": (lambda b: torch.einsum("ij,kj->ik", b.x, b.cpu), RuntimeError, TWO),
    "equal": (lambda b: torch.equal(b.x, b.cpu), RuntimeError, TWO),
    "numpy": (lambda b: b.x.numpy(), TypeError, NUMPY),
    "np.asarray": (lambda b: np.asarray(b.x), TypeError, NUMPY),
    "np.stack": (lambda b: np.stack([b.x, b.x]), TypeError, NUMPY),
    "a generator of the CPU": (
        lambda b: torch.rand(3, device=b.device, generator=torch.Generator()),
        RuntimeError,
        GENERATOR,
    ),
    "multinomial with a generator of the CPU": (
        lambda b: torch.multinomial(b.x + 1, 1, generator=torch.Generator()),
        RuntimeError,
        GENERATOR,
    ),
    "its generator for the CPU": (
        lambda b: torch.rand(3, generator=b.generator()),
        RuntimeError,
        GENERATOR,
    ),
}


@pytest.mark.parametrize("row", WORKS)
def test_works(device, row):
    """It works on the device, stays there, and gives the numbers of the CPU."""
    result = WORKS[row](Box(device))
    expected = WORKS[row](Box("cpu")) if row != "pinned and non_blocking" else Box("cpu").cpu
    assert result.device.type == device
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize("row", REFUSED)
def test_refused(device, row):
    """It is refused on the device, in PyTorch's words, and works on the CPU alone."""
    function, kind, words = REFUSED[row]
    with pytest.raises(kind) as caught:
        function(Box(device))
    assert re.search(words, str(caught.value))
    function(Box("cpu"))


def test_leaves_the_device(device):
    """Numbers, lists and copies on the CPU can be had."""
    b = Box(device)
    assert b.x[1, 2].item() == 5.0
    assert b.x.tolist() == b.cpu.tolist()
    assert (float(b.x.sum()), int(b.x.argmax()), bool((b.x >= 0).all())) == (15.0, 5, True)
    assert f"{b.x.sum():.2f}" == "15.00"
    assert torch.equal(b.x.cpu(), b.cpu)
    assert b.x.cpu().numpy().sum() == 15
    assert torch.tensor([b.x.sum(), b.x.max()]).device.type == "cpu"
    assert torch.equal(torch.zeros(2, 3).copy_(b.x), b.cpu)


def test_printing(device):
    """A printed tensor says where it is."""
    assert repr(Box(device).x[0]) == f"tensor([0., 1., 2.], device='{device}:0')"
    assert repr(nn.Parameter(Box(device).x)).startswith(
        "Parameter containing:\ntensor([[0., 1., 2.]"
    )
    assert f"{Box(device).x[0]}" == repr(Box(device).x[0])


def test_devices_compared(device):
    """A device without a number is the first; to be there already costs no copy."""
    x = Box(device).x
    assert x.device == torch.device(device, 0)
    assert x.to(device) is x
    assert x.to(x.device) is x
    assert x.to("cpu", torch.float64).device.type == "cpu"
    with torch.device(device):
        assert torch.zeros(2).device.type == device


def test_generators(device):
    """A generator on the device knows where it is, and decides alone what is drawn."""
    generator = Box(device).generator()
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.Generator(), torch.Generator)
    assert torch.Generator().device.type == "cpu"
    assert generator.device.type == device
    first = torch.rand(4, device=device, generator=generator)
    torch.rand(3, device=device)
    second = torch.rand(4, device=device, generator=generator)
    assert not torch.equal(first, second)
    assert torch.equal(torch.rand(4, device=device, generator=generator.manual_seed(3)), first)
    state = generator.get_state()
    numbers = torch.randint(9, (5,), device=device, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.randint(9, (5,), device=device, generator=generator), numbers)
    assert torch.empty(2, device=device).normal_(generator=generator).device.type == device


def test_random_state_is_forked(device):
    """What is drawn within `fork_rng` leaves no trace."""

    def drawn():
        return torch.rand(2, device=device)

    torch.manual_seed(1)
    first, second = drawn(), drawn()
    torch.manual_seed(1)
    assert torch.equal(drawn(), first)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert torch.equal(drawn(), first)
    assert torch.equal(drawn(), second)


class ThroughNumpy(torch.autograd.Function):
    """A backward pass that leaves the device on its way."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return torch.from_numpy(2 * gradient.numpy())


def checkpointed(x, use_reentrant):
    """A layer that makes a CPU tensor when it is computed again."""
    devices = iter(["practice", "cpu"])

    def layer(x):
        return (x.exp() * torch.ones(3, device=next(devices))).exp()

    return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=use_reentrant)


def hooked(x):
    """A hook that expects the gradient on the CPU."""
    y = 2 * x
    y.register_hook(lambda gradient: gradient * torch.ones(3))
    return y


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (ThroughNumpy.apply, "convert practice:0 device type tensor to numpy"),
        (functools.partial(checkpointed, use_reentrant=True), "at least two devices"),
        (functools.partial(checkpointed, use_reentrant=False), "at least two devices"),
        (hooked, "at least two devices"),
    ],
    ids=["function", "reentrant", "checkpoint", "hook"],
)
def test_backward_pass_that_fails_raises(compute, message):
    """What is raised within autograd arrives, and does not end the process."""
    with practice.running():
        x = torch.ones(3, device="practice", requires_grad=True)
        with pytest.raises((RuntimeError, TypeError), match=message):
            compute(x).sum().backward()


def test_model_is_the_cpus():
    """Outputs, gradients and a step of Adam are the CPU's to the last bit, dropout included."""
    model = make_model(11, 11, n=2, d_model=16, d_ff=32, h=2, dropout=0.1)
    source, target = torch.randint(1, 11, (2, 5)), torch.randint(1, 11, (2, 4))
    masks = torch.ones(2, 1, 5, dtype=torch.bool), torch.ones(2, 4, 4, dtype=torch.bool).tril()
    results = []
    with practice.running():
        for device_name in ("cpu", "practice"):
            placed = copy.deepcopy(model).to(device_name)
            adam = torch.optim.Adam(placed.parameters())
            torch.manual_seed(1)
            out = placed.generator(
                placed(*(tensor.to(device_name) for tensor in (source, target, *masks)))
            )
            out.sum().backward()
            gradients = [parameter.grad.cpu().clone() for parameter in placed.parameters()]
            nn.utils.clip_grad_norm_(placed.parameters(), 1.0)
            adam.step()
            results.append(
                [
                    out.cpu(),
                    *gradients,
                    *(parameter.detach().cpu() for parameter in placed.parameters()),
                ]
            )
    assert all(torch.equal(tensor, other) for tensor, other in zip(*results, strict=True))


class Holding(nn.Module):
    """A parameter used twice, a buffer, and a tensor that is neither."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3, 4)
        self.head = nn.Linear(4, 3, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.ones(4))
        self.attribute = torch.ones(4)


def test_modules(device):
    """Parameters and buffers move and stay tied, attributes do not move; copies and files keep them."""
    module = Holding()
    adam = torch.optim.Adam(module.parameters())
    before = module.embed.weight
    module.to(device)
    assert module.embed.weight is before
    assert adam.param_groups[0]["params"][0] is before
    for copied in (module, copy.deepcopy(module)):
        assert copied.embed.weight is copied.head.weight
        assert isinstance(copied.embed.weight, nn.Parameter)
        assert copied.embed.weight.requires_grad
        assert (copied.table.device.type, copied.attribute.device.type) == (device, "cpu")
    assert module.load_state_dict(Holding().state_dict())
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    stored = torch.load(file, weights_only=True)
    assert torch.equal(stored["table"].cpu(), torch.ones(4))
    module.embed.weight.data = module.embed.weight.data * 0
    assert not module.head.weight.any()
    plain = nn.Parameter(torch.ones(2))
    plain.data = plain.data.to(device)
    assert plain.device.type == device
    assert module.to("cpu").embed.weight.device.type == "cpu"
    assert module.embed.weight is module.head.weight


def test_autograd(device):
    """Views, changes in place and hooks are differentiated through as anywhere."""
    results = []
    for target in ("cpu", device):
        x = torch.arange(6.0).view(2, 3).to(target).requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y[:, 1] = 0
        y.register_hook(lambda gradient: gradient * 2)
        (y.exp().sum() + x.cumsum(0).prod()).backward()
        assert x.grad.device.type == target
        results.append(x.grad.cpu())
    assert torch.allclose(*results)


def test_autocast(device):
    """Matrix products are in half precision and softmax in float32, as CUDA has it."""
    layer, x = nn.Linear(3, 3).to(device), Box(device).x
    with torch.autocast(device, torch.bfloat16):
        y = layer(x)
        assert (y.dtype, (x @ x.T).dtype) == (torch.bfloat16, torch.bfloat16)
        assert y.softmax(-1).dtype == torch.float32
        with torch.autocast(device, enabled=False):
            assert layer(x).dtype == torch.float32
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_there_only_while_it_runs():
    """Outside, torch has no accelerator and its own generators."""
    before = torch.Generator
    with practice.running():
        assert torch.accelerator.current_accelerator().type == "practice"
    assert torch.Generator is before
    assert not torch.accelerator.is_available() or torch.cuda.is_available()
