"""Efficient training, against torch's own: clip_grad_norm_, GradScaler, torch.utils.checkpoint."""

import copy
import dataclasses
import math
import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as torchs_checkpoint

from variants.efficient import (
    Checkpointed,
    LossScaler,
    checkpoint,
    clip_gradients,
    train_step,
)
from variants.gpt import GPT, GPTConfig

SUMMED = partial(F.cross_entropy, reduction="sum")
CONFIG = GPTConfig(vocab=11, context=9, n_layers=3, n_heads=2, d_model=6, d_ff=10, dropout=0.0)
INFINITIES = (math.inf, -math.inf, math.nan)
pytestmark = pytest.mark.usefixtures("float64")


def equal(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, equal_nan=True)


def with_gradients(*shapes, scale=1.0, dtype=None):
    """Parameters of these shapes, the gradient of each; None for one without."""
    parameters = []
    for shape in shapes:
        parameter = nn.Parameter(torch.zeros((2, 3) if shape is None else shape, dtype=dtype))
        if shape is not None:
            parameter.grad = (scale * torch.randn(shape)).to(dtype or torch.float64)
        parameters.append(parameter)
    return parameters


def gradients(parameters):
    return [None if one.grad is None else one.grad.clone() for one in parameters]


# --- Clipping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [0.0, 0.3, 1, 4.9, 1e3, math.inf])
def test_clipping_is_torchs(max_norm):
    ours = with_gradients((3, 5), None, (7,), (1, 2, 4), ())
    theirs = copy.deepcopy(ours)
    for one, other in zip(ours, theirs, strict=True):
        other.grad = None if one.grad is None else one.grad.clone()
    norm = clip_gradients(ours, max_norm)
    equal(norm, nn.utils.clip_grad_norm_(theirs, max_norm))
    for one, other in zip(gradients(ours), gradients(theirs), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            equal(one, other)


def test_without_a_gradient_the_norm_is_0():
    for parameters in ([], with_gradients(None, None)):
        norm = clip_gradients(parameters, 1.0)
        assert (norm.shape, norm.item()) == ((), 0.0)
        assert all(one.grad is None for one in parameters)


@pytest.mark.parametrize("wrong", INFINITIES)
@pytest.mark.parametrize("max_norm", [1.0, math.inf])
def test_what_is_not_finite_is_as_torch_has_it(wrong, max_norm):
    ours = with_gradients((4,), (3,))
    ours[1].grad[1] = wrong
    theirs = [nn.Parameter(torch.zeros_like(one)) for one in ours]
    for one, other in zip(ours, theirs, strict=True):
        other.grad = one.grad.clone()
    equal(clip_gradients(ours, max_norm), nn.utils.clip_grad_norm_(theirs, max_norm))
    for one, other in zip(ours, theirs, strict=True):
        equal(one.grad, other.grad)


@pytest.mark.parametrize(
    ("dtypes", "widest"),
    [
        (("float16",), "float32"),
        (("bfloat16", "float16"), "float32"),
        (("float32", "bfloat16"), "float32"),
        (("float16", "float64"), "float64"),
    ],
)
def test_halves_are_squared_and_scaled_in_float32(dtypes, widest):
    """Their norm is beyond float16, and the factor, 10⁻⁶, has one digit there."""
    parameters = [
        with_gradients((90 + i,), scale=1e4, dtype=getattr(torch, dtype))[0].requires_grad_()
        for i, dtype in enumerate(dtypes)
    ]
    wide = [one.grad.double().clone() for one in parameters]
    norm = clip_gradients(parameters, 0.3)
    right = torch.linalg.vector_norm(torch.cat(wide))
    assert right > 7e4 and norm.dtype == getattr(torch, widest) and norm.shape == ()
    torch.testing.assert_close(norm.double(), right, rtol=1e-6, atol=0)
    for one, before in zip(parameters, wide, strict=True):
        rounding = torch.finfo(one.dtype).eps
        torch.testing.assert_close(
            one.grad.double(), before * 0.3 / right, rtol=rounding, atol=6e-8
        )


def test_clipping_leaves_no_history():
    assert not clip_gradients(with_gradients((3,)), 1.0).requires_grad


@pytest.mark.parametrize("max_norm", [-1e-9, -math.inf, math.nan])
def test_a_norm_below_0_is_refused(max_norm):
    with pytest.raises(ValueError, match=f"max_norm.*{max_norm}"):
        clip_gradients([], max_norm)


# --- Scaling --------------------------------------------------------------------------------------


def pair_of_scalers(**options):
    """Ours and torch's, with an optimizer of momentum and two groups each."""
    found = []
    for scaler in (LossScaler(**options), torch.amp.GradScaler("cpu", **options)):
        parameters = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))]
        groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.3}]
        found.append((scaler, parameters, torch.optim.SGD(groups, lr=0.1, momentum=0.9)))
    return found


@pytest.mark.parametrize("explicitly", [False, True])
@pytest.mark.parametrize("interval", [1, 2, 3])
def test_the_scaler_goes_torchs_way(explicitly, interval):
    """Scales, gradients, parameters and momentum, step by step."""
    both = pair_of_scalers(init_scale=2.0**5, growth_interval=interval)
    story = "..x...n..i....xx.....x"
    scales = []
    for event in story:
        draws = [torch.randn(3), torch.randn(2, 2)]
        if event != ".":
            draws[len(scales) % 2].view(-1)[1] = dict(zip("xin", INFINITIES, strict=True))[event]
        for scaler, parameters, optimizer in both:
            optimizer.zero_grad()
            loss = sum((one * draw).sum() for one, draw in zip(parameters, draws, strict=True))
            scaler.scale(loss).backward()
            if explicitly:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        (ours, mine, one), (theirs, others, other) = both
        assert ours.get_scale() == theirs.get_scale()
        scales.append(ours.get_scale())
        for a, b in zip(mine, others, strict=True):
            equal(a.grad, b.grad)
            equal(a, b)
            assert (a in one.state) == (b in other.state)
            if a in one.state:
                equal(one.state[a]["momentum_buffer"], other.state[b]["momentum_buffer"])
    assert len(set(scales)) > 2


def test_the_defaults_are_torchs():
    ours, theirs = LossScaler(), torch.amp.GradScaler("cpu")
    assert ours.get_scale() == theirs.get_scale() == 65536
    assert ours.growth_interval == theirs.get_growth_interval() == 2000
    assert isinstance(ours.get_scale(), float)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_scaled_loss_is_in_float32_at_least(dtype):
    loss = torch.tensor(3.25, dtype=getattr(torch, dtype))
    scaled, theirs = LossScaler().scale(loss), torch.amp.GradScaler("cpu").scale(loss)
    assert scaled.dtype == theirs.dtype and scaled.shape == ()
    assert scaled.item() == theirs.item() == 3.25 * 65536
    assert loss.item() == 3.25


def test_what_is_done_between_unscaling_and_stepping_does_not_count():
    for scaler in (LossScaler(), torch.amp.GradScaler("cpu")):
        x = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([x], lr=1.0)
        scaler.scale((x * torch.tensor([1.0, math.inf])).sum()).backward()
        scaler.unscale_(optimizer)
        x.grad.zero_()
        x.grad += 5
        scaler.step(optimizer)
        assert x.tolist() == [1, 1]
        scaler.update()
        assert scaler.get_scale() == 32768


def test_bfloat16_gradients_are_unscaled():
    x = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    x.grad = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16) * 65536
    LossScaler().unscale_(torch.optim.SGD([x], lr=1.0))
    assert x.grad.dtype == torch.bfloat16 and x.grad.tolist() == [1, 2, 3]


def test_float16_gradients_are_refused():
    x = nn.Parameter(torch.ones(3, dtype=torch.float16))
    x.grad = torch.ones_like(x)
    with pytest.raises(ValueError, match="float16"):
        LossScaler().unscale_(torch.optim.SGD([x], lr=1.0))


def test_no_gradient_at_all_is_refused():
    with pytest.raises(ValueError, match="gradient"):
        LossScaler().step(torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=1.0))


def test_calls_in_another_order_are_refused():
    x, scaler = nn.Parameter(torch.ones(3)), LossScaler()
    x.grad = torch.ones(3)
    optimizer = torch.optim.SGD([x], lr=1.0)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="at most once"):
        scaler.unscale_(optimizer)
    scaler.update()
    scaler.unscale_(optimizer)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"init_scale": 0.0}, "init_scale"),
        ({"init_scale": -2.0}, "init_scale"),
        ({"init_scale": math.inf}, "init_scale"),
        ({"init_scale": math.nan}, "init_scale"),
        ({"growth_interval": 0}, "growth_interval"),
    ],
)
def test_scalers_that_cannot_be_are_refused(options, word):
    with pytest.raises(ValueError, match=word):
        LossScaler(**options)


# --- Checkpointing --------------------------------------------------------------------------------


class Counting(nn.Module):
    """Two layers with dropout between them, which counts its calls and keeps what it dropped."""

    def __init__(self, p=0.4):
        super().__init__()
        self.one, self.two, self.dropout = nn.Linear(5, 7), nn.Linear(7, 5), nn.Dropout(p)
        self.calls, self.hidden = 0, []

    def forward(self, x, times=1.0, mask=None):
        self.calls += 1
        hidden = self.dropout(self.one(x).tanh()) * times
        self.hidden.append(hidden.detach().clone())
        return self.two(hidden if mask is None else hidden * mask)


def run(way, module, *inputs):
    """Output and all gradients, by a way to call the module."""
    module.zero_grad()
    wanting = [
        one.detach().clone().requires_grad_(one.requires_grad)
        if isinstance(one, torch.Tensor)
        else one
        for one in inputs
    ]
    torch.manual_seed(7)
    out = way(module, *wanting)
    after = torch.rand(3)
    out.square().sum().backward()
    later = torch.rand(3)
    found = [one.grad for one in wanting if isinstance(one, torch.Tensor)]
    return out, [*found, *(one.grad.clone() for one in module.parameters())], after, later


def plainly(function, *inputs):
    return function(*inputs)


@pytest.mark.parametrize("wants", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_a_checkpoint_changes_nothing(wants, p):
    """Output, gradients of inputs and parameters, and the random numbers before and after backward."""
    module, x = Counting(p), torch.randn(3, 5, requires_grad=wants)
    inputs = x, 1.5, torch.randn(7, requires_grad=True)
    results = [
        run(way, module, *inputs)
        for way in (checkpoint, plainly, partial(torchs_checkpoint, use_reentrant=False))
    ]
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            if isinstance(one, list):
                for a, b in zip(one, two, strict=True):
                    assert (a is None) == (b is None)
                    if a is not None:
                        equal(a, b)
            else:
                equal(one, two)


def test_it_is_called_once_forward_and_once_backward_with_the_same_dropout():
    module, x = Counting(), torch.randn(64, 5, requires_grad=True)
    out = checkpoint(module, x)
    assert module.calls == 1
    torch.manual_seed(99)
    torch.rand(5)
    out.sum().backward()
    assert module.calls == 2 and torch.equal(*module.hidden)
    assert (module.hidden[0] == 0).double().mean() == pytest.approx(0.4, abs=0.15)


def test_nothing_is_kept_but_the_inputs():
    """Autograd is given nothing to save, and the memory of what was computed is free again."""
    saved, alive = [], []

    def function(x, weight):
        hidden = (x @ weight).tanh()
        alive.append(weakref.ref(hidden.untyped_storage()))
        return hidden.exp().sum()

    x, weight = torch.randn(40, 30, requires_grad=True), torch.randn(30, 50, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda one: saved.append(one.nbytes) or one, lambda one: one
    ):
        out = checkpoint(function, x, weight)

    assert sum(saved) == 0
    out.backward()
    assert len(alive) == 2


def allocated(function, x):
    """Bytes that the CPU still holds after a call, beyond those before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        out = function(x)
    return sum(one.self_cpu_memory_usage for one in seen.key_averages()), out


def test_the_memory_of_what_was_computed_is_free_after_the_call():
    block = nn.Sequential(*(part for _ in range(8) for part in (nn.Linear(64, 64), nn.Tanh())))
    x = torch.randn(256, 64, requires_grad=True)
    plain, _ = allocated(block, x)
    ours, _ = allocated(lambda x: checkpoint(block, x), x)
    assert plain >= 8 * x.nbytes
    assert ours < 1.2 * x.nbytes  # the output, and a random state


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1), (2,), (0, 1, 2)])
def test_several_outputs(used):
    def function(x, y):
        return x.exp() * y, (y * 3).sin() * y, x.long(), x * x

    x, y = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    found = []
    for way in (checkpoint, plainly):
        x.grad = y.grad = None
        outputs = way(function, x, y)
        assert isinstance(outputs, tuple) and outputs[2].dtype == torch.int64
        real = [outputs[0], outputs[1], outputs[3]]
        sum((i + 1) * real[i].sum() for i in used).backward()
        found.append((real, x.grad, y.grad))
    for one, other in zip(*found, strict=True):
        if isinstance(one, list):
            list(map(equal, one, other))
        else:
            assert (one is None) == (other is None)
            if one is not None:
                equal(one, other)


def test_inputs_are_passed_on_as_they_are():
    seen = []
    given = torch.randn(2), None, 3, "word", [torch.ones(1)], torch.arange(3)
    checkpoint(lambda *inputs: seen.append(inputs) or inputs[0].exp(), *given)
    assert all(one is other for one, other in zip(seen[0], given, strict=True))


def test_without_gradients_it_is_a_call():
    module = Counting()
    with torch.no_grad():
        out = checkpoint(module, torch.randn(3, 5, requires_grad=True))
    assert not out.requires_grad and module.calls == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inside", [True, False])
def test_the_second_call_has_the_autocast_of_the_first(dtype, inside):
    """Wherever backward is called: after the context as within, or within another one."""
    torch.set_default_dtype(torch.float32)
    layer, seen = nn.Linear(5, 5), []

    def function(x):
        out = layer(x).tanh()
        seen.append(
            (out.dtype, torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda"))
        )
        return out

    x = torch.randn(3, 5, requires_grad=True)
    with torch.autocast("cpu", dtype):
        out = checkpoint(function, x)
        if inside:
            out.float().sum().backward()
    if not inside:
        out.float().sum().backward()
    out = checkpoint(function, x)
    with torch.autocast("cpu", dtype):
        out.sum().backward()
    assert seen == [(dtype, True, False)] * 2 + [(torch.float32, False, False)] * 2
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_gpt_of_checkpointed_blocks_is_gpt(dropout):
    plain = GPT(dataclasses.replace(CONFIG, dropout=dropout))
    ours = copy.deepcopy(plain)
    ours.blocks = nn.ModuleList(map(Checkpointed, ours.blocks))
    tokens = torch.randint(11, (2, 9))
    for model in (plain, ours):
        torch.manual_seed(1)
        model(tokens).logsumexp(-1).sum().backward()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        equal(one.grad, other.grad)


# --- The step -------------------------------------------------------------------------------------


def some_batches(*shapes, ignored=True):
    """Inputs `(rows, T, 4)` and targets, some of which are none."""
    batches = []
    for rows, t in shapes:
        targets = torch.randint(6, (rows, t))
        if ignored:
            targets[0, 0] = -100
        batches.append((torch.randn(rows, t, 4), targets))
    return batches


def linear():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))


def by_hand(model, batches, max_norm, lr):
    """What a step is to make of the model: all rows in one batch."""
    logits = torch.cat([model(inputs).flatten(0, -2) for inputs, _ in batches])
    targets = torch.cat([targets.flatten() for _, targets in batches])
    loss = F.cross_entropy(logits, targets)
    model.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    torch.optim.SGD(model.parameters(), lr).step()
    return loss.item(), norm.item()


@pytest.mark.parametrize("max_norm", [0.05, math.inf])
@pytest.mark.parametrize("scale", [1.0, 2.0**16, 1000.0])
@pytest.mark.parametrize("shapes", [[(3, 5)], [(3, 5), (1, 2), (4, 7)]], ids=str)
def test_a_step_is_that_of_one_batch_of_all(max_norm, scale, shapes):
    batches, ours, theirs = some_batches(*shapes), linear(), linear()
    optimizer = torch.optim.SGD(ours.parameters(), 0.5)
    told = train_step(ours, batches, SUMMED, optimizer, LossScaler(scale), max_norm)
    expected = by_hand(theirs, batches, max_norm, 0.5)
    assert told == pytest.approx(expected, rel=1e-10)
    assert all(isinstance(one, float) for one in told)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        equal(one, other)
        assert one.grad is None


def test_an_infinite_gradient_skips_the_step_and_halves_the_scale():
    model, batches = linear(), some_batches((3, 5), (2, 2))
    before = copy.deepcopy(model.state_dict())
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9), LossScaler()
    batches[0][0][0, 1, 2] = math.inf  # an input that saturates tanh, and the gradient of a weight
    loss, norm = train_step(model, batches, SUMMED, optimizer, scaler, 1.0)
    assert not math.isfinite(norm)
    assert scaler.get_scale() == 32768 and not optimizer.state
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name])
    assert all(one.grad is None for one in model.parameters())
    loss, norm = train_step(model, batches[1:], SUMMED, optimizer, scaler, 1.0)
    assert math.isfinite(loss + norm) and optimizer.state


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_forward_pass_alone_is_in_halves(dtype):
    torch.set_default_dtype(torch.float32)
    model, given, heads = linear(), [], []
    model.register_forward_hook(lambda _, __, logits: heads.append(logits.dtype))

    def loss(logits, targets):
        given.append((logits.dtype, torch.is_autocast_enabled("cpu"), logits.shape, targets.shape))
        return SUMMED(logits, targets)

    batches = some_batches((3, 5))
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.5), LossScaler()
    mean, norm = train_step(model, batches, loss, optimizer, scaler, 1.0, dtype)
    assert heads == [dtype] and given == [(torch.float32, False, (15, 6), (15,))]
    expected = by_hand(linear(), batches, 1.0, 0.5)
    assert (mean, norm) == pytest.approx(expected, rel=0.03) and mean != expected[0]
    assert all(one.dtype == torch.float32 for one in model.parameters())
    train_step(model, batches, loss, optimizer, scaler, 1.0)
    assert heads[1] == torch.float32


def test_half_precision_needs_the_scale():
    """Gradients of 10⁻⁹ are 0 in float16, and right with a scale of 65536; in bfloat16 without one."""
    torch.set_default_dtype(torch.float32)

    def norm(scale, dtype):
        torch.manual_seed(2)
        model = nn.Linear(4, 6)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        return train_step(
            model,
            some_batches((3, 5)),
            lambda logits, targets: 1e-8 * SUMMED(logits, targets),
            optimizer,
            LossScaler(scale),
            math.inf,
            dtype,
        )[1]

    right = norm(1.0, None)
    assert norm(1.0, torch.float16) == 0
    assert norm(65536.0, torch.float16) == pytest.approx(right, rel=0.02)
    assert norm(1.0, torch.bfloat16) == pytest.approx(right, rel=0.05)


def test_the_models_mode_is_left_alone():
    for training in (True, False):
        model = linear().train(training)
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        train_step(model, some_batches((3, 5)), SUMMED, optimizer, LossScaler(), 1.0)
        assert model.training == training


@pytest.mark.parametrize("batches", [[], [(torch.ones(1, 2, 4), torch.full((1, 2), -100))]])
def test_without_a_target_there_is_no_step(batches):
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with pytest.raises(ValueError, match="must have a target"):
        train_step(model, batches, SUMMED, optimizer, LossScaler(), 1.0)


class OnMps(Tensor):
    """A tensor that says it is on an Apple GPU."""

    is_mps = True


def test_checkpoint_refuses_devices_whose_random_state_it_does_not_restore():
    with pytest.raises(ValueError, match="must be on the CPU or on CUDA, got a tensor on mps"):
        checkpoint(torch.sin, torch.zeros(2).as_subclass(OnMps))
