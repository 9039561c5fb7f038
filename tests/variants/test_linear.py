"""Linear attention against its quadratic form, against the RNN that it is, and its memory."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from variants.linear import linear_attention

LENGTHS = [1, 2, 7, 63, 64, 65, 130]  # around the ends of a chunk


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(34)


def inputs(*batch, t_q=7, t_k=None, d_k=5, d_v=3, dtype=torch.float64, scale=2.0):
    """Queries, keys and values that want gradients."""
    t_k = t_q if t_k is None else t_k
    shapes = (t_q, d_k), (t_k, d_k), (t_k, d_v)
    return [
        (scale * torch.randn(*batch, *shape, dtype=torch.float64)).to(dtype).requires_grad_()
        for shape in shapes
    ]


def quadratic(query, key, value, causal=False):
    """Eq. 4 as it is printed: all weights, a row for each query, and each row's mean of the values."""
    weights = (F.elu(query) + 1) @ (F.elu(key) + 1).transpose(-2, -1)  # (…, T_q, T_k)
    if causal:
        weights = weights.tril()
    return weights @ value / weights.sum(dim=-1, keepdim=True)


def recurrent(query, key, value):
    """Eqs. 16 to 20: one token after another, S and Z carried along."""
    outputs, s, z = [], 0.0, 0.0
    for q, k, v in zip(*(x.unbind(-2) for x in (query, key, value)), strict=True):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        s = s + torch.einsum("...k,...v->...kv", k, v)
        z = z + k
        outputs.append(torch.einsum("...k,...kv->...v", q, s) / (q * z).sum(dim=-1, keepdim=True))
    return torch.stack(outputs, dim=-2)


def agree(given, ours, theirs, atol=1e-10):
    """Values and gradients."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
    direction = torch.randn_like(ours)
    one, other = (torch.autograd.grad(out, given, direction) for out in (ours, theirs))
    for grad, expected in zip(one, other, strict=True):
        torch.testing.assert_close(grad, expected, rtol=0, atol=atol)


# --- Values and gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("t", LENGTHS)
def test_it_is_the_quadratic_form(t, causal):
    given = inputs(2, 3, t_q=t)
    agree(given, linear_attention(*given, causal=causal), quadratic(*given, causal))


@pytest.mark.parametrize("t", LENGTHS)
def test_causal_it_is_a_recurrent_network(t):
    given = inputs(2, t_q=t, d_k=4, d_v=6)
    agree(given, linear_attention(*given, causal=True), recurrent(*given))


@pytest.mark.parametrize(("t_q", "t_k"), [(7, 4), (4, 7), (1, 200), (200, 1)])
def test_queries_and_keys_of_different_lengths(t_q, t_k):
    given = inputs(3, t_q=t_q, t_k=t_k)
    agree(given, linear_attention(*given), quadratic(*given))


@pytest.mark.parametrize("batch", [(), (1,), (2, 1, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_any_leading_dimensions(batch, causal):
    given = inputs(*batch, t_q=70, d_k=3, d_v=1)
    agree(given, linear_attention(*given, causal=causal), quadratic(*given, causal))


def test_it_sees_all_keys_unless_it_is_causal():
    query, key, value = inputs(t_q=130)
    for causal in (False, True):
        for i in (0, 63, 64, 100, 129):
            out = linear_attention(query, key, value, causal=causal)[i].sum()
            seen = torch.autograd.grad(out, value)[0].abs().sum(-1) > 0
            assert seen.tolist() == [j <= i or not causal for j in range(130)]


def test_not_causal_is_the_default():
    given = inputs(2)
    assert torch.equal(linear_attention(*given), linear_attention(*given, causal=False))
    assert not torch.allclose(linear_attention(*given), linear_attention(*given, causal=True))


def test_values_that_are_all_one_come_back():
    """The weights of a query sum to 1, whatever the keys."""
    query, key, _ = inputs(2, t_q=70)
    for causal in (False, True):
        out = linear_attention(query, key, torch.ones(2, 70, 4, dtype=torch.float64), causal)
        torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=1e-13)


# --- Extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_empty(causal):
    assert linear_attention(*inputs(2, t_q=0), causal=causal).shape == (2, 0, 3)
    assert linear_attention(*inputs(0, t_q=5), causal=causal).shape == (0, 5, 3)


def test_no_keys_give_zeros_and_gradients_of_zero():
    given = inputs(2, t_q=4, t_k=0)
    out = linear_attention(*given)
    assert torch.equal(out, torch.zeros(2, 4, 3, dtype=torch.float64))
    grads = torch.autograd.grad(out.sum(), given)
    assert not grads[0].any() and grads[1].shape == (2, 0, 5)
    assert linear_attention(*inputs(2, t_q=0, t_k=4)).shape == (2, 0, 3)


@pytest.mark.parametrize("causal", [False, True])
def test_a_sum_of_weights_that_is_zero_gives_zeros(causal):
    """e^−200 is 0 in float32."""
    query, key, value = inputs(2, t_q=4, dtype=torch.float32)
    given = [query, torch.full_like(key, -200.0).requires_grad_(), value]
    out = linear_attention(*given, causal=causal)
    assert not out.any()
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), given))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_far_below_zero_weigh_rightly(dtype, causal):
    """Where all features of a query, or of all keys, are about −20 the weights' ratios are as ever."""
    for far in (0, 1):
        given = [x.detach() for x in inputs(2, t_q=9, scale=1.0)]
        given[far] = given[far] - 20
        maps = [torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in given[:2]]
        weights = maps[0] @ maps[1].mT
        weights = weights.tril() if causal else weights
        expected = weights @ given[2] / weights.sum(dim=-1, keepdim=True)
        ours = linear_attention(*(x.to(dtype) for x in given), causal=causal)
        eps = torch.finfo(dtype).eps  # what rounding −20 does to e^−20 is 20 of them
        torch.testing.assert_close(ours.double(), expected, rtol=0, atol=100 * eps)


def test_at_zero_the_map_has_the_slope_one():
    given = [torch.zeros_like(x).requires_grad_() for x in inputs()[:2]] + inputs()[2:]
    agree(given, linear_attention(*given), quadratic(*given))


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_is_that_of_the_inputs(dtype, causal):
    """A sum over 1,500 keys, which float16 could not hold, nor bfloat16 count."""
    given = [x.detach() for x in inputs(2, t_q=1500, dtype=dtype)]
    given[1], given[2] = given[1] + 20, given[2] + 20
    out = linear_attention(*given, causal=causal)
    assert out.dtype == dtype
    expected = quadratic(*(x.double() for x in given), causal)
    wide = dtype in (torch.float32, torch.float64)  # whose rounding the sums have, 1,500 times
    rtol = (100 if wide else 1) * torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_autocast_does_not_narrow_the_sums(causal):
    given = inputs(2, t_q=70, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = linear_attention(*given, causal=causal)
    assert torch.equal(inside, linear_attention(*given, causal=causal))


def test_inputs_stay_as_they_are():
    given = inputs(2, t_q=70)
    before = [x.detach().clone() for x in given]
    linear_attention(*given, causal=True)
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))


# --- Memory ---------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor holds that any operation has made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                held = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.numbers = max(self.numbers, held)
        return out


def largest(function, given, **how):
    with Largest() as seen:
        function(*given, **how).sum().backward()
    return seen.numbers


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_is_as_large_as_the_scores(causal):
    t, d = 1000, 16
    given = inputs(t_q=t, d_k=d, d_v=d, dtype=torch.float32)
    assert largest(quadratic, given, causal=causal) >= t * t  # the measure sees what it is to see
    rounded_up = 1024 * 64  # a chunk's scores for all chunks
    assert largest(linear_attention, given, causal=causal) <= rounded_up


def kept(function, given, **how):
    """How many numbers are kept for the backward pass."""
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*given, **how)
    assert result.requires_grad
    return sum(found.values())


def test_a_backward_pass_needs_one_state_for_each_chunk():
    t, d = 1024, 64
    given = inputs(t_q=t, d_k=d, d_v=d, dtype=torch.float32)
    assert kept(recurrent, given) >= t * d * d
    ours = kept(linear_attention, given, causal=True)
    assert ours <= t * d * d / 4
    twice = inputs(t_q=2 * t, d_k=d, d_v=d, dtype=torch.float32)
    assert kept(linear_attention, twice, causal=True) <= 2.01 * ours


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(("t_q", "t_k"), [(3, 4), (4, 3), (0, 1)])
def test_causal_needs_as_many_queries_as_keys(t_q, t_k):
    with pytest.raises(ValueError, match=f"causal.*{t_q} queries and {t_k} keys"):
        linear_attention(*inputs(t_q=t_q, t_k=t_k), causal=True)
