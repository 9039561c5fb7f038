"""Latent attention beside transformers' DeepSeek-V3, and its absorbed form beside itself."""

import pytest
import torch

from variants.latent import LatentConfig, MultiHeadLatentAttention, QKNorm

SMALL = LatentConfig(d_model=20, n_heads=3, d_k=6, d_c=10, d_r=4, context=32)


@pytest.fixture
def ours():
    torch.manual_seed(43)
    return MultiHeadLatentAttention(SMALL).double()


@pytest.fixture
def x():
    return torch.randn(2, 9, 20, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.slow
def test_it_is_deepseeks(ours, x):
    """The same output with copied weights, gradients of the input included."""
    modeling = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    config = modeling.DeepseekV3Config(
        hidden_size=20,
        num_attention_heads=3,
        num_key_value_heads=3,
        q_lora_rank=None,
        qk_nope_head_dim=6,
        v_head_dim=6,
        kv_lora_rank=10,
        qk_rope_head_dim=4,
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    theirs = modeling.DeepseekV3Attention(config, 0).double()
    with torch.no_grad():
        split = [part.weight.unflatten(0, (3, -1)) for part in (ours.w_q, ours.w_qr)]
        theirs.q_proj.weight.copy_(torch.cat(split, 1).flatten(0, 1))
        theirs.kv_a_proj_with_mqa.weight.copy_(torch.cat([ours.w_dkv.weight, ours.w_kr.weight]))
        split = [part.weight.unflatten(0, (3, -1)) for part in (ours.w_uk, ours.w_uv)]
        theirs.kv_b_proj.weight.copy_(torch.cat(split, 1).flatten(0, 1))
        theirs.o_proj.weight.copy_(ours.w_o.weight)
    cos, sin = (torch.cat([f(ours.angles[:9])] * 2, -1)[None] for f in (torch.cos, torch.sin))
    mask = torch.full((9, 9), -torch.inf).triu(1).double()[None, None]
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    expected = theirs(inputs[0], (cos, sin), mask)[0]
    output = ours(inputs[1])[0]
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)  # their norm is in float32
    for loss in (expected, output):
        loss.square().sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunks", [(9,), (4, 1, 3, 1)])
def test_absorbed_is_the_same_in_chunks(ours, x, chunks):
    """Outputs and cache, and the gradients of all weights."""
    expected, full_cache = ours(x)
    cache, outputs = None, []
    for chunk in x.split(chunks, dim=1):
        output, cache = ours.absorbed(chunk, cache)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, 1), expected)
    torch.testing.assert_close(cache, full_cache)
    assert cache.shape == (2, 9, SMALL.d_c + SMALL.d_r)
    parameters = list(ours.parameters())
    first = torch.autograd.grad(expected.square().sum(), parameters)
    second = torch.autograd.grad(torch.cat(outputs, 1).square().sum(), parameters)
    torch.testing.assert_close(second, first)


def test_normalized_logits_are_bounded():
    """By the gains: however large queries and keys are."""
    query, key = QKNorm(8)(1e4 * torch.randn(5, 8), 1e-2 + torch.rand(7, 8))
    assert (query @ key.T / 8**0.5).abs().max() <= 8**0.5 * 1.0001
