"""Rotary positions against the LLaMA of transformers."""

import pytest
import torch

from variants.rope import apply_rope, rope_angles


@pytest.mark.parametrize("offset", [0, 5, [5, 2]])
def test_halves_are_the_llama_of_transformers(offset):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    query = torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True)
    key = torch.randn(2, 1, 7, 8, dtype=torch.float64, requires_grad=True)
    angles = rope_angles(8, 20)
    positions = torch.tensor(offset) if isinstance(offset, list) else offset
    starts = offset if isinstance(offset, list) else [offset] * 2
    both = torch.stack([angles[start : start + 7] for start in starts]).repeat(1, 1, 2)
    theirs = llama.apply_rotary_pos_emb(query, key, both.cos(), both.sin())
    ours = tuple(apply_rope(x, angles, positions, "halves") for x in (query, key))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    grads = [
        torch.autograd.grad(q.square().sum() * k.sum(), [query, key]) for q, k in (ours, theirs)
    ]
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-10)


def test_interleaved_is_the_llama_of_transformers_permuted():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    angles = rope_angles(8, 7)
    both = angles.repeat(1, 2).unsqueeze(0)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    theirs, _ = llama.apply_rotary_pos_emb(x[..., order], x[..., order], both.cos(), both.sin())
    torch.testing.assert_close(apply_rope(x, angles)[..., order], theirs, rtol=0, atol=1e-10)


def test_angles_are_the_llama_of_transformers():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=64)
    cos, sin = llama.LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(64).unsqueeze(0))
    angles = rope_angles(16, 64).float().repeat(1, 2)
    torch.testing.assert_close(angles.cos(), cos[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(angles.sin(), sin[0], rtol=0, atol=1e-5)
