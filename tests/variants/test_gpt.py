"""GPT-2 of day 23 against transformers' own, and each promise of its docstrings by itself.

Float64 has to agree to 1e-10, logits and gradients.
"""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from variants.gpt import GPT, Block, CausalSelfAttention, FeedForward, GPTConfig
from variants.hugging_face import gpt2

SIZES = pytest.mark.parametrize(
    "config",
    [
        GPTConfig(vocab=23, context=11, n_layers=3, n_heads=3, d_model=15, d_ff=29, dropout=0.0),
        GPTConfig(vocab=7, context=5, n_layers=1, n_heads=1, d_model=5, d_ff=3, dropout=0.0),
        GPTConfig(vocab=2, context=9, n_layers=2, n_heads=6, d_model=6, d_ff=24, dropout=0.0),
    ],
    ids=["odd", "one head", "heads of one feature"],
)
SMALL = GPTConfig(vocab=13, context=8, n_layers=2, n_heads=2, d_model=10, d_ff=17, dropout=0.0)
pytestmark = pytest.mark.usefixtures("float64")


def theirs(config):
    """transformers' GPT-2 of these sizes, with no parameter left at 0 or 1."""
    transformers = pytest.importorskip("transformers")
    sizes = transformers.GPT2Config(
        vocab_size=config.vocab,
        n_positions=config.context,
        n_embd=config.d_model,
        n_layer=config.n_layers,
        n_head=config.n_heads,
        n_inner=config.d_ff,
        bos_token_id=0,
        eos_token_id=0,
    )
    return randomized(transformers.GPT2LMHeadModel(sizes).double()).eval()


def tokens(config, rows=3, length=None):
    return torch.randint(config.vocab, (rows, config.context if length is None else length))


# --- The whole, against transformers --------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("spare", [0, 2], ids=["full context", "shorter"])
def test_logits_and_gradients_are_those_of_transformers(config, spare):
    published, ours = theirs(config), GPT(config)
    ours.load_state_dict(gpt2(published.state_dict()))
    text = tokens(config, length=config.context - spare)
    expected, actual = published(text).logits, ours(text)
    assert_agree(actual, expected)
    for logits in (expected, actual):  # transformers' own loss is computed in float32
        F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    assert_same_gradients(ours, published, gpt2)


def test_a_published_state_dict_fills_ours_with_and_without_its_head():
    """GPT2Model has no prefix and no head; old checkpoints hold causal masks."""
    published = theirs(SMALL)
    bare = published.transformer.state_dict()
    bare |= {"h.0.attn.bias": torch.ones(1, 1, 8, 8), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    whole = gpt2(published.state_dict())
    assert whole.keys() == gpt2(bare).keys() == GPT(SMALL).state_dict().keys()
    for name, tensor in gpt2(bare).items():
        assert torch.equal(tensor, whole[name])


def test_published_weights_that_are_no_gpt2_are_refused():
    weights = {"wte.weight": torch.ones(3, 2), "lm_head.weight": torch.zeros(3, 2)}
    with pytest.raises(ValueError, match=r"lm_head\.weight must equal wte\.weight"):
        gpt2(weights)
    for name in ["h.0.attn.q_proj.weight", "h.0.crossattention.c_attn.weight", "wte"]:
        with pytest.raises(ValueError, match=re.escape(name)):
            gpt2({name: torch.ones(3, 2)})


# --- Attention and block --------------------------------------------------------------------------


def test_attention_and_block_hold_what_they_promise_and_no_more():
    names = {"w_qkv.weight", "w_qkv.bias", "w_o.weight", "w_o.bias"}
    layer = CausalSelfAttention(6, 2)
    assert layer.state_dict().keys() == names
    assert layer.w_qkv.weight.shape == (18, 6)
    block = Block(6, layer, FeedForward(6, 9), 0.0)
    assert block.self_attn is layer
    assert {name for name in block.state_dict() if name.startswith("norm")} == {
        f"norm_{i}.{name}" for i in (1, 2) for name in ("gain", "bias")
    }


def test_dropout_of_all_attention_weights_leaves_the_bias():
    layer, x = randomized(CausalSelfAttention(6, 2, dropout=1.0)), torch.randn(2, 4, 6)
    assert torch.equal(layer(x), layer.w_o.bias.expand(2, 4, 6))
    assert not torch.allclose(layer.eval()(x), layer.w_o.bias.expand(2, 4, 6))


def test_dropout_of_everything_leaves_the_bias_of_the_final_norm():
    """Embedding and sublayers alike give 0, and the norm of 0 is its bias."""
    model = randomized(GPT(GPTConfig(13, 8, 2, 2, 10, 17, dropout=1.0)))
    expected = (model.norm.bias @ model.embed.weight.T).expand(3, 8, 13)
    assert_agree(model(tokens(SMALL)), expected)
    assert not torch.allclose(model.eval()(tokens(SMALL)), expected)


def test_half_precision_is_float32_to_its_rounding():
    layer = CausalSelfAttention(16, 4).float()
    x = torch.randn(2, 9, 16, dtype=torch.float32)
    expected = layer(x)
    for dtype in (torch.float16, torch.bfloat16):
        actual = layer.to(dtype)(x.to(dtype))
        assert actual.dtype == dtype
        difference = (actual.float() - expected).abs().max()
        assert difference < 8 * torch.finfo(dtype).eps * expected.abs().max()
        layer = layer.float()


# --- The model by itself --------------------------------------------------------------------------


def test_the_head_is_the_embedding():
    """One matrix, which both uses move; nothing else stands in the state dict."""
    model = GPT(SMALL)
    state = model.state_dict()
    assert {name.split(".")[0] for name in state} == {"embed", "positions", "blocks", "norm"}
    assert state["embed.weight"].shape == (13, 10) and state["positions.weight"].shape == (8, 10)
    assert len(model.blocks) == 2 and model.config is SMALL
    text = torch.zeros(1, 1, dtype=torch.long)
    model(text).logsumexp(dim=-1).sum().backward()
    assert (model.embed.weight.grad.abs().sum(dim=-1) > 0).all()  # tokens never read are scored


def test_the_smallest_gpt_2_has_124_439_808_parameters():
    with torch.device("meta"):
        model = GPT(GPTConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808


def test_initial_weights():
    """Deviations within 6 of their own standard errors, σ/√(2n); means within 6 of σ/√n."""
    config = GPTConfig(300, 200, 3, 2, 96, 200)
    for name, parameter in GPT(config).named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("gain") else 0.0)).all(), name
            continue
        std = 0.02 / math.sqrt(6) if name.endswith(("w_o.weight", "w_2.weight")) else 0.02
        n = parameter.numel()
        assert abs(parameter.mean().item()) < 6 * std / math.sqrt(n), name
        assert abs(parameter.std().item() - std) < 6 * std / math.sqrt(2 * n), name


def test_blocks_start_different():
    first, second = (block.state_dict() for block in GPT(SMALL).blocks)
    for name, tensor in first.items():
        assert tensor.dim() == 1 or not torch.equal(tensor, second[name])


def test_empty_inputs_and_no_blocks():
    model = GPT(SMALL)
    assert model(tokens(SMALL, length=0)).shape == (3, 0, 13)
    assert model(tokens(SMALL, rows=0)).shape == (0, 8, 13)
    assert GPT(GPTConfig(13, 8, 0, 2, 10, 17))(tokens(SMALL)).shape == (3, 8, 13)
    assert CausalSelfAttention(6, 2)(torch.randn(2, 0, 6)).shape == (2, 0, 6)


def test_dtypes_follow_the_weights():
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        assert GPT(SMALL).to(dtype)(tokens(SMALL)).dtype == dtype


def test_more_tokens_than_the_context_are_refused():
    with pytest.raises(ValueError, match=r"tokens.*context = 8.*9"):
        GPT(SMALL)(tokens(SMALL, length=9))


@pytest.mark.parametrize(("d_model", "n_heads"), [(10, 3), (10, 0), (10, -2), (4, 8)])
def test_heads_that_do_not_divide_are_refused(d_model, n_heads):
    with pytest.raises(ValueError, match=f"n_heads.*{n_heads}.*{d_model}"):
        CausalSelfAttention(d_model, n_heads)
    with pytest.raises(ValueError, match=f"n_heads.*{n_heads}.*{d_model}"):
        GPT(GPTConfig(d_model=d_model, n_heads=n_heads))
