"""Day 50 beside the models' own steps, a model with weights set by hand, and PyTorch's attention."""

import pytest
import torch
import torch.nn.functional as F

from implementation import attention
from variants.gpt import GPT, GPTConfig
from variants.inside import (
    attention_weights,
    copying_gpt,
    head_at,
    logit_lens,
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


def test_lens_is_the_model_cut_off_after_each_block(gpt, llama, texts):
    for model in (gpt.eval(), llama):
        lens = logit_lens(model, texts[0])
        blocks = list(model.blocks)
        for n in range(len(blocks) + 1):
            model.blocks = torch.nn.ModuleList(blocks[:n])
            torch.testing.assert_close(lens[n], model(texts[0]), rtol=0, atol=1e-12)


def test_a_patch_is_the_model_continued_from_other_numbers(gpt, texts):
    """Of layer 1, head 0 at position 4; beside the steps of the layer written out."""
    gpt.eval()
    block, norm = gpt.blocks[1], gpt.blocks[1].norm_1

    def heads(tokens):
        x = gpt.blocks[0](gpt.embed(tokens) + gpt.positions.weight[:7])
        query, key, value = (
            one.unflatten(-1, (2, 4)).transpose(1, 2)
            for one in block.self_attn.w_qkv(norm(x)).chunk(3, dim=-1)
        )
        causal = torch.ones(7, 7, dtype=torch.bool).tril()
        return x, *attention(query, key, value, causal)

    x, found, weights = heads(texts[0])
    torch.testing.assert_close(attention_weights(gpt, texts[0])[1], weights)
    for source, new in ((None, 0), (texts[1], heads(texts[1])[1][:, 0, 4])):
        changed = found.clone()
        changed[:, 0, 4] = new
        h = x + block.self_attn.w_o(changed.transpose(1, 2).flatten(-2))
        h = h + block.feed_forward(block.norm_2(h))
        expected = F.linear(gpt.norm(gpt.blocks[2](h)), gpt.embed.weight)
        patched = patch_activation(gpt, texts[0], source, *head_at(gpt, 1, 0, 4))
        torch.testing.assert_close(patched, expected)


def test_weights_of_grouped_queries(llama, texts):
    """As PyTorch's own attention, which returns values alone: of the identity they are the weights."""
    found = []
    own = F.scaled_dot_product_attention

    def kept(query, key, value, *mask, **how):
        found.append(own(query, key, torch.eye(7).double().expand(3, 2, 7, 7), *mask, **how))
        return own(query, key, value, *mask, **how)

    weights = attention_weights(llama, texts[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", kept)
        llama(texts[0])
    torch.testing.assert_close(weights, found)


def test_weights_are_those_of_evaluation_for_a_single_token_too(llama, texts):
    gpt = GPT(GPTConfig(9, 8, 2, 2, 8, 16, dropout=0.5))
    gpt.blocks[1].eval()
    before = [module.training for module in gpt.modules()]
    for one, other in zip(*(attention_weights(gpt, texts[0] % 9) for _ in range(2)), strict=True):
        assert torch.equal(one, other)
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


def test_shapes_that_do_not_belong_together_are_said():
    with pytest.raises(
        ValueError, match=r"\(B, h, T, T\) and \(B, T\), got \(1, 2, 3, 3\) and \(1, 4\)"
    ):
        prefix_matching_score(torch.zeros(1, 2, 3, 3), torch.zeros(1, 4))
