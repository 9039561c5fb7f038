"""T5 of day 27 against transformers' own.

Float64 has to agree to 1e-10, logits and gradients. Hugging Face's norm squares in float32 whatever the
dtype; for the comparison its forward is torch's own RMSNorm, and untouched it has to agree to float32.
"""

import dataclasses
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from implementation import LayerNorm
from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from variants.hugging_face import t5
from variants.t5 import T5, T5Config, relative_position_bucket, rms_normed

#              vocab N  h  d_model d_k d_ff dropout eps buckets D
ODD = T5Config(23, 3, 3, 10, 5, 29, 0.0, 1e-2, 12, 20)
CONFIGS = [
    ODD,
    dataclasses.replace(ODD, gated=True),
    T5Config(7, 1, 1, 5, 3, 2, 0.0, 1e-6, 4, 3),
    T5Config(11, 2, 6, 6, 1, 24, 0.0, 1e-6, 32, 128, gated=True),
]
NAMES = ["relu", "gated", "one head", "heads of one feature, gated"]
SIZES = pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
S, T = 41, 30  # beyond the odd config's 20, where one bucket is shared
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture
def exact_norm(monkeypatch):
    """Hugging Face's norm without its detour through float32."""
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)

    monkeypatch.setattr(modeling.T5LayerNorm, "forward", forward)


def theirs(config):
    """transformers' T5 of these sizes, with no parameter left at 0 or 1."""
    transformers = pytest.importorskip("transformers")
    sizes = transformers.T5Config(
        vocab_size=config.vocab,
        d_model=config.d_model,
        d_kv=config.d_k,
        d_ff=config.d_ff,
        num_layers=config.n_layers,
        num_heads=config.n_heads,
        relative_attention_num_buckets=config.num_buckets,
        relative_attention_max_distance=config.max_distance,
        dropout_rate=config.dropout,
        layer_norm_epsilon=config.eps,
        feed_forward_proj="gated-gelu" if config.gated else "relu",
        attn_implementation="eager",
    )
    return randomized(transformers.T5ForConditionalGeneration(sizes).double()).eval()


def copied(config):
    """transformers' and ours, with the same weights."""
    published, ours = theirs(config), T5(config)
    ours.load_state_dict(t5(published.state_dict()))
    return published, ours.eval()


def text(config, rows=3, s=S, t=T):
    """Source, target, and the masks of rows that end in padding."""
    src, tgt = torch.randint(config.vocab, (rows, s)), torch.randint(config.vocab, (rows, t))
    src_mask = torch.arange(s) < torch.tensor([s, s // 5 + 1, s // 2])[:rows, None]
    tgt_mask = torch.arange(t) < torch.tensor([t // 3 + 1, t, t // 2])[:rows, None]
    return src, tgt, src_mask.unsqueeze(1), tgt_mask.unsqueeze(1)


def their_logits(published, src, tgt, src_mask, tgt_mask):
    return published(
        input_ids=src,
        attention_mask=src_mask.squeeze(1),
        decoder_input_ids=tgt,
        decoder_attention_mask=tgt_mask.squeeze(1),
    ).logits


# --- Buckets --------------------------------------------------------------------------------------

BUCKETS = [(32, 128), (32, 20), (64, 512), (16, 128), (10, 37), (33, 100), (7, 5), (4, 3)]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), BUCKETS)
def test_buckets_are_the_published_ones(num_buckets, max_distance, bidirectional):
    """Every distance up to four times the largest that is told apart, in both directions."""
    if not bidirectional and max_distance <= num_buckets // 2:
        max_distance = num_buckets  # what one direction alone cannot have
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    published = modeling.T5Attention._relative_position_bucket
    distances = torch.arange(-4 * max_distance, 4 * max_distance + 1)
    sizes = bidirectional, num_buckets, max_distance
    actual = relative_position_bucket(distances, *sizes)
    assert actual.dtype == torch.int64
    assert torch.equal(actual, published(distances, *sizes))


# --- The whole, against transformers --------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.usefixtures("exact_norm")
def test_logits_and_gradients_are_those_of_transformers(config, padded):
    published, ours = copied(config)
    src, tgt, src_mask, tgt_mask = text(config)
    labels = torch.randint(config.vocab, tgt.shape)
    if padded:
        labels = labels.masked_fill(~tgt_mask.squeeze(1), -100)
        actual = ours(src, tgt, src_mask, tgt_mask)
        expected = their_logits(published, src, tgt, src_mask, tgt_mask)
    else:
        actual = ours(src, tgt, None, None)
        expected = published(input_ids=src, decoder_input_ids=tgt).logits
    assert_agree(actual, expected)
    for logits in (expected, actual):
        F.cross_entropy(logits.transpose(1, 2), labels).backward()
    assert_same_gradients(ours, published, t5)


def test_transformers_untouched_agrees_to_its_float32_norm():
    published, ours = copied(ODD)
    inputs = text(ODD)
    expected = their_logits(published, *inputs)
    torch.testing.assert_close(ours(*inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.usefixtures("exact_norm")
def test_what_dropout_falls_on_is_what_it_falls_on_in_transformers(monkeypatch, gated):
    """Something smooth in dropout's place, which no two places can exchange."""

    def dropout(x, p=0.5, training=True, inplace=False):
        return (1 - p) * x + p * x.sin() if training else x

    monkeypatch.setattr(F, "dropout", dropout)
    config = dataclasses.replace(ODD, gated=gated, dropout=0.3)
    published, ours = copied(config)
    inputs = text(config)
    at_rest = ours(*inputs)
    actual, expected = ours.train()(*inputs), their_logits(published.train(), *inputs)
    assert_agree(actual, expected)
    assert (actual - at_rest).abs().max() > 0.01


@SIZES
def test_a_published_state_dict_fills_ours_with_and_without_its_copies(config):
    weights = theirs(config).state_dict()
    state = t5(weights)
    ours = T5(config).state_dict()
    assert state.keys() == ours.keys()
    assert all(tensor.shape == ours[name].shape for name, tensor in state.items())
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]
    assert weights.keys() >= {"shared.weight", *copies}
    for stored in ["shared.weight", *copies]:  # safetensors stores any one of what is tied
        once = {
            n: w for n, w in weights.items() if n == stored or n not in {"shared.weight", *copies}
        }
        unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        once[unread] = torch.ones(2, 2)
        renamed = t5(once)
        assert renamed.keys() == state.keys()
        assert all(torch.equal(renamed[name], state[name]) for name in state)
        assert unread in once  # the argument does not change


def test_published_weights_share_their_memory():
    weights = theirs(ODD).state_dict()
    assert t5(weights)["embed.weight"].data_ptr() == weights["shared.weight"].data_ptr()


def test_published_weights_that_are_not_ours_are_refused():
    for name in ["lm_head", "encoder.embed_tokens", "decoder.embed_tokens"]:
        weights = {"shared.weight": torch.ones(3, 2), f"{name}.weight": torch.zeros(3, 2)}
        with pytest.raises(ValueError, match=rf"{name}\.weight must equal shared\.weight"):
            t5(weights)
    for name in [
        "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",
        "encoder.block.0.layer.1.EncDecAttention.q.weight",
        "decoder.block.0.layer.0.SelfAttention.q.bias",
        "shared",
    ]:
        with pytest.raises(ValueError, match=re.escape(name)):
            t5({name: torch.ones(3, 2)})


# --- The parts ------------------------------------------------------------------------------------


def test_all_norms_of_a_module_are_replaced():
    module = nn.Sequential(LayerNorm(3), nn.Sequential(nn.Linear(3, 5), LayerNorm(5)))
    assert rms_normed(module, 0.25) is module
    for norm, features in [(module[0], 3), (module[1][1], 5)]:
        assert type(norm) is nn.RMSNorm
        x = torch.randn(4, features)
        expected = x / (x.square().mean(dim=-1, keepdim=True) + 0.25).sqrt()
        assert_agree(norm(x), expected)
    assert type(module[1][0]) is nn.Linear


# --- The model by itself --------------------------------------------------------------------------


def test_t5_small_has_60_506_624_parameters():
    with torch.device("meta"):
        model = T5(T5Config())
    assert sum(parameter.numel() for parameter in model.parameters()) == 60_506_624
