"""Day 11 · LayerNorm(features, eps=1e-5), SublayerConnection(size, dropout, norm="post") and
clones(module, n)."""

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES, backward, gradients, shapes, wanting_gradients

NORMS = ["post", "pre"]


def vectors(draw, *shape, **how):
    """Vectors of many means and standard deviations."""
    offset = draw.normal(*shape[:-1], 1, scale=3.0, dtype="float64")
    spread = draw.uniform(0.5, 4.0, *shape[:-1], 1, dtype="float64")
    dtype = getattr(torch, how.get("dtype", "float32"))
    return (offset + spread * draw.normal(*shape, dtype="float64")).to(dtype)


class Sublayer:
    """Stands for attention or a network: x @ w + b. It keeps what it is given."""

    def __init__(self, w, b):
        self.w, self.b = w, b
        self.given = []

    def __call__(self, x):
        self.given.append(x)
        return x @ self.w + self.b


def weights(draw, size, **how):
    """What a sublayer computes with."""
    return {"w": draw.normal(size, size, scale=size**-0.5, **how), "b": draw.normal(size, **how)}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def x(draw):
    """Vectors in a batch of sequences."""
    return vectors(draw, *draw.sizes(3, 8, 3))


@pytest.fixture
def x_of_rank(draw, leading):
    """One vector, a list of them, or more leading dimensions."""
    return vectors(draw, *draw.sizes(3, 8, leading + 1))


@pytest.fixture
def nearly_constant(draw):
    """A variance about as small as the default ε."""
    return draw.normal(*draw.sizes(3, 8, 3), scale=0.003, mean=0.1)


@pytest.fixture
def constant(draw):
    """Vectors of one whole number each, so that their mean is exact."""
    batch, time, features = draw.sizes(3, 8, 3)
    return draw.integers(-9, 9, batch, time, 1).to(torch.float32).repeat(1, 1, features)


@pytest.fixture
def eps(draw):
    """An ε about as large as the variance of the vectors that go with it."""
    return draw.size(3, 9) / 10


@pytest.fixture
def usual(draw):
    """Vectors of variance about 1."""
    return draw.normal(*draw.sizes(3, 8, 3), mean=0.5)


@pytest.fixture
def far_from_zero(draw):
    """A mean of 1000 and a standard deviation of 1, in float32."""
    return draw.normal(*draw.sizes(2, 5, 2), draw.size(12, 16), scale=1.0, mean=1000.0)


@pytest.fixture
def of_dtype(draw, dtype):
    """Vectors in other dtypes."""
    return vectors(draw, *draw.sizes(3, 8, 3), dtype=dtype)


@pytest.fixture
def large_halves(draw):
    """Features of ±300: float16 holds them, and not their squares."""
    features = draw.size(12, 16)
    return draw.normal(*draw.sizes(2, 5, 2), features, scale=300.0, dtype="float16")


@pytest.fixture
def layer(draw):
    """Tokens, and what the sublayer computes with."""
    batch, time, size = draw.sizes(4, 8, 3)
    return {"x": draw.normal(batch, time, size, mean=0.5)} | weights(draw, size)


@pytest.fixture
def layer_of_dtype(draw, dtype):
    """The same in other dtypes."""
    batch, time, size = draw.sizes(4, 8, 3)
    return {"x": draw.normal(batch, time, size, mean=0.5, dtype=dtype)} | weights(
        draw, size, dtype=dtype
    )


@pytest.fixture
def long_layer(draw):
    """Enough tokens that a share of their features says something."""
    size = draw.size(5, 8)
    return {"x": draw.normal(draw.size(20, 30), 9, size)} | weights(draw, size)


@pytest.fixture
def size(draw):
    """A width."""
    return draw.size(3, 9)


@pytest.fixture
def p(draw):
    """How much is dropped: from about a third to about two thirds."""
    return draw.size(3, 6) / 9


@pytest.fixture
def widths(draw):
    """The widths of a network with a hidden layer."""
    return dict(zip(["d_in", "d_hidden", "d_out"], draw.sizes(2, 6, 3), strict=True))


@pytest.fixture
def n(draw):
    """How many clones."""
    return draw.size(3, 4)


@pytest.fixture
def inputs(draw, widths, n):
    """Something else for each clone."""
    return draw.normal(n, draw.size(2, 7), widths["d_in"])


def network(d_in, d_hidden, d_out):
    """A module whose parameters lie a level deeper than itself."""
    return nn.Sequential(nn.Linear(d_in, d_hidden), nn.Tanh(), nn.Linear(d_hidden, d_out))


# --- LayerNorm ------------------------------------------------------------------------------------


def test_layer_norm_parameters(answer, build, size):
    """The parameters are `gain` and `bias`, with a number for every feature."""
    return {"parameters": shapes(build(answer.LayerNorm, size))}


def test_layer_norm_at_the_start(answer, size):
    """The gain is initialized to 1 and the bias to 0."""
    norm = answer.LayerNorm(size)
    return {"gain": norm.gain, "bias": norm.bias}


def test_layer_norm(answer, build, x):
    """Each vector is centered and divided by its own standard deviation; then gain and bias are applied."""
    return {"normed": build(answer.LayerNorm, x.size(-1))(x)}


@pytest.mark.watertight("leading axes other than batch and time, which change nothing")
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_layer_norm_leading_dimensions(answer, build, x_of_rank, leading):
    """With any number of leading axes, the last axis holds the features."""
    return {"normed": build(answer.LayerNorm, x_of_rank.size(-1))(x_of_rank)}


def test_layer_norm_small_variance(answer, build, nearly_constant):
    """ε is added to the variance, under the root, which matters for a variance as small as ε = 1e-5."""
    return {"normed": build(answer.LayerNorm, nearly_constant.size(-1))(nearly_constant)}


def test_layer_norm_eps(answer, build, usual, eps):
    """The argument `eps` is used."""
    return {"normed": build(answer.LayerNorm, usual.size(-1), eps)(usual)}


def test_layer_norm_constant_vectors(answer, build, constant):
    """For a vector of equal numbers, the result is the bias, not NaN."""
    return {"normed": build(answer.LayerNorm, constant.size(-1))(constant)}


@pytest.mark.watertight("the mean of squares less the square of the mean is noise far from zero")
def test_layer_norm_far_from_zero(answer, build, far_from_zero):
    """In float32, a mean of 1000 with a standard deviation of 1 causes no loss of accuracy."""
    return {"normed": build(answer.LayerNorm, far_from_zero.size(-1))(far_from_zero)}


def test_layer_norm_gradients(answer, build, x):
    """Gradients reach x, also through mean and standard deviation, and gain and bias."""
    norm = build(answer.LayerNorm, x.size(-1))
    inputs = wanting_gradients({"x": x})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.watertight("a vector of equal numbers must not turn all gradients of a batch into NaN")
def test_layer_norm_gradients_of_constant_vectors(answer, build, constant):
    """Gradients of vectors of equal numbers are finite, although their standard deviation is 0."""
    norm = build(answer.LayerNorm, constant.size(-1))
    inputs = wanting_gradients({"x": constant})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_dtype(answer, build, of_dtype, dtype):
    """The result has the dtype of x, gain and bias."""
    return {"normed": build(answer.LayerNorm, of_dtype.size(-1), dtype=dtype)(of_dtype)}


@pytest.mark.watertight("features of 300 are common in a trained stack, and float16 ends at 65504")
def test_layer_norm_large_halves(answer, build, large_halves):
    """Features of ±300 are normalized correctly in float16, which cannot represent their squares."""
    norm = build(answer.LayerNorm, large_halves.size(-1), dtype="float16")
    return {"normed": norm(large_halves)}


# --- SublayerConnection ---------------------------------------------------------------------------


def test_sublayer_connection_parameters(answer, build, size):
    """The parameters are those of a single norm, `norm`."""
    return {"parameters": shapes(build(answer.SublayerConnection, size, 0.0))}


@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection(answer, build, layer, norm):
    """The sublayer is called once; post-norm normalizes the sum, pre-norm the sublayer's input."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 0.0, norm)
    sublayer = Sublayer(layer["w"], layer["b"])
    output = connection(layer["x"], sublayer)
    return {"given_to_sublayer": sublayer.given, "output": output}


def test_sublayer_connection_default(answer, build, layer):
    """By default, the norm comes after the addition, as in the paper."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 0.0)
    return {"output": connection(layer["x"], Sublayer(layer["w"], layer["b"]))}


@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection_identity(answer, build, layer, norm):
    """x is not changed in place, even if the sublayer returns its input."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 0.0, norm)
    return {"output": connection(layer["x"], lambda x: x)}


@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection_drops_everything(answer, build, layer, norm):
    """Dropout applies only to the sublayer's output: if all of it is dropped, x remains."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 1.0, norm)
    sublayer = Sublayer(layer["w"], layer["b"])
    output = connection(layer["x"], sublayer)
    return {"given_to_sublayer": sublayer.given, "output": output}


@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection_in_evaluation(answer, build, layer, norm):
    """In evaluation mode, dropout is inactive."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 1.0, norm).eval()
    return {"output": connection(layer["x"], Sublayer(layer["w"], layer["b"]))}


@pytest.mark.constant("some_of_a_vector_dropped", "it holds whatever is drawn")
def test_sublayer_connection_dropout(answer, build, long_layer, p):
    """Each number is dropped with the given probability, and otherwise divided by 1 − p."""
    x, sublayer = long_layer["x"], Sublayer(long_layer["w"], long_layer["b"])
    connection = build(answer.SublayerConnection, x.size(-1), p, "pre")
    dropped = connection(x, sublayer)
    undropped = (connection.eval()(x, sublayer) - x) / (1 - p)
    gaps = dropped == x
    mixed = gaps.any(-1) & ~gaps.all(-1)
    return {
        "asked_for": connection.dropout.p,
        "kept": torch.where(gaps, x + undropped, dropped),
        "some_of_a_vector_dropped": bool(mixed.float().mean() > 0.3),
    }


@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection_gradients(answer, build, layer, norm):
    """Gradients reach x on both paths, and the parameters of the sublayer and the norm."""
    connection = build(answer.SublayerConnection, layer["x"].size(-1), 0.0, norm)
    inputs = wanting_gradients(layer)
    backward(connection(inputs["x"], Sublayer(inputs["w"], inputs["b"])))
    return {"gradients": gradients(inputs) | gradients(connection)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", NORMS)
def test_sublayer_connection_dtype(answer, build, layer_of_dtype, norm, dtype):
    """The output has the dtype of x and the weights."""
    x = layer_of_dtype["x"]
    connection = build(answer.SublayerConnection, x.size(-1), 0.0, norm, dtype=dtype)
    return {"output": connection(x, Sublayer(layer_of_dtype["w"], layer_of_dtype["b"]))}


# --- clones ---------------------------------------------------------------------------------------


def test_clones_type(answer, build, widths, n):
    """The result is an `nn.ModuleList` of n modules, so that a model finds their parameters."""
    copies = answer.clones(build(network, **widths), n)
    sizes = shapes(copies) if isinstance(copies, nn.Module) else {}
    return {"clones": copies, "how_many": len(copies), "parameters": sizes}


@pytest.mark.constant("the_original_is_one_of_them", "it never is")
def test_clones_are_copies(answer, build, widths, n):
    """The clones compute what the module computes, and none of them is the module itself."""
    module = build(network, **widths)
    copies = answer.clones(module, n)
    return {
        "values": [dict(copy.named_parameters()) for copy in copies],
        "different_parameters": len({id(p) for copy in copies for p in copy.parameters()}),
        "the_original_is_one_of_them": any(copy is module for copy in copies),
    }


def test_clones_gradients(answer, build, widths, n, inputs):
    """Each clone gets its own gradient."""
    copies = answer.clones(build(network, **widths), n)
    backward(*(copy(x) for copy, x in zip(copies, inputs, strict=True)))
    return {"gradients": gradients(copies)}
