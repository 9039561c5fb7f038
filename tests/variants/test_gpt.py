"""GPT-2 of day 23 against transformers' own.

Float64 has to agree to 1e-10, logits and gradients.
"""

import re

import pytest
import torch
import torch.nn.functional as F

from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from variants.gpt import GPT, GPTConfig
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
    state = gpt2(published.state_dict())
    assert state.keys() == gpt2(bare).keys() == GPT(SMALL).state_dict().keys()
    for name, tensor in gpt2(bare).items():
        assert torch.equal(tensor, state[name])


def test_published_weights_that_are_no_gpt2_are_refused():
    weights = {"wte.weight": torch.ones(3, 2), "lm_head.weight": torch.zeros(3, 2)}
    with pytest.raises(ValueError, match=r"lm_head\.weight must equal wte\.weight"):
        gpt2(weights)
    for name in ["h.0.attn.q_proj.weight", "h.0.crossattention.c_attn.weight", "wte"]:
        with pytest.raises(ValueError, match=re.escape(name)):
            gpt2({name: torch.ones(3, 2)})
