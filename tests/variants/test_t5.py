"""T5 of day 27 against transformers' own, and each promise of its docstrings by itself.

Float64 has to agree to 1e-10, logits and gradients. Hugging Face's norm squares in float32 whatever the
dtype; for the comparison its forward is torch's own RMSNorm, and untouched it has to agree to float32.
"""

import dataclasses
import math
import re
import warnings
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from implementation import Batch, LayerNorm, subsequent_mask
from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from variants.hugging_face import t5
from variants.t5 import (
    T5,
    BiasedAttention,
    T5Config,
    relative_position_bucket,
    rms_normed,
)

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

BUCKETS = [
    (32, 128),
    (32, 256),
    (32, 20),
    (64, 512),
    (16, 128),
    (10, 37),
    (33, 100),
    (7, 5),
    (4, 3),
]


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


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(32, 128), (36, 32), (54, 64), (48, 81), (18, 128), (51, 121)]
)
def test_edges_are_exact(num_buckets, max_distance, bidirectional):
    """The formula in whole numbers: d ≥ m (D/m)^(k/(n−m)) is (d/m)^(n−m) ≥ (D/m)^k. At the odder
    of these sizes a power or logarithm in float64 misses an edge, or in float32."""
    n = num_buckets // 2 if bidirectional else num_buckets
    m = n // 2
    for d in range(2 * max_distance):
        expected = d
        if d >= m:
            powers = (Fraction(max_distance, m) ** k for k in range(1, n - m))
            expected = m + sum(Fraction(d, m) ** (n - m) >= power for power in powers)
        sizes = bidirectional, num_buckets, max_distance
        assert relative_position_bucket(torch.tensor(-d), *sizes) == expected
        later = relative_position_bucket(torch.tensor(d), *sizes)
        assert later == (expected + n * (d > 0) if bidirectional else 0)


def test_buckets_of_the_docstring():
    """The usual sizes, by hand: 8 · 16^(k/8) is 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5."""
    begins = [*range(9), 12, 16, 23, 32, 46, 64, 91]
    before = relative_position_bucket(-torch.arange(200), True, 32, 128)
    assert [before.tolist().index(bucket) for bucket in range(16)] == begins
    assert before[127] == before[199] == 15
    after = relative_position_bucket(torch.arange(1, 200), True, 32, 128)
    assert torch.equal(after, before[1:] + 16)
    one_way = relative_position_bucket(torch.tensor([5, 1, 0, -1, -15, -16, -127]), False, 32, 128)
    assert one_way.tolist() == [0, 0, 0, 1, 15, 16, 31]


def test_buckets_keep_any_shape_and_the_input():
    positions = torch.randint(-300, 300, (2, 5, 7))
    before = positions.clone()
    actual = relative_position_bucket(positions, True, 32, 128)
    for index in [(0, 0, 0), (1, 4, 6), (1, 2, 3)]:
        assert actual[index] == relative_position_bucket(positions[index], True, 32, 128)
    assert actual.shape == positions.shape and torch.equal(positions, before)
    assert relative_position_bucket(torch.empty(0, 3, dtype=torch.long), True, 4, 9).shape == (0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that is slow
        turned = relative_position_bucket(positions.transpose(0, 2), False, 32, 128)
        narrow = relative_position_bucket(positions.int().transpose(0, 2), False, 32, 128)
    assert torch.equal(turned, relative_position_bucket(positions, False, 32, 128).transpose(0, 2))
    assert torch.equal(turned, narrow) and narrow.dtype == torch.int64


@pytest.mark.parametrize(
    ("bidirectional", "num_buckets", "least"), [(True, 3, 4), (True, 0, 4), (False, 1, 2)]
)
def test_too_few_buckets_are_refused(bidirectional, num_buckets, least):
    with pytest.raises(ValueError, match=f"num_buckets.*at least {least}.*got {num_buckets}"):
        relative_position_bucket(torch.arange(3), bidirectional, num_buckets, 128)
    assert relative_position_bucket(torch.tensor(-9), bidirectional, least, 128) < least


@pytest.mark.parametrize(("bidirectional", "exact"), [(True, 8), (False, 16)])
def test_a_max_distance_within_the_exact_buckets_is_refused(bidirectional, exact):
    for distance in (exact, 0):
        with pytest.raises(ValueError, match=rf"max_distance.*above {exact}\b.*got {distance}"):
            relative_position_bucket(torch.arange(3), bidirectional, 32, distance)
    relative_position_bucket(torch.arange(3), bidirectional, 32, exact + 1)


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


@SIZES
def test_transformers_untouched_agrees_to_its_float32_norm(config):
    published, ours = copied(config)
    inputs = text(config)
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
    whole = t5(weights)
    ours = T5(config).state_dict()
    assert whole.keys() == ours.keys()
    assert all(tensor.shape == ours[name].shape for name, tensor in whole.items())
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]
    assert weights.keys() >= {"shared.weight", *copies}
    for left in ["shared.weight", *copies]:  # safetensors keeps any one of what is tied
        once = {
            n: w for n, w in weights.items() if n == left or n not in {"shared.weight", *copies}
        }
        unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        once[unread] = torch.ones(2, 2)
        renamed = t5(once)
        assert renamed.keys() == whole.keys()
        assert all(torch.equal(renamed[name], whole[name]) for name in whole)
        assert unread in once  # what was given stays whole


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


def test_attention_to_nothing_has_gradients_of_zero():
    layer = randomized(BiasedAttention(ODD))
    x, memory = torch.randn(2, 4, 10, requires_grad=True), torch.randn(2, 6, 10, requires_grad=True)
    bias = torch.full((1, 1, 1, 6), -math.inf).requires_grad_()
    out = layer(x, memory, memory, bias)
    assert (out == 0).all()
    out.sum().backward()
    for tensor in (x, memory, bias, *layer.parameters()):
        assert (tensor.grad == 0).all()


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


@pytest.mark.parametrize("gated", [False, True])
def test_the_state_dict_holds_what_is_promised_and_no_more(gated):
    model = T5(dataclasses.replace(ODD, gated=gated))
    attention = {"w_q": (15, 10), "w_k": (15, 10), "w_v": (15, 10), "w_o": (10, 15)}
    network = {"w_1": (29, 10), "w_2": (10, 29)} | ({"w_gate": (29, 10)} if gated else {})
    expected = {"embed.weight": (23, 10)}
    for stack, attentions in [("encoder", ["self_attn"]), ("decoder", ["self_attn", "src_attn"])]:
        expected |= {f"{stack}_bias.weight": (12, 3), f"{stack}.norm.weight": (10,)}
        for n in range(3):
            parts = dict.fromkeys(attentions, attention) | {"feed_forward": network}
            for i, (part, shapes) in enumerate(parts.items()):
                expected[f"{stack}.layers.{n}.sublayer.{i}.norm.weight"] = (10,)
                for name, shape in shapes.items():
                    expected[f"{stack}.layers.{n}.{part}.{name}.weight"] = shape
    assert {name: tuple(weight.shape) for name, weight in model.state_dict().items()} == expected
    assert model.config.gated is gated


def test_t5_small_has_60_506_624_parameters():
    with torch.device("meta"):
        model = T5(T5Config())
    assert sum(parameter.numel() for parameter in model.parameters()) == 60_506_624


@pytest.mark.parametrize("gated", [False, True])
def test_initial_weights(gated):
    """Deviations within 6 of their own standard errors, σ/√(2n); means within 6 of σ/√n."""
    config = T5Config(500, 2, 8, 96, 20, 200, num_buckets=64, gated=gated)
    stds = {"w_q": (96 * 20) ** -0.5, "w_o": 160**-0.5, "w_2": 200**-0.5, "embed": 1.0}
    for name, parameter in T5(config).named_parameters():
        if parameter.dim() == 1:
            assert (parameter == 1).all(), name
            continue
        std = stds.get(name.split(".")[-2], 96**-0.5)
        n = parameter.numel()
        assert abs(parameter.mean().item()) < 6 * std / math.sqrt(n), name
        assert abs(parameter.std().item() - std) < 6 * std / math.sqrt(2 * n), name


def test_no_two_matrices_start_alike():
    matrices = [p for p in T5(ODD).parameters() if p.dim() == 2]
    for i, first in enumerate(matrices):
        for second in matrices[:i]:
            assert first.shape != second.shape or not torch.allclose(first, second)


def test_the_bias_is_shared_by_all_layers_of_its_stack():
    """Three layers, of which every one but the last adds nothing to what passes it: what that one sees of
    distances it has from the stack's only table."""
    model = randomized(T5(ODD))
    src, tgt, *_ = text(ODD)
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers[:-1]:
            for name, module in layer.named_modules():
                if name.endswith(("w_o", "w_2")):
                    nn.init.zeros_(module.weight)
    before, memory = model(src, tgt, None, None), model.encode(src, None)
    model.encoder_bias.weight.data.mul_(-1)
    assert not torch.allclose(model.encode(src, None), memory)
    model.encoder_bias.weight.data.mul_(-1)
    assert torch.equal(model(src, tgt, None, None), before)
    model.decoder_bias.weight.data.mul_(-1)
    assert not torch.allclose(model(src, tgt, None, None), before)


def test_masks_of_a_batch_and_of_one_row_serve_as_well():
    model = randomized(T5(ODD))
    src, tgt, src_mask, tgt_mask = text(ODD)
    expected = model(src, tgt, src_mask, tgt_mask)
    assert_agree(model(src, tgt, src_mask, tgt_mask & subsequent_mask(T)), expected)
    batch = Batch(src + 1, F.pad((tgt + 1).masked_fill(~tgt_mask.squeeze(1), 0), (0, 1)), pad=0)
    assert_agree(batch.tgt_mask, tgt_mask & subsequent_mask(T))
    one = model(src, tgt, src_mask[1:2], tgt_mask[2:])
    assert_agree(one, model(src, tgt, src_mask[1:2].expand(3, 1, S), tgt_mask[2:].expand(3, 1, T)))
    past = torch.rand(3, T, T) < 0.5
    assert torch.equal(  # no mask lets a later token in
        model(src, tgt, None, past | ~subsequent_mask(T)), model(src, tgt, None, past)
    )


def test_a_source_of_padding_alone_gives_zeros_and_no_nan():
    model = randomized(T5(ODD))
    src, tgt, src_mask, tgt_mask = text(ODD)
    src_mask[1] = False
    actual = model(src, tgt, src_mask, tgt_mask)
    actual.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    for layer in model.decoder.layers:
        nn.init.zeros_(layer.src_attn.w_o.weight)
    assert_agree(model(src, tgt, src_mask, tgt_mask)[1], actual[1])


def test_empty_inputs_and_no_layers():
    model = T5(ODD)
    src, tgt, src_mask, tgt_mask = text(ODD)
    assert model(src, tgt[:, :0], src_mask, tgt_mask[..., :0]).shape == (3, 0, 23)
    without = model(src[:, :0], tgt, src_mask[..., :0], tgt_mask)
    assert without.shape == (3, T, 23) and without.isfinite().all()
    assert model(src[:0], tgt[:0], None, None).shape == (0, T, 23)
    assert T5(dataclasses.replace(ODD, n_layers=0))(src, tgt, None, None).shape == (3, T, 23)


def test_half_precision_is_float32_to_its_rounding():
    model = T5(T5Config(13, 2, 2, 16, 5, 24, 0.0, gated=True)).float()
    inputs = text(model.config, s=9, t=6)
    expected = model(*inputs)
    assert expected.dtype == torch.float32
    for dtype in (torch.float16, torch.bfloat16):
        actual = model.to(dtype)(*inputs)
        assert actual.dtype == dtype
        difference = (actual.float() - expected).abs().max()
        assert difference < 16 * torch.finfo(dtype).eps * expected.abs().max()
        model = model.float()


@pytest.mark.parametrize("name", ["src_mask", "tgt_mask"])
def test_wrong_masks_are_refused(name):
    model = T5(ODD)
    src, tgt, src_mask, tgt_mask = text(ODD)
    masks = {"src_mask": src_mask, "tgt_mask": tgt_mask}
    right = masks[name]
    for wrong, words in [
        (right.long(), "boolean.*int64"),
        (right.squeeze(1), "must be"),
        (right.unsqueeze(1), "must be"),
        (right[..., 1:], "must be"),
        (right[:2], "must be"),
        (right.expand(3, 2, -1), "must be"),
    ]:
        with pytest.raises(ValueError, match=f"{name}.*{words}"):
            model(src, tgt, **(masks | {name: wrong}))
    with pytest.raises(ValueError, match=r"src_mask must be"):
        model.decode(model.encode(src, src_mask), src_mask[..., 1:], tgt, tgt_mask)


def test_impossible_buckets_are_refused():
    src, tgt, *_ = text(ODD)
    with pytest.raises(ValueError, match="num_buckets"):
        T5(dataclasses.replace(ODD, num_buckets=3))(src, tgt, None, None)
    with pytest.raises(ValueError, match="max_distance"):
        T5(dataclasses.replace(ODD, max_distance=6))(src, tgt, None, None)
