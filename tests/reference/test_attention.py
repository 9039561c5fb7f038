"""`attention` and `MultiHeadedAttention` against torch's own, with its weights and gradients.

Float64 has to agree to 1e-10. For float32 and the halves the truth is float64 on the same inputs, and
`rounding` says how far off right arithmetic in the dtype may be.
"""

import copy
import math

import pytest
import torch
from torch import nn

from implementation import MultiHeadedAttention, attention
from tests.reference.oracles import (
    assert_agree,
    gradients,
    hidden,
    randomized,
    torch_attention,
    torch_multi_head_attention,
)

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
BATCHES = pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 3, 2)], ids=str)

# --- Day 8 · Attention ---------------------------------------------------------------------------

T_Q, T_K, D_K, D_V = 5, 7, 4, 3
MASKS = pytest.mark.parametrize(
    "mask_shape", [None, (T_K,), (1, T_K), (T_Q, 1), (T_Q, T_K), "full"], ids=str
)


def draw(batch=(), dtype=torch.float64):
    """Queries, keys and values, with d_v ≠ d_k and T_q ≠ T_k."""
    shapes = (T_Q, D_K), (T_K, D_K), (T_K, D_V)
    return [torch.randn(*batch, *shape).to(dtype).requires_grad_() for shape in shapes]


def draw_mask(shape, batch=()):
    """A boolean mask; `full` has the batch's dimensions too. Its last query may attend to nothing."""
    if shape is None:
        return None
    mask = torch.rand((*batch, T_Q, T_K) if shape == "full" else shape) < 0.6
    if mask.dim() > 1 and mask.size(-2) == T_Q:
        mask[..., -1, :] = False
    return mask


def doubled(tensors):
    """The same tensors in float64, for the truth."""
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def rounding(query, key, dtype):
    """The most by which right arithmetic may miss the weights, as a share of the largest possible, 1.

    With u half an eps: a score is a sum of d_k products, off by at most (d_k + 2) · u₃₂ · Σ|qk| / √d_k;
    the exponential turns twice that into a relative error, to which normalizing adds (T_k + 4) · u₃₂;
    a half rounds the weight itself once more, by u or, near 0, by half its smallest number. A tenth is
    for products of such errors.
    """
    wide = torch.promote_types(dtype, torch.float32)
    u_wide, u = torch.finfo(wide).eps / 2, torch.finfo(dtype).eps / 2
    terms = query.double().abs() @ key.double().abs().mT / math.sqrt(query.size(-1))
    of_score = (query.size(-1) + 2) * u_wide * terms.max().item()
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    return 1.1 * (2 * of_score + (key.size(-2) + 4) * u_wide + u + smallest)


def assert_within(actual, expected, bound):
    """No entry is farther than the bound from the truth, a float64 tensor."""
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=bound)


@MASKS
@BATCHES
def test_attention_is_torchs(batch, mask_shape):
    """Output, weights and all three gradients are torch's, for any batch and any mask that broadcasts."""
    inputs, mask = draw(batch), draw_mask(mask_shape, batch)
    actual, expected = attention(*inputs, mask), torch_attention(*inputs, mask)
    assert_agree(actual, expected)
    upstream = [torch.randn_like(tensor) for tensor in expected]
    assert_agree(
        torch.autograd.grad(actual, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
    )


@pytest.mark.parametrize(("t_q", "t_k"), [(1, 1), (1, 6), (6, 1)])
def test_attention_of_one_token(t_q, t_k, float64):
    """A single query, a single key, or both."""
    inputs = torch.randn(2, t_q, 3), torch.randn(2, t_k, 3), torch.randn(2, t_k, 2)
    assert_agree(attention(*inputs), torch_attention(*inputs))


def test_attention_takes_strided_inputs(float64):
    """Inputs that do not lie in one block of memory give the same answer."""
    inputs = [torch.randn(6, 10, 2).movedim(-1, 0)[..., ::2] for _ in range(3)]
    assert not any(tensor.is_contiguous() for tensor in inputs)
    assert_agree(attention(*inputs), torch_attention(*map(torch.clone, inputs)))


def test_attention_leaves_its_inputs_alone():
    """Queries, keys, values and mask are the same to the bit after the call."""
    inputs = [*(tensor.detach() for tensor in draw((2,))), draw_mask("full", (2,))]
    before = [tensor.clone() for tensor in inputs]
    attention(*inputs)
    assert all(map(torch.equal, inputs, before))


@DTYPES
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_attention_is_right_to_the_rounding_of_the_dtype(dtype, scale):
    """In each dtype the result differs from float64's by what the arithmetic of `rounding` allows.

    To the output mixing adds T_k · u₃₂ and the last rounding u, all relative to the largest value.
    """
    query, key, value = (tensor.detach() for tensor in draw((8,), dtype))
    query, mask = query * scale, draw_mask("full", (8,))
    output, weights = attention(query, key, value, mask)
    assert (output.dtype, weights.dtype) == (dtype, dtype)
    expected_output, expected_weights = torch_attention(*doubled([query, key, value]), mask)
    bound = rounding(query, key, dtype)
    assert_within(weights, expected_weights, bound)
    mixing = T_K * torch.finfo(torch.float32).eps / 2 + torch.finfo(dtype).eps / 2
    assert_within(output, expected_output, (bound + 1.1 * mixing) * value.abs().max().item())


@DTYPES
def test_gradients_of_attention_are_right_to_the_rounding_of_the_dtype(dtype):
    """In each dtype the gradients differ from float64's by a few roundings of their largest terms.

    With G = max Σ|g||v| and b from `rounding` (a rounding of the weights themselves included): the
    gradient of a weight is off by b·G, that of a score by 4b·G, those of queries and keys by that
    times the sum of what they meet over √d_k, and the values' by 3b times the sum of |g|.
    """
    inputs, mask = draw((8,), dtype), draw_mask("full", (8,))
    upstream = torch.randn(8, T_Q, D_V).to(dtype)
    truths = doubled(inputs)
    expected = torch.autograd.grad(torch_attention(*truths, mask)[0], truths, upstream.double())
    actual = torch.autograd.grad(attention(*inputs, mask)[0], inputs, upstream)
    query, key, value = (tensor.detach().double().abs() for tensor in inputs)
    bound = rounding(query, key, dtype)
    of_score = 4 * bound * (upstream.double().abs() @ value.mT).max().item() / math.sqrt(D_K)
    terms = (
        of_score * key.sum(-2).max().item(),
        of_score * query.sum(-2).max().item(),
        3 * bound * upstream.double().abs().sum(-2).max().item(),
    )
    for gradient, truth, term in zip(actual, expected, terms, strict=True):
        assert gradient.dtype == dtype
        assert_within(gradient, truth, term)


@HALVES
def test_scores_that_float16_cannot_hold_do_not_overflow(dtype):
    """Scores of ±80000, which float16 cannot hold, give the weights of float32, and finite gradients."""
    query = torch.tensor([[400.0, 400], [-400, 400]], dtype=dtype, requires_grad=True)
    key = torch.tensor([[200.0, 200], [200, 200], [-200, -200]], dtype=dtype, requires_grad=True)
    value = torch.tensor([[1.0, 2], [3, 4], [5, 6]], dtype=dtype)
    assert (query @ key.mT).abs().max() > 65504
    output, weights = attention(query, key, value)
    assert_agree(weights, torch_attention(*doubled([query, key, value]))[1].to(dtype))
    assert output[0].tolist() == [2, 3]
    output.sum().backward()
    assert query.grad.isfinite().all()
    assert key.grad.isfinite().all()


@pytest.mark.parametrize("score", [-1e4, -1e6, -1e30])
def test_a_hidden_key_never_outweighs_a_low_score(score):
    """However low the scores of the keys that are left, they share all of the weight."""
    query, key = torch.tensor([[1.0]]), torch.tensor([[score], [score], [0.0]])
    value, mask = torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([True, True, False])
    output, weights = attention(query, key, value, mask)
    assert weights.tolist() == [[0.5, 0.5, 0]]
    assert output.tolist() == [[2]]


@DTYPES
@pytest.mark.parametrize("scale", [0, 1, 100])
def test_a_query_without_keys_is_exactly_zero(dtype, scale):
    """A row with every key hidden is 0, and so are the gradients through it; its neighbors are as ever."""
    query, key, value = draw((2,), dtype)
    mask = draw_mask("full", (2,))
    mask[..., 0], mask[:, -1] = True, False
    output, weights = attention(query * scale, key, value, mask)
    assert not output[:, -1].any()
    assert not weights[:, -1].any()
    for empty in (output, weights):
        for gradient in torch.autograd.grad(
            empty[:, -1].sum(), (query, key, value), retain_graph=True, materialize_grads=True
        ):
            assert not gradient.any()
    rest = attention(query[:, :-1] * scale, key, value, mask[:, :-1])
    torch.testing.assert_close((output[:, :-1], weights[:, :-1]), rest)


@DTYPES
def test_a_hidden_key_has_no_influence(dtype):
    """A hidden key has weight and gradient of exactly 0, however high its score and large its value."""
    query, key, value = draw((2,), dtype)
    mask = torch.arange(T_K) != 3
    before = attention(query, key, value, mask)
    with torch.no_grad():
        key[:, 3], value[:, 3] = 1e4 * query[:, 0].sign(), 1e4
    after = attention(query, key, value, mask)
    assert not after[1][..., 3].any()
    assert all(map(torch.equal, after, before))
    for gradient in torch.autograd.grad(after[0].sum(), (key, value)):
        assert not gradient[:, 3].any()
        assert gradient.isfinite().all()


def test_dropout_falls_on_the_weights_after_the_mask(float64):
    """`dropout` gets the finished weights, and what it returns is mixed by and returned."""
    query, key, value = draw()
    mask, seen = draw_mask((T_Q, T_K)), []

    def dropout(weights):
        seen.append(weights)
        return weights.cos()

    output, weights = attention(query, key, value, mask, dropout)
    expected = torch_attention(query, key, value, mask)[1]
    assert_agree(seen, [expected])
    assert_agree((output, weights), (expected.cos() @ value, expected.cos()))


# --- Day 9 · Multi-head attention ----------------------------------------------------------------

B, H, D_MODEL = 3, 2, 8
MULTI_HEAD_MASKS = pytest.mark.parametrize(
    "mask_shape", [None, (1, 1, T_K), (B, 1, T_K), (1, T_Q, T_K), (B, T_Q, T_K)], ids=str
)


def multi_head(h=H, dropout=0.0, d_model=D_MODEL):
    """A layer whose parameters, biases too, are all at random."""
    return randomized(MultiHeadedAttention(h, d_model, dropout))


def draw_multi_head(dtype=torch.float64):
    """Queries of one length, keys and values of another."""
    return [torch.randn(B, t, D_MODEL, dtype=dtype, requires_grad=True) for t in (T_Q, T_K, T_K)]


def draw_multi_head_mask(shape):
    """A mask for which every query sees the first key, but for the last one of the last sequence."""
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    mask[-1, -1] = False
    return mask


@MULTI_HEAD_MASKS
@pytest.mark.parametrize("h", [1, 2, 4, 8])
def test_multi_head_attention_is_torchs(h, mask_shape, float64):
    """Output and every gradient are nn.MultiheadAttention's, T_q ≠ T_k, a query without keys included."""
    layer, inputs = multi_head(h), draw_multi_head()
    mask = None if mask_shape is None else draw_multi_head_mask(mask_shape)
    oracle, their_inputs = torch_multi_head_attention(layer), doubled(inputs)
    expected, _ = oracle(*their_inputs, need_weights=False, attn_mask=hidden(mask, B, h, t_q=T_Q))
    actual, upstream = layer(*inputs, mask), torch.randn(B, T_Q, D_MODEL)
    assert_agree(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    assert_agree([x.grad for x in inputs], [x.grad for x in their_inputs])
    assert_agree(
        {name: parameter.grad for name, parameter in layer.named_parameters()}, gradients(oracle)
    )


@pytest.mark.parametrize("h", [1, 2, 4, 8])
def test_the_weights_kept_are_torchs(h, float64):
    """`.weights` is what nn.MultiheadAttention returns for each head, `(B, h, T_q, T_k)`."""
    layer, inputs = multi_head(h), draw_multi_head()
    mask = draw_multi_head_mask((B, T_Q, T_K))
    mask[-1, -1, 0] = True  # asked for its weights, torch gives NaN for a query without keys
    assert layer.weights is None
    layer(*inputs, mask)
    _, expected = torch_multi_head_attention(layer)(
        *inputs, attn_mask=hidden(mask, B, h, t_q=T_Q), average_attn_weights=False
    )
    assert layer.weights.shape == (B, h, T_Q, T_K)
    assert_agree(layer.weights, expected.detach())


@DTYPES
def test_a_query_without_keys_gives_the_output_bias(dtype):
    """Where a query may attend to nothing the output is exactly the bias of w_o, and nothing flows back."""
    layer = multi_head().to(dtype)
    inputs = [tensor.detach().requires_grad_() for tensor in draw_multi_head(dtype)]
    mask = draw_multi_head_mask((B, T_Q, T_K))
    mask[0] = False
    output = layer(*inputs, mask)
    empty = ~mask.any(-1)
    assert torch.equal(output[empty], layer.w_o.bias.expand(int(empty.sum()), -1))
    assert (output[~empty] != layer.w_o.bias).any(-1).all()
    output.sum().backward()
    for tensor in inputs:
        assert tensor.grad.isfinite().all()
        assert not tensor.grad[0].any()
    assert not inputs[0].grad[empty].any()
    assert not layer.weights[0].any()


@DTYPES
@pytest.mark.parametrize("scale", [1, 300])
def test_heads_are_right_to_the_rounding_of_the_dtype(dtype, scale):
    """The heads are those of float64 on the same projections, overflowing scores included.

    With w_o the identity the output is the heads themselves; the bound is that of `attention`.
    """
    layer = multi_head(1).to(dtype)
    nn.init.eye_(layer.w_o.weight)
    nn.init.zeros_(layer.w_o.bias)
    inputs = [tensor.detach() for tensor in draw_multi_head(dtype)]
    inputs[0] *= scale
    mask = draw_multi_head_mask((B, T_Q, T_K))
    query, key, value = (
        projection(x).detach()
        for projection, x in zip((layer.w_q, layer.w_k, layer.w_v), inputs, strict=True)
    )
    expected, _ = torch_attention(*doubled([query, key, value]), mask)
    mixing = T_K * torch.finfo(torch.float32).eps / 2 + torch.finfo(dtype).eps / 2
    bound = (rounding(query, key, dtype) + 1.1 * mixing) * value.abs().max().item()
    output = layer(*inputs, mask)
    assert output.dtype == dtype
    assert_within(output, expected, bound)


def test_a_float16_layer_survives_scores_beyond_float16():
    """Scores of ±320000 in float16: finite outputs and gradients."""
    layer = multi_head(1).half()
    inputs = [(200 * tensor).detach().half().requires_grad_() for tensor in draw_multi_head()]
    query, key = layer.w_q(inputs[0]).float(), layer.w_k(inputs[1]).float()
    assert (query @ key.mT).abs().max() > 65504
    output = layer(*inputs)
    output.float().mean().backward()
    assert output.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in inputs)


def test_everything_dropped_leaves_the_output_bias():
    """Dropout of 1 in training leaves the bias of w_o exactly, and gradients of exactly 0."""
    layer, inputs = multi_head(dropout=1.0).double(), draw_multi_head()
    output = layer(*inputs, draw_multi_head_mask((B, T_Q, T_K)))
    assert torch.equal(output, layer.w_o.bias.expand_as(output))
    output.sum().backward()
    assert not any(tensor.grad.any() for tensor in inputs)


def test_dropout_drops_its_share_of_the_weights_and_scales_the_rest():
    """In training a weight is dropped with probability p or divided by 1 − p; outside nothing happens.

    One head, values that are one-hot, and an output projection that does nothing: the output is the
    weights. The share dropped of n weights lies within 5 standard deviations, √(p(1 − p)/n) each.
    """
    t, p = 64, 0.3
    layer = multi_head(1, p, d_model=t).double()
    for projection in (layer.w_v, layer.w_o):
        nn.init.eye_(projection.weight)
        nn.init.zeros_(projection.bias)
    query, value = torch.randn(8, t, t).double(), torch.eye(t).double().expand(8, t, t)
    whole = layer.eval()(query, value, value)
    assert_agree(whole.sum(-1), torch.ones(8, t).double())
    dropped = layer.train()(query, value, value)
    kept = dropped != 0
    assert abs((~kept).double().mean().item() - p) < 5 * math.sqrt(p * (1 - p) / kept.numel())
    assert_agree(dropped, torch.where(kept, whole / (1 - p), 0))


def test_the_weights_kept_are_those_after_dropout():
    """`.weights` are what the values were mixed by: those dropped are 0 in it."""
    layer, inputs = multi_head(dropout=0.5).double(), draw_multi_head()
    layer(*inputs)
    assert 0 < (layer.weights == 0).double().mean() < 1


def test_a_layer_can_be_copied_after_a_call():
    """A deep copy after a call gives the same output and shares no parameter."""
    layer, inputs = multi_head().double(), draw_multi_head()
    output = layer(*inputs)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(*inputs), output)
    nn.init.zeros_(twin.w_o.weight)
    assert torch.equal(layer(*inputs), output)


def test_the_state_is_four_projections():
    """The state dict holds weight and bias of w_q, w_k, w_v and w_o, and no more after a call."""
    layer = multi_head().double()
    layer(*draw_multi_head())
    shapes = {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()}
    assert shapes == {
        f"w_{letter}.{kind}": shape
        for letter in "qkvo"
        for kind, shape in {"weight": (D_MODEL, D_MODEL), "bias": (D_MODEL,)}.items()
    }


@HALVES
def test_autocast_does_not_narrow_the_scores(dtype):
    """Under autocast a score that the half cannot hold is no trouble, with a mask as without."""
    generator = torch.Generator().manual_seed(0)
    layer = MultiHeadedAttention(2, 16, 0.0)
    with torch.no_grad():
        layer.w_q.weight.mul_(300.0)
        layer.w_k.weight.mul_(300.0)
    x = torch.randn(2, 5, 16, generator=generator)
    mask = torch.ones(2, 5, 5, dtype=torch.bool).tril()
    with torch.autocast("cpu", dtype=dtype):
        output = layer(x, x, x, mask)
    assert output.isfinite().all()
    assert layer.weights.sum(dim=-1).sub(1).abs().max() < 8 * torch.finfo(dtype).eps
