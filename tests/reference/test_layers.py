"""The parts of a layer, the layers and the stacks of days 10 to 13 against torch.nn and closed formulas.

Float64 has to agree to 1e-10, outputs and gradients; other dtypes to a bound that each test derives.
"""

import math

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from implementation import (
    Decoder,
    DecoderLayer,
    Embeddings,
    Encoder,
    EncoderLayer,
    LayerNorm,
    MultiHeadedAttention,
    PositionalEncoding,
    PositionwiseFeedForward,
    SublayerConnection,
    clones,
    subsequent_mask,
)
from tests.reference.oracles import (
    assert_agree,
    copied,
    gradients,
    hidden,
    randomized,
    torch_decoder,
    torch_decoder_layer,
    torch_encoder,
    torch_encoder_layer,
)

pytestmark = pytest.mark.usefixtures("float64")

BATCHES = pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 3, 2)], ids=str)
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def assert_share(dropped, p):
    """The share of True lies within 5 standard deviations of p, √(p(1 − p)/n) each."""
    tolerance = 5 * math.sqrt(p * (1 - p) / dropped.numel())
    assert abs(dropped.double().mean().item() - p) < tolerance


# --- Day 10 · Feed-forward, embeddings, positions ------------------------------------------------


@BATCHES
def test_feed_forward_is_torchs(batch):
    """Two torch linears with a ReLU between them, for any leading dimensions, with all gradients."""
    layer, x = randomized(PositionwiseFeedForward(4, 9, 0.0)), torch.randn(*batch, 4)
    weights = [tensor.detach().requires_grad_() for tensor in layer.state_dict().values()]
    expected = F.linear(F.relu(F.linear(x, *weights[:2])), *weights[2:])
    actual = layer(x)
    assert_agree(actual, expected)
    upstream = torch.randn(*batch, 4)
    assert_agree(
        torch.autograd.grad(actual, list(layer.parameters()), upstream),
        torch.autograd.grad(expected, weights, upstream),
    )


def test_feed_forward_drops_hidden_values():
    """Its dropout falls between the two layers: a hidden value is dropped with probability p or scaled.

    Both layers do nothing here but add 1 before the cut: what comes out is what the second one is given.
    """
    layer, p = PositionwiseFeedForward(50, 50, 0.2), 0.2
    for linear in (layer.w_1, layer.w_2):
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    nn.init.ones_(layer.w_1.bias)
    x = torch.rand(8, 50)
    output = layer(x)
    assert_share(output == 0, p)
    assert_agree(output, torch.where(output == 0, 0, (x + 1) / (1 - p)))
    assert_agree(layer.eval()(x), x + 1)


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 4), (0, 4)], ids=str)
def test_embeddings_are_one_hot_times_the_table(shape):
    """Looking up is one-hot × table × √d_model, for ids of any shape, and so is its gradient."""
    layer, tokens = Embeddings(6, 9), torch.randint(9, shape)
    table = layer.lut.weight.detach().requires_grad_()
    expected = F.one_hot(tokens, 9).double() @ table * math.sqrt(6)
    actual, upstream = layer(tokens), torch.randn(*shape, 6)
    assert_agree(actual, expected)
    assert_agree(
        torch.autograd.grad(actual, layer.lut.weight, upstream),
        torch.autograd.grad(expected, table, upstream),
    )


def test_embeddings_start_normal_with_variance_one_over_d_model():
    """By Kolmogorov and Smirnov's test the table is N(0, 1/d_model), and after the factor N(0, 1)."""
    layer = Embeddings(64, 500)
    table, vectors = layer.lut.weight.detach(), layer(torch.arange(500)).detach()
    assert scipy.stats.kstest(table.flatten(), scipy.stats.norm(0, 1 / 8).cdf).pvalue > 0.01
    assert scipy.stats.kstest(vectors.flatten(), scipy.stats.norm(0, 1).cdf).pvalue > 0.01


def test_padding_has_an_embedding_like_any_token():
    """There is no padding index: token 0 has a vector and a gradient."""
    layer = Embeddings(4, 5)
    assert layer.lut.padding_idx is None
    assert layer.lut.weight[0].all()
    layer(torch.tensor([0, 3])).sum().backward()
    assert layer.lut.weight.grad.any(-1).tolist() == [True, False, False, True, False]


def waves(max_len, d_model):
    """The table as parts of complex exponentials: e^(i·angle) = cos + i·sin, in long double."""
    frequencies = np.exp(-np.log(np.longdouble(10000)) * np.arange(0, d_model, 2) / d_model)
    circle = np.exp(1j * np.arange(max_len)[:, None] * frequencies)
    return np.stack([circle.imag, circle.real], axis=-1).reshape(max_len, -1)[:, :d_model]


@pytest.mark.parametrize(
    ("max_len", "d_model"), [(1, 1), (4, 1), (3, 2), (5, 7), (9, 8), (20, 33), (5000, 512)]
)
def test_positions_are_complex_exponentials(max_len, d_model):
    """Sines and cosines are interleaved parts of a rotation; odd widths end on a sine."""
    layer = PositionalEncoding(d_model, 0.0, max_len)
    expected = torch.from_numpy(waves(max_len, d_model).astype(np.float64))
    assert layer.pe.shape == (1, max_len, d_model)
    assert_agree(layer.pe[0], expected)
    torch.set_default_dtype(torch.float32)
    rounded = PositionalEncoding(d_model, 0.0, max_len).pe[0]
    assert rounded.dtype == torch.float32
    # The table is made in float64, so of float32 only the last rounding shows, half an ulp of 1.
    half_ulp = torch.finfo(torch.float32).eps / 2
    torch.testing.assert_close(rounded.double(), expected, rtol=0, atol=half_ulp)


def test_positions_are_added_and_not_learned():
    """The first T rows of the table are added; it is a buffer, and neither state nor parameter."""
    layer, x = PositionalEncoding(6, 0.0, 10), torch.randn(2, 4, 6)
    assert_agree(layer(x), x + torch.from_numpy(waves(4, 6).astype(np.float64)))
    assert dict(layer.named_buffers()).keys() == {"pe"}
    assert not list(layer.parameters())
    assert not layer.state_dict()
    assert PositionalEncoding(2, 0.0).pe.size(1) == 5000


def test_dropout_falls_on_the_sum_of_vector_and_position():
    """A dropped feature loses its position as well, and a kept one is scaled as a whole."""
    layer, x, p = PositionalEncoding(32, 0.1, 40), torch.randn(4, 40, 32), 0.1
    whole = layer.eval()(x)
    output = layer.train()(x)
    assert_share(output == 0, p)
    assert_agree(output, torch.where(output == 0, 0, whole / (1 - p)))


# --- Day 11 · Norm and residual ------------------------------------------------------------------


def torch_norm(layer):
    """`nn.LayerNorm` with gain and bias copied over."""
    oracle = nn.LayerNorm(layer.gain.numel(), layer.eps)
    oracle.load_state_dict({"weight": layer.gain, "bias": layer.bias})
    return oracle


@BATCHES
@pytest.mark.parametrize("scale", [1, 3e-3, 1e-6, 100])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm_is_torchs(batch, eps, scale):
    """Output and gradients are nn.LayerNorm's, with a variance near eps, far below and far above it."""
    layer = randomized(LayerNorm(6, eps))
    oracle, x = torch_norm(layer), (torch.randn(*batch, 6) * scale).requires_grad_()
    actual, expected, upstream = layer(x), oracle(x), torch.randn(*batch, 6)
    assert_agree(actual, expected)
    assert_agree(
        torch.autograd.grad(actual, (x, layer.gain, layer.bias), upstream),
        torch.autograd.grad(expected, (x, oracle.weight, oracle.bias), upstream),
    )


def test_layer_norm_starts_as_torchs():
    """Gain 1, bias 0, and an eps of 1e-5: seen best where the variance is about that."""
    x = torch.randn(3, 6) * 3e-3
    assert_agree(LayerNorm(6)(x), nn.LayerNorm(6)(x))


def test_layer_norm_survives_a_mean_that_dwarfs_the_deviation():
    """Mean 1000, deviation 0.1 in float32: of rounding only that of the mean shows, an ulp or two of 1000."""
    x = (1000 + 0.1 * torch.randn(8, 512)).float()
    output = LayerNorm(512).float()(x)
    tolerance = 2 * float(np.spacing(np.float32(1000))) / 0.1
    expected = nn.LayerNorm(512)(x.double())
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_layer_norm_in_halves(dtype):
    """Features of 300, whose squares float16 cannot hold: right to three roundings, finite gradients.

    One rounding each for the normed vector, its product with γ and the sum: 1.5 · eps · (|γ n| + |β|).
    """
    layer = randomized(LayerNorm(64)).to(dtype)
    x = (300 * torch.randn(8, 64)).to(dtype).requires_grad_()
    output, gain, bias = layer(x), layer.gain.double(), layer.bias.double()
    assert output.dtype == dtype
    normed = F.layer_norm(x.double(), (64,))
    bound = 1.5 * torch.finfo(dtype).eps * ((gain * normed).abs() + bias.abs())
    assert ((output.double() - (gain * normed + bias)).abs() <= 1.01 * bound).all()
    output.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("shape", [(3, 1), (2, 5)])
def test_layer_norm_of_a_constant_vector_is_the_bias(shape):
    """No deviation at all gives the bias exactly, and gradients without NaN."""
    layer = randomized(LayerNorm(shape[-1]))
    x = torch.full(shape, 7.0, requires_grad=True)
    output = layer(x)
    assert torch.equal(output, layer.bias.expand(shape))
    output.sum().backward()
    assert x.grad.isfinite().all()


@NORMS
def test_a_connection_is_the_papers_formula(norm):
    """LN(x + f(x)) in post-norm, x + f(LN(x)) in pre-norm, by torch's layer norm."""
    connection, x = randomized(SublayerConnection(6, 0.0, norm)), torch.randn(2, 3, 6)
    oracle = torch_norm(connection.norm)
    expected = oracle(x + x.sin()) if norm == "post" else x + oracle(x).sin()
    assert_agree(connection(x, torch.sin), expected)


@NORMS
def test_a_connection_drops_what_the_sublayer_says(norm):
    """With everything dropped only the shortcut is left: LN(x) in post-norm, x untouched in pre-norm."""
    connection, x = SublayerConnection(6, 1.0, norm), torch.randn(2, 3, 6)
    assert_agree(connection(x, torch.sin), nn.LayerNorm(6)(x) if norm == "post" else x)


def test_a_connection_drops_its_share_and_scales_the_rest():
    """A feature of the sublayer's output is dropped with probability p or divided by 1 − p."""
    connection, x, p = SublayerConnection(32, 0.25, "pre"), torch.zeros(4, 20, 32), 0.25
    output = connection(x, torch.ones_like)
    assert_share(output == 0, p)
    assert set(output.unique().tolist()) == {0.0, 1 / (1 - p)}


def test_post_norm_is_the_default():
    """Connections and layers are post-norm, as in the paper, where nothing else is asked for."""
    assert SublayerConnection(4, 0.0).pre is False
    parts = MultiHeadedAttention(2, 4), PositionwiseFeedForward(4, 8)
    assert EncoderLayer(4, *parts, 0.0).norm == "post"
    assert DecoderLayer(4, parts[0], *parts, 0.0).norm == "post"


def test_clones_are_equal_and_share_nothing():
    """n deep copies in a ModuleList, equal at first; neither the original nor one another."""
    original = nn.Linear(3, 3)
    copies = clones(original, 4)
    assert isinstance(copies, nn.ModuleList)
    assert len(copies) == 4
    assert all(torch.equal(twin.weight, original.weight) for twin in copies)
    assert len({tensor.data_ptr() for m in (original, *copies) for tensor in m.parameters()}) == 10
    assert len(clones(original, 0)) == 0


# --- Days 12 and 13 · Encoder and decoder --------------------------------------------------------

B, S, T, D_MODEL, H, D_FF, N = 3, 5, 4, 8, 2, 12, 3
PADDING = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
CAUSAL = torch.tril(torch.ones(T, T, dtype=torch.bool))
SRC_MASKS = pytest.mark.parametrize(
    "src_mask",
    [None, PADDING[:, None], PADDING[:, None] & PADDING[:, :, None]],
    ids=["all", "padding", "square"],
)
TGT_MASKS = pytest.mark.parametrize(
    "tgt_mask",
    [None, CAUSAL[None], CAUSAL & PADDING[:, None, :T]],
    ids=["all", "causal", "causal and padding"],
)


def attend():
    return MultiHeadedAttention(H, D_MODEL, 0.0)


def feed_forward():
    return PositionwiseFeedForward(D_MODEL, D_FF, 0.0)


def encoder_layer(norm):
    return EncoderLayer(D_MODEL, attend(), feed_forward(), 0.0, norm)


def decoder_layer(norm):
    return DecoderLayer(D_MODEL, attend(), attend(), feed_forward(), 0.0, norm)


STACKS = pytest.mark.parametrize(
    ("stack", "layer"),
    [(Encoder, encoder_layer), (Decoder, decoder_layer)],
    ids=["encoder", "decoder"],
)


def assert_same_module(ours, theirs, inputs, our_masks, their_masks):
    """Both give the same output, the same gradients of the inputs and of every parameter."""
    copied(randomized(ours), theirs)
    upstream = torch.randn_like(inputs[0])
    their_inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    actual, expected = ours(*inputs, *our_masks), theirs(*their_inputs, **their_masks)
    assert_agree(actual, expected)
    actual.backward(upstream)
    expected.backward(upstream)
    assert_agree([x.grad for x in inputs], [x.grad for x in their_inputs])
    assert_agree(
        {name: parameter.grad for name, parameter in ours.named_parameters()}, gradients(theirs)
    )


@NORMS
@SRC_MASKS
@pytest.mark.parametrize("stacked", [False, True], ids=["layer", "stack"])
def test_the_encoder_is_torchs(stacked, src_mask, norm):
    """nn.TransformerEncoderLayer, and N of them, with rows and sequences of nothing but padding."""
    ours, theirs = encoder_layer(norm), torch_encoder_layer(D_MODEL, H, D_FF, norm)
    if stacked:
        ours, theirs = Encoder(ours, N), torch_encoder(D_MODEL, H, D_FF, norm, N)
    x = torch.randn(B, S, D_MODEL, requires_grad=True)
    their_mask = {"mask" if stacked else "src_mask": hidden(src_mask, B, H, S)}
    assert_same_module(ours, theirs, [x], [src_mask], their_mask)


@NORMS
@TGT_MASKS
@pytest.mark.parametrize("src_mask", [None, PADDING[:, None]], ids=["all", "padding"])
@pytest.mark.parametrize("stacked", [False, True], ids=["layer", "stack"])
def test_the_decoder_is_torchs(stacked, src_mask, tgt_mask, norm):
    """nn.TransformerDecoderLayer, and N of them, with the gradient of the memory, S ≠ T."""
    ours, theirs = decoder_layer(norm), torch_decoder_layer(D_MODEL, H, D_FF, norm)
    if stacked:
        ours, theirs = Decoder(ours, N), torch_decoder(D_MODEL, H, D_FF, norm, N)
    x, memory = (torch.randn(B, t, D_MODEL, requires_grad=True) for t in (T, S))
    their_masks = {
        "tgt_mask": hidden(tgt_mask, B, H, T),
        "memory_mask": hidden(src_mask, B, H, T),
    }
    assert_same_module(ours, theirs, [x, memory], [src_mask, tgt_mask], their_masks)


@pytest.mark.parametrize("size", [0, 1, 2, 6])
def test_subsequent_mask_is_torchs_causal_mask_inverted(size):
    """Boolean (1, T, T): what nn.Transformer's causal mask, 0 or −∞, leaves at 0."""
    mask = subsequent_mask(size)
    assert mask.dtype == torch.bool
    expected = nn.Transformer.generate_square_subsequent_mask(size) == 0
    assert torch.equal(mask, expected.unsqueeze(0))


@STACKS
def test_a_stack_ends_on_a_norm_in_pre_norm_only(stack, layer):
    """Post-norm has none at its end: its last connection has just normed."""
    assert stack(layer("post"), N).norm is None
    assert isinstance(stack(layer("pre"), N).norm, LayerNorm)


@STACKS
def test_a_stack_shares_nothing(stack, layer):
    """Its layers are copies, with parameters of their own, and the layer given is none of them."""
    original = layer("pre")
    layers = stack(original, N).layers
    places = [tensor.data_ptr() for m in (original, *layers) for tensor in m.parameters()]
    assert len(layers) == N
    assert len(set(places)) == len(places)


@NORMS
def test_both_connections_of_an_encoder_layer_have_its_dropout(norm):
    """With everything dropped a layer is its norms alone in post-norm, and nothing at all in pre-norm."""
    layer, x = (
        EncoderLayer(D_MODEL, attend(), feed_forward(), 1.0, norm),
        torch.randn(2, 3, D_MODEL),
    )
    once = nn.LayerNorm(D_MODEL)
    assert_agree(layer(x), once(once(x)) if norm == "post" else x)


@NORMS
def test_all_connections_of_a_decoder_layer_have_its_dropout(norm):
    """The same for the three of the decoder."""
    layer = DecoderLayer(D_MODEL, attend(), attend(), feed_forward(), 1.0, norm)
    x, once = torch.randn(2, 3, D_MODEL), nn.LayerNorm(D_MODEL)
    assert_agree(layer(x, x.cos()), once(once(once(x))) if norm == "post" else x)
