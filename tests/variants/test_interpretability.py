"""Day 50 beside the models' own steps, a model with weights set by hand, and PyTorch's attention."""

import pytest
import torch
import torch.nn.functional as F

from variants.gpt import GPT, GPTConfig
from variants.interpretability import (
    attention_weights,
    copying_gpt,
    head_at,
    patch_activation,
    prefix_matching_score,
)
from variants.llama import LLaMA, LLaMAConfig


@pytest.fixture
def gpt():
    torch.manual_seed(50)
    return GPT(GPTConfig(11, 9, 3, 2, 8, 20, dropout=0.3)).double()


@pytest.fixture
def llama():
    torch.manual_seed(50)
    return LLaMA(LLaMAConfig(11, 9, 2, 4, 2, 16, 20)).double()


@pytest.fixture
def texts():
    generator = torch.Generator().manual_seed(50)
    return torch.randint(11, (2, 3, 7), generator=generator)


def test_weights_of_grouped_queries(llama, texts):
    """As PyTorch's own attention, which returns values alone: of the identity they are the weights."""
    expected = []
    own = F.scaled_dot_product_attention

    def recorded(query, key, value, *mask, **how):
        expected.append(own(query, key, torch.eye(7).double().expand(3, 2, 7, 7), *mask, **how))
        return own(query, key, value, *mask, **how)

    weights = attention_weights(llama, texts[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", recorded)
        llama(texts[0])
    torch.testing.assert_close(weights, expected)


def test_weights_are_those_of_evaluation_for_a_single_token_too(llama, texts):
    gpt = GPT(GPTConfig(9, 8, 2, 2, 8, 16, dropout=0.5))
    gpt.blocks[1].eval()
    before = [module.training for module in gpt.modules()]
    for first, second in zip(
        *(attention_weights(gpt, texts[0] % 9) for _ in range(2)), strict=True
    ):
        assert torch.equal(first, second)
    assert [module.training for module in gpt.modules()] == before
    for weights in attention_weights(llama, texts[0][:, :1]):
        assert torch.equal(weights, torch.ones(len(texts[0]), llama.config.n_heads, 1, 1))


def test_a_head_made_to_copy_scores_one():
    """And its model continues what repeats, whatever the segment; not without either of the heads."""
    generator = torch.Generator().manual_seed(50)
    model = copying_gpt(12, 20)
    segment = torch.rand(5, 11, generator=generator).argsort(dim=-1)[:, :6] + 1
    tokens = F.pad(segment.repeat(1, 3), (1, 0))
    first, second = attention_weights(model, tokens)
    torch.testing.assert_close(prefix_matching_score(second, tokens), torch.ones(1))
    assert prefix_matching_score(first, tokens) < 1e-3
    again, following = slice(7, 18), tokens[:, 8:]

    def right(logits):
        return (logits[:, again].argmax(-1) == following).float().mean().item()

    assert right(model(tokens)) == 1
    for layer in (0, 1):
        assert right(patch_activation(model, tokens, None, *head_at(model, layer, 0))) < 0.5
