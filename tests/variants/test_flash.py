"""Flash attention against day 8's, loops and torch's own kernel; and what it holds, number by number."""

import math
import runpy
import sys
import weakref
from operator import mul

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from implementation import attention
from variants.flash import flash_attention

# (leading dimensions, T_q, T_k, d_k, d_v, block)
SIZES = [
    ((2, 3), 7, 11, 4, 5, 4),
    ((2,), 11, 7, 5, 3, 4),
    ((), 9, 9, 3, 2, 1),
    ((2, 1, 2), 8, 8, 4, 4, 4),
    ((3,), 5, 13, 2, 6, 64),
    ((1,), 130, 70, 8, 4, 64),
    ((2,), 1, 9, 3, 4, 2),
    ((2,), 9, 1, 3, 4, 2),
    ((4,), 1, 1, 1, 1, 1),
]


# Where Triton is installed, the kernel runs on a GPU, or slowly in Triton's interpreter.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(33)


def inputs(batch, t_q, t_k, d_k, d_v, dtype=torch.float64):
    shapes = (t_q, d_k), (t_k, d_k), (t_k, d_v)
    return [torch.randn(*batch, *shape).to(dtype).requires_grad_() for shape in shapes]


def border(t_q, t_k):
    """Query i of T_q sees keys up to T_k − T_q + i."""
    return torch.tensor([[j <= t_k - t_q + i for j in range(t_k)] for i in range(t_q)]).view(
        t_q, t_k
    )


def assert_same(ours, theirs, given, atol=1e-12):
    direction = torch.randn_like(ours)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
    mine = torch.autograd.grad(ours, given, direction)
    yours = torch.autograd.grad(theirs, given, direction)
    for one, other in zip(mine, yours, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


# --- Values and gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_it_is_the_attention_of_day_8(sizes, causal):
    *shape, block = sizes
    given = inputs(*shape)
    theirs, _ = attention(*given, border(*shape[1:3]).bool() if causal else None)
    assert_same(flash_attention(*given, block=block, causal=causal), theirs, given)


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_torchs_fused_attention(causal):
    given = inputs((2, 3), 75, 75, 8, 8)
    theirs = F.scaled_dot_product_attention(*given, is_causal=causal)
    assert_same(flash_attention(*given, causal=causal), theirs, given)


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_mean_written_out(causal):
    """One query after the other, one key after the other, in Python's own numbers."""
    query, key, value = inputs((), 6, 4, 3, 2)
    out = flash_attention(query, key, value, block=3, causal=causal).tolist()
    for i, q in enumerate(query.tolist()):
        seen = range(max(0, 4 - 6 + i + 1) if causal else 4)
        dots = (sum(map(mul, q, key[j].tolist())) for j in seen)
        scores = [dot / math.sqrt(3) for dot in dots]
        total = sum(map(math.exp, scores))
        for f in range(2):
            mean = sum(math.exp(s) * value[j, f].item() for s, j in zip(scores, seen, strict=True))
            assert out[i][f] == pytest.approx(mean / total if total else 0.0, abs=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_differences(causal):
    given = inputs((2,), 5, 4, 3, 2)
    torch.autograd.gradcheck(lambda *x: flash_attention(*x, block=2, causal=causal), given)


@pytest.mark.parametrize("block", [1, 2, 5, 16, 17, 64, 1000])
def test_the_block_changes_nothing(block):
    given = inputs((2,), 17, 23, 4, 3)
    ours = flash_attention(*given, block=block, causal=True)
    assert_same(ours, flash_attention(*given, causal=True), given)


@pytest.mark.parametrize("rising", [False, True])
def test_large_scores(rising):
    """Scores of ±1e4, in an order in which each tile's maximum is higher, or lower, than the last's."""
    query, key, value = inputs((2,), 9, 40, 4, 3)
    with torch.no_grad():
        query.mul_(100)
        key.mul_(100)
        order = (query.sum(dim=1, keepdim=True) @ key.mT).squeeze(1).argsort(descending=not rising)
        key.copy_(key.gather(1, order.unsqueeze(-1).expand_as(key)))
    given = [query, key, value]
    theirs, _ = attention(*given)
    assert_same(flash_attention(*given, block=8), theirs, given, atol=1e-10)


def test_the_lowest_scores():
    """All scores lie at minus a million, far below 0."""
    given = inputs((2,), 5, 9, 2, 3)
    with torch.no_grad():
        given[0][..., 0], given[1][..., 0] = 1000.0, -1000.0
    theirs, _ = attention(*given)
    assert_same(flash_attention(*given, block=4), theirs, given, atol=1e-6)


# --- Extremes -------------------------------------------------------------------------------------


def test_a_query_without_keys_gives_0_and_passes_nothing_on():
    """Five queries before the first key: blocks that see nothing, and one that does in part."""
    given = inputs((2,), 9, 4, 3, 2)
    out = flash_attention(*given, block=2, causal=True)
    assert torch.equal(out[:, :5], torch.zeros(2, 5, 2, dtype=torch.float64))
    assert (out[:, 5:] != 0).all()
    grads = torch.autograd.grad(out, given, torch.randn_like(out))
    assert all(grad.isfinite().all() for grad in grads)
    assert torch.equal(grads[0][:, :5], torch.zeros(2, 5, 3, dtype=torch.float64))
    grads = torch.autograd.grad(flash_attention(*given, causal=True)[:, :5].sum(), given)
    assert all(torch.equal(grad, torch.zeros_like(grad)) for grad in grads)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("batch", "t_q", "t_k"), [((2,), 5, 0), ((2,), 0, 5), ((2,), 0, 0), ((0, 2), 3, 4), ((), 0, 3)]
)
def test_nothing_at_all(batch, t_q, t_k, causal):
    given = inputs(batch, t_q, t_k, 3, 2)
    out = flash_attention(*given, block=2, causal=causal)
    assert torch.equal(out, torch.zeros(*batch, t_q, 2, dtype=torch.float64))
    for one, grad in zip(given, torch.autograd.grad(out.sum(), given), strict=True):
        assert torch.equal(grad, torch.zeros_like(one))


def test_heads_as_they_come_from_a_split():
    given = [one.transpose(1, 2) for one in inputs((2, 9), 3, 3, 4, 4)]
    theirs, _ = attention(*given)
    assert_same(flash_attention(*given, block=4), theirs, given)


def test_inputs_that_do_not_ask_get_no_gradient():
    query, key, value = inputs((2,), 5, 6, 3, 2)
    flash_attention(query, key.detach(), value, block=4).sum().backward()
    assert query.grad is not None and value.grad is not None and key.grad is None
    assert not flash_attention(*(one.detach() for one in (query, key, value))).requires_grad


def test_inputs_are_left_as_they_are():
    given = inputs((2,), 5, 6, 3, 2)
    before = [one.detach().clone() for one in given]
    flash_attention(*given, block=4, causal=True).sum().backward()
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype(dtype):
    """Values and gradients are those of float64, once rounded or nearly so."""
    given = inputs((2,), 33, 47, 5, 3, dtype)
    out = flash_attention(*given, block=8, causal=True)
    grads = torch.autograd.grad(out, given, torch.ones_like(out))
    exact = [one.detach().double().requires_grad_() for one in given]
    expected, _ = attention(*exact, border(33, 47))
    wanted = torch.autograd.grad(expected, exact, torch.ones_like(expected))
    for one, other in zip((out, *grads), (expected, *wanted), strict=True):
        assert one.dtype == dtype
        eps = torch.finfo(dtype).eps
        # What it is held against is float64 too, and off by some 1e-15: more or less of it, as the CPU adds.
        torch.testing.assert_close(one.double(), other, rtol=2 * eps, atol=4 * eps + 1e-14)


def test_halves_do_not_overflow():
    """Dot products above 65504, and a sum of more weights than float16 can count."""
    query, key = torch.full((2, 1, 4, 256), 18.0, dtype=torch.float16)
    value = torch.full((1, 4, 3), 0.5, dtype=torch.float16)
    assert torch.equal(flash_attention(query, key, value), torch.full_like(value, 0.5))
    many = torch.zeros(4099, 1, dtype=torch.float16)
    out = flash_attention(many[:1], many, torch.ones_like(many))
    assert torch.equal(out, torch.ones(1, 1, dtype=torch.float16))


def test_autocast_narrows_nothing():
    given = inputs((2,), 9, 9, 16, 16, torch.float32)
    expected = flash_attention(*given)
    with torch.autocast("cpu", torch.bfloat16):
        ours = flash_attention(*given)
        grads = torch.autograd.grad(ours.sum(), given)
    assert torch.equal(ours, expected)
    for one, other in zip(grads, torch.autograd.grad(expected.sum(), given), strict=True):
        assert torch.equal(one, other)


# --- Memory ---------------------------------------------------------------------------------------


class Held(TorchDispatchMode):
    """How many numbers are held at once in what was made inside, now and at most."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor.untyped_storage(), tensor.element_size())
        return out

    def see(self, storage, size):
        place, numbers = storage._cdata, storage.nbytes() // size
        if place not in self.known:
            self.known.add(place)
            self.now += numbers
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, place, numbers)

    def forget(self, place, numbers):
        self.known.discard(place)
        self.now -= numbers


def test_the_measure_sees_what_it_is_to_see():
    query, key, value = inputs((), 50, 60, 4, 4)
    with Held() as held:
        output, weights = attention(query, key, value)
        del weights
        assert held.now >= 50 * 60
        del output, query, key, value
    assert held.now == 0 and held.peak >= 2 * 50 * 60


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("t_q", "t_k"), [(384, 384), (192, 768), (768, 192)])
def test_memory_grows_with_the_length_and_not_with_its_square(t_q, t_k, causal):
    d_k, d_v, block = 4, 3, 32
    query, key, value = inputs((), t_q, t_k, d_k, d_v)
    gradients = t_q * d_k + t_k * (d_k + d_v)
    with Held() as held:
        out = flash_attention(query, key, value, block=block, causal=causal)
        forward, held.peak = held.peak, held.now
        kept = held.now
        out.backward(torch.ones_like(out))
    tiles = 6 * block * block  # and what goes with them
    views = gradients  # the inputs themselves, seen as views
    assert kept <= t_q * (d_v + 1) + views
    assert forward <= kept + tiles
    assert held.peak <= kept + 2 * gradients + t_q * d_v + tiles
    assert held.peak < t_q * t_k / 5


def test_what_is_kept_is_a_number_a_query():
    """Beside the inputs and the output."""
    given = inputs((2,), 9, 11, 4, 3)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        out = flash_attention(*given, block=4)
    shapes = [
        tuple(one.shape)
        for one in kept
        if one.untyped_storage().data_ptr()
        not in {held.untyped_storage().data_ptr() for held in (*given, out)}
    ]
    assert shapes == [(2, 9, 1)]
    expected = (given[0] @ given[1].mT / 2).logsumexp(dim=-1, keepdim=True)
    torch.testing.assert_close(kept[-1], expected.detach(), rtol=0, atol=1e-12)


# --- Twice ----------------------------------------------------------------------------------------


def test_a_second_derivative_is_refused():
    given = inputs((), 3, 4, 2, 2)
    (grad,) = torch.autograd.grad(
        flash_attention(*given).square().sum(), given[0], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


# --- Refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [0, -1])
def test_blocks_below_1_are_refused(block):
    with pytest.raises(ValueError, match="block must be at least 1"):
        flash_attention(*inputs((), 3, 4, 2, 2), block=block)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 4), (2, 5, 4), (2, 5, 4)), "leading dimensions"),
        (((2, 3, 4), (1, 5, 4), (1, 5, 4)), "leading dimensions"),
        (((2, 3, 4), (2, 5, 4), (1, 5, 4)), "leading dimensions"),
        (((2, 3, 4), (2, 5, 3), (2, 5, 4)), "same width"),
        (((2, 3, 4), (2, 5, 4), (2, 6, 4)), "same length"),
        (((4,), (5, 4), (5, 4)), r"must be \(…, T, d\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        flash_attention(*(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.float32, torch.float16),
        (torch.float64, torch.float32, torch.float64),
        (torch.int64, torch.int64, torch.int64),
        (torch.complex64, torch.complex64, torch.complex64),
    ],
)
def test_dtypes_that_do_not_fit_are_refused(dtypes):
    with pytest.raises(ValueError, match="same floating-point dtype"):
        flash_attention(*(torch.zeros(3, 4, dtype=dtype) for dtype in dtypes))


def test_there_is_no_mask_to_ignore():
    with pytest.raises(TypeError, match="mask"):
        flash_attention(*inputs((), 3, 4, 2, 2), mask=torch.ones(3, 4, dtype=torch.bool))


# --- The kernel for a GPU -------------------------------------------------------------------------


def test_the_kernel_is_not_imported_by_itself(monkeypatch):
    """Triton is not there on every machine."""
    monkeypatch.delitem(sys.modules, "variants.flash_triton", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)  # importing it fails
    assert "flash_attention" in runpy.run_path(flash_attention.__globals__["__file__"])
    assert "variants.flash_triton" not in sys.modules


@pytest.fixture
def flash_forward(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # before Triton and the kernel are imported
    pytest.importorskip("triton")
    from variants.flash_triton import flash_forward

    return flash_forward


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [((2,), 37, 37, 5, 3, 16), *SIZES[4:6]], ids=str)
def test_the_kernel_is_the_attention_of_day_8(flash_forward, sizes, causal, dtype):
    if DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("the interpreter computes in NumPy, which has no bfloat16")
    given = [one.detach().to(DEVICE) for one in inputs(*sizes[:-1], dtype)]
    output, log_sum = flash_forward(*given, block=sizes[-1], causal=causal)
    mask = border(*sizes[1:3]).bool().to(DEVICE) if causal else None
    expected, _ = attention(*(one.double() for one in given), mask)
    eps = torch.finfo(dtype).eps
    assert output.dtype == dtype and log_sum.dtype == torch.float32
    torch.testing.assert_close(output.double(), expected, rtol=4 * eps, atol=4 * eps)
    scores = given[0].double() @ given[1].double().mT / math.sqrt(given[0].size(-1))
    if causal:
        scores = scores.masked_fill(~mask, -math.inf)
    wanted = scores.logsumexp(dim=-1)
    wanted = wanted.masked_fill(wanted == -math.inf, math.inf)
    torch.testing.assert_close(log_sum.double(), wanted, rtol=1e-5, atol=1e-5)


def test_what_the_kernel_does_not_support_is_refused(flash_forward):
    def given(dtype=torch.float16, t_k=5, d=4):
        return [torch.zeros(3, t, d, dtype=dtype, device=DEVICE) for t in (4, t_k, 5)]

    with pytest.raises(ValueError, match="inputs must all be"):
        flash_forward(*given(torch.float64))
    with pytest.raises(ValueError, match="block"):
        flash_forward(*given(), block=48)
    with pytest.raises(ValueError, match="shapes"):
        flash_forward(*given(t_k=6))
    with pytest.raises(ValueError, match="d_k and d_v"):
        flash_forward(*given(d=257))
    with pytest.raises(ValueError, match="require gradients"):
        flash_forward(*(one.requires_grad_() for one in given()))
