"""The window in blocks against attention under its mask, and both against Longformer."""

import pytest
import torch

from implementation import attention
from tests.variants.recorders import Results
from variants.sliding_window import sliding_window_attention, sliding_window_mask


def inputs(*batch, t=7, d_k=5, d_v=3, dtype=torch.float64):
    """Queries, keys and values that want gradients."""
    shapes = (t, d_k), (t, d_k), (t, d_v)
    return [torch.randn(*batch, *shape, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("t", [0, 1, 65, 200])
@pytest.mark.parametrize("window", [0, 3, 70, 300])
@pytest.mark.parametrize("global_tokens", [0, 2, 70, 300])
def test_in_blocks_it_is_attention_under_the_mask(t, window, global_tokens):
    """Output and gradients."""
    heads = inputs(2, t=t)
    ours = sliding_window_attention(*heads, window, global_tokens)
    mask = sliding_window_mask(t, window, global_tokens)
    theirs, _ = attention(*heads, mask)
    assert ours.shape == (2, t, 3)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = torch.randn_like(ours)
    gradients = [torch.autograd.grad(out, heads, direction) for out in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("global_tokens", [0, 1, 3])
def test_it_is_longformers_with_half_its_window(global_tokens):
    """With the weights of global attention set to those of the other."""
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    from transformers import LongformerConfig

    w, t, d = 6, 24, 10
    config = LongformerConfig(
        hidden_size=d, num_attention_heads=2, attention_window=[w], attention_probs_dropout_prob=0.0
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
    heads = [
        getattr(theirs, name)(x).unflatten(-1, (2, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    ]
    mask = sliding_window_mask(t, w // 2, global_tokens)
    for output in (
        attention(*heads, mask)[0],
        sliding_window_attention(*heads, w // 2, global_tokens),
    ):
        # their softmax is in float32 whatever the dtype, hence the tolerance
        joined = output.transpose(1, 2).flatten(-2)
        torch.testing.assert_close(joined, expected, rtol=0, atol=1e-6)


def operations(t, window, global_tokens, masked=False):
    """The results of all operations, forward and backward."""
    heads = inputs(t=t, dtype=torch.float32)
    with Results() as results:
        if masked:
            out, _ = attention(*heads, sliding_window_mask(t, window, global_tokens)[0])
        else:
            out = sliding_window_attention(*heads, window, global_tokens)
        out.sum().backward()
    return results


def test_no_tensor_is_as_large_as_the_mask():
    t, window, tokens = 2000, 70, 2
    assert operations(t, window, tokens, masked=True).held >= t * t  # the measure works
    assert operations(t, window, tokens).held <= 1.1 * t * (tokens + 3 * window)
    assert operations(t, 0, 0).held <= 1.1 * t * 3 * 64
    assert operations(100, 10**9, 0).held <= 3 * 100 * 100


def test_forward_and_backward_grow_like_t():
    """A slice taken for each block would have a gradient of T rows for each block."""
    short, long = (operations(64 * n, 20, 2).written for n in (32, 64))
    assert 1.9 * short <= long <= 2.01 * short
