"""Grouped queries against full attention with repeated heads: output, gradients, memory."""

import pytest
import torch
import torch.nn.functional as F

from implementation import MultiHeadedAttention, subsequent_mask
from tests.variants.recorders import Results
from variants.grouped_query import GroupedQueryAttention

SIZES = [(12, 6, 6), (12, 6, 3), (12, 6, 2), (12, 6, 1), (8, 1, 1), (8, 8, 4)]


def repeated(module, d_model, n_heads, n_kv_heads):
    """Day 9's attention, whose key and value matrices hold each group's rows once for each head."""
    full = MultiHeadedAttention(n_heads, d_model, dropout=0.0).to(module.w_q.weight.dtype)
    d_k = d_model // n_heads
    for name in ("w_q", "w_k", "w_v", "w_o"):
        weight = getattr(module, name).weight
        if name in ("w_k", "w_v"):
            share = n_heads // n_kv_heads
            rows = [weight[i // share * d_k : (i // share + 1) * d_k] for i in range(n_heads)]
            weight = torch.cat(rows)
        getattr(full, name).weight.data.copy_(weight)
        getattr(full, name).bias.data.zero_()
    return full


@pytest.mark.parametrize(("d_model", "n_heads", "n_kv_heads"), SIZES)
@pytest.mark.parametrize("t", [1, 7])
def test_it_is_full_attention_with_repeated_heads(d_model, n_heads, n_kv_heads, t):
    module = GroupedQueryAttention(d_model, n_heads, n_kv_heads).double()
    full = repeated(module, d_model, n_heads, n_kv_heads)
    x = torch.randn(3, t, d_model, dtype=torch.float64, requires_grad=True)
    ours, theirs = module(x), full(x, x, x, subsequent_mask(t))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    direction = torch.randn_like(ours)
    names = ["w_q", "w_k", "w_v", "w_o"]
    grads, whole = (
        torch.autograd.grad(out, [x, *(getattr(m, name).weight for name in names)], direction)
        for out, m in ((ours, module), (theirs, full))
    )
    share, d_k = n_heads // n_kv_heads, d_model // n_heads
    for name, grad, other in zip(["x", *names], grads, whole, strict=True):
        if name in ("w_k", "w_v"):  # what a group's heads send back is added up
            other = other.view(n_kv_heads, share, d_k, d_model).sum(1).flatten(0, 1)
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_it_is_torchs_fused_grouped_attention(n_kv_heads):
    module = GroupedQueryAttention(16, 4, n_kv_heads).double()
    query, key, value = module.project(torch.randn(2, 9, 16, dtype=torch.float64))
    assert query.shape == (2, 4, 9, 4) and key.shape == value.shape == (2, n_kv_heads, 9, 4)
    fused = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    expected = fused.transpose(1, 2).flatten(-2)
    torch.testing.assert_close(module.attend(query, key, value), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_it_is_the_attention_of_llama_without_positions(n_kv_heads):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=16,
        num_attention_heads=4,
        num_key_value_heads=n_kv_heads,
        attn_implementation="eager",
    )
    theirs = llama.LlamaAttention(config, layer_idx=0).double()
    ours = GroupedQueryAttention(16, 4, n_kv_heads).double()
    for name in ("q", "k", "v", "o"):
        source = getattr(theirs, f"{name}_proj").state_dict()
        getattr(ours, f"w_{name}").load_state_dict(source)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    still = torch.ones(2, 7, 4, dtype=torch.float64), torch.zeros(2, 7, 4, dtype=torch.float64)
    future = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1).expand(2, 1, 7, 7)
    # its softmax is in float32 whatever the dtype, hence the tolerance
    out = theirs(x, position_embeddings=still, attention_mask=future)[0]
    torch.testing.assert_close(ours(x), out, rtol=0, atol=1e-6)


def test_a_token_sees_itself_and_the_past_only():
    module = GroupedQueryAttention(12, 6, 2)
    x = torch.randn(1, 6, 12, requires_grad=True)
    for t in range(6):
        (grad,) = torch.autograd.grad(module(x)[0, t].sum(), x)
        seen = grad[0].abs().sum(-1) > 0
        assert seen.tolist() == [s <= t for s in range(6)]


@pytest.mark.parametrize("t_q", [0, 1, 3, 8])
def test_the_queries_are_the_last_positions(t_q):
    module = GroupedQueryAttention(12, 6, 2).double()
    query, key, value = module.project(torch.randn(2, 8, 12, dtype=torch.float64))
    last = module.attend(query[:, :, 8 - t_q :], key, value)
    torch.testing.assert_close(
        last, module.attend(query, key, value)[:, 8 - t_q :], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("n_kv_heads", [2, 1])
def test_keys_and_values_are_never_repeated(n_kv_heads):
    module = GroupedQueryAttention(256, 8, n_kv_heads)
    query = torch.randn(1, 8, 1, 32, requires_grad=True)
    key, value = torch.randn(2, 1, n_kv_heads, 500, 32, requires_grad=True)
    with Results() as repeating:
        key.repeat_interleave(8 // n_kv_heads, dim=1)
    assert repeating.held >= 8 * 500 * 32  # the measure sees what it is to see
    with Results() as largest:
        module.attend(query, key, value).sum().backward()
    assert largest.held <= 2 * n_kv_heads * 500 * 32  # the gradient of both, as they were made


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_is_that_of_the_input(dtype):
    module = GroupedQueryAttention(12, 6, 2).to(dtype)
    x = torch.randn(2, 5, 12).to(dtype)
    out = module(x)
    assert out.dtype == dtype
    expected = module.double()(x.double())
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_shapes_and_parameters():
    module = GroupedQueryAttention(12, 6, 2)
    assert {name: tuple(weight.shape) for name, weight in module.state_dict().items()} == {
        "w_q.weight": (12, 12),
        "w_k.weight": (4, 12),
        "w_v.weight": (4, 12),
        "w_o.weight": (12, 12),
    }
    assert module(torch.zeros(2, 0, 12)).shape == (2, 0, 12)
    assert module(torch.zeros(0, 5, 12)).shape == (0, 5, 12)


@pytest.mark.parametrize("n_kv_heads", [0, -1, 4, 5, 12])
def test_kv_heads_that_do_not_divide_the_heads_are_refused(n_kv_heads):
    with pytest.raises(ValueError, match="n_kv_heads must divide n_heads"):
        GroupedQueryAttention(12, 6, n_kv_heads)


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 5), (12, 0), (12, 24), (0, 4)])
def test_heads_that_do_not_divide_d_model_are_refused(d_model, n_heads):
    with pytest.raises(ValueError, match="n_heads must divide d_model"):
        GroupedQueryAttention(d_model, n_heads, 1)


def test_more_queries_than_keys_are_refused():
    module = GroupedQueryAttention(12, 6, 2)
    query, key, value = module.project(torch.randn(2, 4, 12))
    with pytest.raises(ValueError, match="4"):
        module.attend(query, key[:, :, :3], value[:, :, :3])
