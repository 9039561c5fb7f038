"""The window as a mask, against its definition and Longformer's own; in blocks, against that mask."""

import pytest
import torch

from implementation import attention
from tests.variants.recorders import Results
from variants.sliding_window import sliding_window_attention, sliding_window_mask


def inputs(*batch, t=7, d_k=5, d_v=3, dtype=torch.float64):
    """Queries, keys and values that want gradients."""
    shapes = (t, d_k), (t, d_k), (t, d_v)
    return [torch.randn(*batch, *shape, dtype=dtype).requires_grad_() for shape in shapes]


# --- The mask -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 9])
@pytest.mark.parametrize("window", [0, 1, 3, 8, 20])
@pytest.mark.parametrize("global_tokens", [0, 1, 4, 9, 20])
def test_every_pair_is_as_defined(size, window, global_tokens):
    mask = sliding_window_mask(size, window, global_tokens)
    assert mask.dtype == torch.bool and mask.shape == (1, size, size)
    for i in range(size):
        for j in range(size):
            expected = i - window <= j <= i + window or min(i, j) < global_tokens
            assert mask[0, i, j].item() is expected, (i, j)


def test_no_global_tokens_are_the_default():
    assert torch.equal(sliding_window_mask(9, 2), sliding_window_mask(9, 2, 0))


@pytest.mark.parametrize("which", range(3))
def test_negative_numbers_are_refused(which):
    sizes = [5, 2, 1]
    sizes[which] = -1
    with pytest.raises(ValueError, match=r"size, window and global_tokens.*-1"):
        sliding_window_mask(*sizes)


# --- In blocks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0, 1, 65, 200])
@pytest.mark.parametrize("window", [0, 3, 70, 300])
@pytest.mark.parametrize("global_tokens", [0, 2, 70, 300])
def test_in_blocks_it_is_attention_under_the_mask(t, window, global_tokens):
    """Output and gradients."""
    given = inputs(2, t=t)
    ours = sliding_window_attention(*given, window, global_tokens)
    mask = sliding_window_mask(t, window, global_tokens)
    theirs, _ = attention(*given, mask)
    assert ours.shape == (2, t, 3)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = torch.randn_like(ours)
    one, other = (torch.autograd.grad(out, given, direction) for out in (ours, theirs))
    for grad, expected in zip(one, other, strict=True):
        torch.testing.assert_close(grad, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_any_leading_dimensions(batch):
    given = inputs(*batch, t=150)
    theirs, _ = attention(*given, sliding_window_mask(150, 4, 1)[0])
    ours = sliding_window_attention(*given, 4, 1)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    assert torch.equal(sliding_window_attention(*given, 4), sliding_window_attention(*given, 4, 0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_is_that_of_the_inputs(dtype):
    given = inputs(2, t=150, dtype=dtype)
    ours = sliding_window_attention(*given, 4, 1)
    theirs, _ = attention(*given, sliding_window_mask(150, 4, 1))
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs, rtol=0, atol=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("global_tokens", [0, 1, 3])
def test_it_is_longformers_with_half_its_window(global_tokens):
    """With the weights of global attention set to those of the other."""
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    from transformers import LongformerConfig

    w, t, d = 6, 24, 10
    config = LongformerConfig(
        hidden_size=d,
        num_attention_heads=2,
        attention_window=[w],
        attention_probs_dropout_prob=0.0,
    )
    theirs = longformer.LongformerSelfAttention(config, layer_id=0).double()
    for name in ("query", "key", "value"):
        own = getattr(theirs, name).state_dict()
        getattr(theirs, f"{name}_global").load_state_dict(own)
    x = torch.randn(2, t, d, dtype=torch.float64)
    is_global = (torch.arange(t) < global_tokens).expand(2, t)
    (expected, *_) = theirs(
        x,
        attention_mask=10_000.0 * is_global.double(),
        is_index_masked=torch.zeros(2, t, dtype=torch.bool),
        is_index_global_attn=is_global,
        is_global_attn=global_tokens > 0,
    )
    given = [
        getattr(theirs, name)(x).unflatten(-1, (2, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    ]
    mask = sliding_window_mask(t, w // 2, global_tokens)
    for heads in (
        attention(*given, mask)[0],
        sliding_window_attention(*given, w // 2, global_tokens),
    ):
        # their softmax is in float32 whatever the dtype, hence the tolerance
        joined = heads.transpose(1, 2).flatten(-2)
        torch.testing.assert_close(joined, expected, rtol=0, atol=1e-6)


def largest(t, window, global_tokens, masked=False):
    given = inputs(t=t, dtype=torch.float32)
    with Results() as seen:
        if masked:
            out, _ = attention(*given, sliding_window_mask(t, window, global_tokens)[0])
        else:
            out = sliding_window_attention(*given, window, global_tokens)
        out.sum().backward()
    return seen.held


def written(t, window, global_tokens):
    """How many numbers are written, all in all, forward and backward: what time grows with."""
    given = inputs(t=t, dtype=torch.float32)
    with Results() as seen:
        sliding_window_attention(*given, window, global_tokens).sum().backward()
    return seen.written


def test_no_tensor_is_as_large_as_the_mask():
    t, window, some = 2000, 70, 2
    assert largest(t, window, some, masked=True) >= t * t  # the measure sees what it is to see
    assert largest(t, window, some) <= 1.1 * t * (some + 3 * window)
    assert largest(t, 0, 0) <= 1.1 * t * 3 * 64
    assert largest(100, 10**9, 0) <= 3 * 100 * 100


def test_forward_and_backward_grow_like_t():
    """A slice taken for each block would have a gradient of T rows for each block."""
    one, two = written(64 * 32, 20, 2), written(64 * 64, 20, 2)
    assert 1.9 * one <= two <= 2.01 * one


@pytest.mark.parametrize(("window", "global_tokens"), [(-1, 0), (0, -1)])
def test_what_the_mask_refuses_is_refused(window, global_tokens):
    with pytest.raises(ValueError, match=r"window and global_tokens must be at least 0.*-1"):
        sliding_window_attention(*inputs(), window, global_tokens)


@pytest.mark.parametrize("t_q", [6, 8])
def test_as_many_queries_as_keys(t_q):
    query, _, _ = inputs(t=t_q)
    _, key, value = inputs(t=7)
    with pytest.raises(ValueError, match=f"as many queries as keys.*{t_q} and 7"):
        sliding_window_attention(query, key, value, 2)
