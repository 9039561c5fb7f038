"""Day 28 · RMSNorm(features, eps), GroupNorm(groups, features, eps), gelu(x, approximate), mish(x) and
SwiGLU(d_model, d_ff)."""

import pytest
import torch

from course.checks.authoring import DTYPES, HALVES, backward, gradients, shapes, wanting_gradients

CURVES = ["none", "tanh"]
LARGE = "features of 300 are common in a trained stack, and float16 ends at 65504"
SHAPES = "one number alone, or none at all, has a shape like any other"
KEPT = "whatever a module keeps of one call must still be right in the next"
START = "published code starts with a deviation of its own"
WIDE_GAIN = "in mixed precision the parameters are float32, and what they meet is not"


def vectors(draw, *shape, **how):
    """Vectors of many means and standard deviations."""
    offset = draw.normal(*shape[:-1], 1, scale=2.0, dtype="float64")
    spread = draw.uniform(0.5, 4.0, *shape[:-1], 1, dtype="float64")
    dtype = getattr(torch, how.get("dtype", "float32"))
    return (offset + spread * draw.normal(*shape, dtype="float64")).to(dtype)


def grouped(draw, *, eps=1e-5, **how):
    """G groups of three features or more, and tokens of as many features: no two sizes alike.

    In a group of two, n − 1 is 1: an unbiased variance would be the sum of the squares.
    """
    groups, each, batch, time = draw.sizes(3, 7, 4)
    return {
        "groups": groups,
        "eps": eps,
        "x": vectors(draw, batch, time, groups * each, **how),
    }


def fitting(build, norm, given, **how):
    """The norm for these vectors in groups."""
    return build(norm, given["groups"], given["x"].size(-1), given["eps"], **how)


def called_again(module, batches):
    """What a module makes of a second batch, after its weights have changed."""
    first, second = batches
    module(first)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    return {"output": module(second), "output of the first batch": module(first)}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def features(draw):
    """A width."""
    return draw.size(3, 9)


@pytest.fixture
def x(draw):
    """Vectors in a batch of sequences."""
    return vectors(draw, *draw.sizes(3, 8, 3))


@pytest.fixture
def x_of_rank(draw, leading):
    """One vector, a list of them, or more leading dimensions."""
    return vectors(draw, *draw.sizes(3, 8, leading + 1))


@pytest.fixture
def of_one_feature(draw):
    """Vectors of one feature."""
    return vectors(draw, *draw.sizes(3, 6, 2), 1)


@pytest.fixture
def usual(draw):
    """Vectors of mean square about 1."""
    return draw.normal(*draw.sizes(3, 8, 3))


@pytest.fixture
def eps(draw):
    """An ε about as large as the mean square of the vectors that go with it."""
    return draw.size(3, 9) / 10


@pytest.fixture
def faint(draw):
    """A mean square about as small as the ε that goes with it, 1e-5."""
    return draw.normal(*draw.sizes(3, 8, 3), scale=0.003)


@pytest.fixture
def with_zeros(draw):
    """Vectors some of which hold nothing but zeros."""
    batch, time, features = draw.sizes(3, 8, 3)
    x = draw.normal(batch, time, features)
    x[0] = 0.0
    x[1, draw.size(0, time - 1)] = 0.0
    return x


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
def given(draw):
    """Vectors in groups."""
    return grouped(draw)


@pytest.fixture
def given_of_rank(draw, leading):
    """One vector in groups, a list of vectors, or more leading dimensions."""
    groups, each, *shape = draw.sizes(3, 7, leading + 2)
    return {"groups": groups, "eps": 1e-5, "x": vectors(draw, *shape, groups * each)}


@pytest.fixture
def at_the_edge(draw, edge):
    """One group of all features, or groups of one feature each.

    The deviation of one feature is √ε: what multiplies x and its mean by 1/√ε = 316 before it takes
    their difference, as torch does, rounds 316 times as coarsely. Hence the small x.
    """
    features, batch, time = draw.sizes(3, 8, 3)
    x = vectors(draw, batch, time, features)
    groups, x = (1, x) if edge == "one group" else (features, x / 10)
    return {"groups": groups, "eps": 1e-5, "x": x}


@pytest.fixture
def given_with_eps(draw, eps):
    """Vectors whose groups have variances about as large as ε."""
    given = grouped(draw, eps=eps)
    return given | {"x": draw.normal(*given["x"].shape)}


@pytest.fixture
def nearly_constant(draw):
    """Groups whose variance is about as small as ε = 1e-5."""
    given = grouped(draw)
    return given | {"x": draw.normal(*given["x"].shape, scale=0.003, mean=0.1)}


@pytest.fixture
def constant(draw):
    """Groups of one whole number each, so that their mean is exact."""
    groups, each, batch, time = draw.sizes(2, 6, 4)
    numbers = draw.integers(-9, 9, batch, time, groups).to(torch.float32)
    return {"groups": groups, "eps": 1e-5, "x": numbers.repeat_interleave(each, dim=-1)}


@pytest.fixture
def far_from_zero(draw):
    """A mean of 1000 and a standard deviation of 0.1, in float32, in two groups."""
    x = draw.normal(*draw.sizes(2, 5, 2), 2 * draw.size(8, 10), scale=0.1, mean=1000.0)
    return {"groups": 2, "eps": 1e-5, "x": x}


@pytest.fixture
def given_of_dtype(draw, dtype):
    """Vectors in groups in other dtypes."""
    return grouped(draw, dtype=dtype)


@pytest.fixture
def large_groups(draw):
    """Features of ±300 in float16, in two groups."""
    x = draw.normal(*draw.sizes(2, 5, 2), 2 * draw.size(8, 10), scale=300.0, dtype="float16")
    return {"groups": 2, "eps": 1e-5, "x": x}


@pytest.fixture
def bend(draw):
    """Features where a curve bends, from −6 to 6."""
    return draw.uniform(-6.0, 6.0, *draw.sizes(5, 8, 2))


@pytest.fixture
def of_any_shape(draw, shape):
    """A single number, or nothing."""
    return draw.normal(*([] if shape == "()" else [*draw.sizes(2, 5, 2), 0]))


@pytest.fixture
def roomy(draw):
    """Matrices of thousands of numbers, whose standard deviation is known to about 1%."""
    return dict(zip(["d_model", "d_ff"], draw.sizes(60, 90, 2), strict=True))


@pytest.fixture
def two_batches(draw, given):
    """A second batch of other lengths, for the same norm."""
    return given["x"], vectors(draw, *draw.sizes(8, 10, 2), given["x"].size(-1))


@pytest.fixture
def bend_of_dtype(draw, dtype):
    """The same in other dtypes."""
    return draw.uniform(-3.0, 3.0, *draw.sizes(5, 8, 2), dtype=dtype)


@pytest.fixture
def left_tail(draw, dtype):
    """Features from −5 to −3, where the curve has nearly come back to 0."""
    return draw.uniform(-5.0, -3.0, *draw.sizes(5, 8, 2), dtype=dtype)


@pytest.fixture
def far(draw):
    """Features of 20 to 80, half of them negative."""
    x = draw.uniform(20.0, 80.0, *draw.sizes(3, 6, 2))
    return torch.stack([x, -x])


@pytest.fixture
def very_far(draw):
    """Features of hundreds to ten thousand, half of them negative."""
    x = 10 ** draw.uniform(2.0, 4.0, *draw.sizes(3, 6, 2))
    return torch.stack([x, -x])


@pytest.fixture
def widths(draw):
    """d_model and d_ff; either may be the larger."""
    return dict(zip(["d_model", "d_ff"], draw.sizes(3, 9, 2), strict=True))


@pytest.fixture
def tokens(draw, widths):
    """Tokens in a batch of sequences."""
    return draw.normal(*draw.sizes(2, 6, 2), widths["d_model"])


@pytest.fixture
def tokens_of_rank(draw, widths, leading):
    """One token, a list of them, or more leading dimensions."""
    return draw.normal(*draw.sizes(2, 4, leading), widths["d_model"])


@pytest.fixture
def tokens_of_dtype(draw, widths, dtype):
    """The same in other dtypes."""
    return draw.normal(*draw.sizes(2, 6, 2), widths["d_model"], dtype=dtype)


@pytest.fixture
def loud_tokens(draw, widths):
    """Tokens with features of several hundred."""
    return draw.normal(*draw.sizes(3, 6, 2), widths["d_model"], scale=500.0)


# --- RMSNorm --------------------------------------------------------------------------------------


def test_rms_norm_parameters(answer, build, features):
    """`gain`, a number for every feature, and nothing else to learn."""
    return {"parameters": shapes(build(answer.RMSNorm, features, 1e-5))}


def test_rms_norm_at_the_start(answer, features):
    """The gain starts at 1: at first the norm is nothing but a norm."""
    return {"gain": answer.RMSNorm(features, 1e-5).gain}


def test_rms_norm(answer, build, x):
    """Each vector is divided by the root of its own mean square; then comes the gain."""
    return {"normed": build(answer.RMSNorm, x.size(-1), 1e-5)(x)}


@pytest.mark.parametrize("leading", [0, 1, 3])
def test_rms_norm_leading_dimensions(answer, build, x_of_rank, leading):
    """One vector alone, a list of vectors, or more axes in front: the last axis holds the features."""
    return {"normed": build(answer.RMSNorm, x_of_rank.size(-1), 1e-5)(x_of_rank)}


def test_rms_norm_of_one_feature(answer, build, of_one_feature):
    """A vector of one feature keeps its sign, and its size becomes the gain's."""
    return {"normed": build(answer.RMSNorm, 1, 1e-5)(of_one_feature)}


def test_rms_norm_eps(answer, build, usual, eps):
    """ε is what the caller says, and is added to the mean square, under the root."""
    return {"normed": build(answer.RMSNorm, usual.size(-1), eps)(usual)}


def test_rms_norm_small_vectors(answer, build, faint):
    """A mean square about as small as ε = 1e-5: ε is added to it, under the root."""
    return {"normed": build(answer.RMSNorm, faint.size(-1), 1e-5)(faint)}


def test_rms_norm_zeros(answer, build, with_zeros):
    """A vector of zeros gives zeros, not NaN."""
    return {"normed": build(answer.RMSNorm, with_zeros.size(-1), 1e-5)(with_zeros)}


def test_rms_norm_gradients(answer, build, x):
    """Gradients reach x, through the mean square too, and the gain."""
    norm = build(answer.RMSNorm, x.size(-1), 1e-5)
    inputs = wanting_gradients({"x": x})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.watertight("a vector of zeros must not turn all gradients of a batch into NaN")
def test_rms_norm_gradients_of_zeros(answer, build, with_zeros):
    """Gradients of vectors of zeros are numbers, although their root has no slope at 0."""
    norm = build(answer.RMSNorm, with_zeros.size(-1), 1e-5)
    inputs = wanting_gradients({"x": with_zeros})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_dtype(answer, build, of_dtype, dtype):
    """The result has the dtype of x and gain."""
    return {"normed": build(answer.RMSNorm, of_dtype.size(-1), 1e-5, dtype=dtype)(of_dtype)}


@pytest.mark.watertight(LARGE)
def test_rms_norm_large_halves(answer, build, large_halves):
    """Features of ±300 are no trouble in float16, which cannot hold their squares."""
    norm = build(answer.RMSNorm, large_halves.size(-1), 1e-5, dtype="float16")
    return {"normed": norm(large_halves)}


@pytest.mark.watertight(WIDE_GAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_wide_gain(answer, build, of_dtype, dtype):
    """The result has the dtype of x where the gain is float32, too."""
    return {"normed": build(answer.RMSNorm, of_dtype.size(-1), 1e-5)(of_dtype)}


@pytest.mark.watertight(KEPT)
def test_rms_norm_again(answer, build, two_batches):
    """A second batch, with another gain, is normalized by itself."""
    norm = build(answer.RMSNorm, two_batches[0].size(-1), 1e-5)
    return called_again(norm, two_batches)


# --- GroupNorm ------------------------------------------------------------------------------------


def test_group_norm_parameters(answer, build, given):
    """`gain` and `bias`, a number each for every feature, and nothing else to learn."""
    return {"parameters": shapes(fitting(build, answer.GroupNorm, given))}


def test_group_norm_at_the_start(answer, given):
    """The gain starts at 1 and the bias at 0: at first the norm is nothing but a norm."""
    norm = answer.GroupNorm(given["groups"], given["x"].size(-1), 1e-5)
    return {"gain": norm.gain, "bias": norm.bias}


@pytest.mark.on_devices
def test_group_norm(answer, build, given):
    """Each group of adjacent features is normalized by its own statistics; then come gain and bias."""
    return {"normed": fitting(build, answer.GroupNorm, given)(given["x"])}


@pytest.mark.parametrize("leading", [0, 1, 3])
def test_group_norm_leading_dimensions(answer, build, given_of_rank, leading):
    """One vector alone, a list of vectors, or more axes in front: every vector is normalized by itself."""
    return {"normed": fitting(build, answer.GroupNorm, given_of_rank)(given_of_rank["x"])}


@pytest.mark.parametrize(
    "edge",
    [
        "one group",
        pytest.param(
            "groups of one", marks=pytest.mark.watertight("with n − 1 a group of one is 0/0")
        ),
    ],
)
def test_group_norm_at_the_edge(answer, build, at_the_edge, edge):
    """One group is the layer norm; of groups of one feature the bias is left."""
    return {"normed": fitting(build, answer.GroupNorm, at_the_edge)(at_the_edge["x"])}


def test_group_norm_eps(answer, build, given_with_eps):
    """ε is what the caller says, and is added to the variance, under the root."""
    return {"normed": fitting(build, answer.GroupNorm, given_with_eps)(given_with_eps["x"])}


def test_group_norm_small_variance(answer, build, nearly_constant):
    """A variance about as small as ε = 1e-5: ε is added to it, under the root."""
    return {"normed": fitting(build, answer.GroupNorm, nearly_constant)(nearly_constant["x"])}


def test_group_norm_constant_groups(answer, build, constant):
    """A group of equal numbers gives the bias, not NaN."""
    return {"normed": fitting(build, answer.GroupNorm, constant)(constant["x"])}


@pytest.mark.watertight("the mean of squares less the square of the mean is noise far from zero")
def test_group_norm_far_from_zero(answer, build, far_from_zero):
    """A mean of 1000 with a standard deviation of 0.1 in float32 is no trouble."""
    return {"normed": fitting(build, answer.GroupNorm, far_from_zero)(far_from_zero["x"])}


@pytest.mark.watertight("a transposed tensor lies in memory by columns, and `view` refuses it")
def test_group_norm_of_transposed_vectors(answer, build, given):
    """Time and batch may have changed places in front of the features."""
    return {"normed": fitting(build, answer.GroupNorm, given)(given["x"].transpose(0, 1))}


def test_group_norm_gradients(answer, build, given):
    """Gradients reach x, through mean and standard deviation too, and gain and bias."""
    norm = fitting(build, answer.GroupNorm, given)
    inputs = wanting_gradients({"x": given["x"]})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.watertight("a group of equal numbers must not turn all gradients of a batch into NaN")
def test_group_norm_gradients_of_constant_groups(answer, build, constant):
    """Gradients of groups of equal numbers are numbers, although their standard deviation is 0."""
    norm = fitting(build, answer.GroupNorm, constant)
    inputs = wanting_gradients({"x": constant["x"]})
    backward(norm(**inputs))
    return {"gradients": gradients(inputs) | gradients(norm)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm_dtype(answer, build, given_of_dtype, dtype):
    """The result has the dtype of x, gain and bias."""
    return {
        "normed": fitting(build, answer.GroupNorm, given_of_dtype, dtype=dtype)(given_of_dtype["x"])
    }


@pytest.mark.watertight(LARGE)
def test_group_norm_large_halves(answer, build, large_groups):
    """Features of ±300 are no trouble in float16, which cannot hold their squares."""
    return {
        "normed": fitting(build, answer.GroupNorm, large_groups, dtype="float16")(large_groups["x"])
    }


@pytest.mark.watertight(WIDE_GAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_group_norm_wide_gain(answer, build, given_of_dtype, dtype):
    """The result has the dtype of x where gain and bias are float32, too."""
    return {"normed": fitting(build, answer.GroupNorm, given_of_dtype)(given_of_dtype["x"])}


@pytest.mark.watertight(KEPT)
def test_group_norm_again(answer, build, given, two_batches):
    """A second batch, with another gain and bias, is normalized by itself."""
    return called_again(fitting(build, answer.GroupNorm, given), two_batches)


# --- gelu -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximate", CURVES)
def test_gelu(answer, bend, approximate):
    """Each feature times the share of the normal distribution below it, exactly or by the tanh."""
    return {"output": answer.gelu(bend, approximate)}


@pytest.mark.parametrize("approximate", CURVES)
def test_gelu_far_from_zero(answer, far, approximate):
    """Far above 0 it is x, far below 0 it is 0."""
    return {"output": answer.gelu(far, approximate)}


@pytest.mark.parametrize("approximate", CURVES)
def test_gelu_gradients(answer, bend, approximate):
    """The slope, below 0 on the left and a little more than 1 on the right."""
    inputs = wanting_gradients({"x": bend})
    backward(answer.gelu(**inputs, approximate=approximate))
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight("one NaN on the way back ends a run, hours after the loss looked well")
@pytest.mark.parametrize("approximate", CURVES)
def test_gelu_gradients_far_from_zero(answer, very_far, approximate):
    """Up to ±10⁴ the slope is 1 and 0."""
    inputs = wanting_gradients({"x": very_far})
    backward(answer.gelu(**inputs, approximate=approximate))
    return {"gradients": gradients(inputs)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("approximate", CURVES)
def test_gelu_dtype(answer, bend_of_dtype, approximate, dtype):
    """The result has the dtype of x."""
    return {"output": answer.gelu(bend_of_dtype, approximate)}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("approximate", CURVES)
def test_gelu_left_tail_of_halves(answer, left_tail, approximate, dtype):
    """Left of −3, where 1 plus a number near −1 is left, halves are right to their rounding."""
    return {"output": answer.gelu(left_tail, approximate)}


@pytest.mark.watertight(SHAPES)
@pytest.mark.parametrize("shape", ["()", "(n, 0)"])
def test_gelu_of_any_shape(answer, of_any_shape, shape):
    """A single number has a result of its own; of no numbers comes none."""
    return {curve: answer.gelu(of_any_shape, curve) for curve in CURVES}


# --- mish -----------------------------------------------------------------------------------------


def test_mish(answer, bend):
    """Each feature times the tanh of its softplus."""
    return {"output": answer.mish(bend)}


def test_mish_far_from_zero(answer, far):
    """Far above 0 it is x, far below 0 it is 0."""
    return {"output": answer.mish(far)}


def test_mish_gradients(answer, bend):
    """The slope, below 0 on the left and a little more than 1 on the right."""
    inputs = wanting_gradients({"x": bend})
    backward(answer.mish(**inputs))
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight("one NaN on the way back ends a run, hours after the loss looked well")
def test_mish_gradients_far_from_zero(answer, very_far):
    """Up to ±10⁴, where eˣ overflows, the slope is 1 and 0."""
    inputs = wanting_gradients({"x": very_far})
    backward(answer.mish(**inputs))
    return {"gradients": gradients(inputs)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_mish_dtype(answer, bend_of_dtype, dtype):
    """The result has the dtype of x."""
    return {"output": answer.mish(bend_of_dtype)}


@pytest.mark.parametrize("dtype", HALVES)
def test_mish_left_tail_of_halves(answer, left_tail, dtype):
    """Left of −3, where eˣ is small beside 1, halves are right to their rounding."""
    return {"output": answer.mish(left_tail)}


@pytest.mark.watertight(SHAPES)
@pytest.mark.parametrize("shape", ["()", "(n, 0)"])
def test_mish_of_any_shape(answer, of_any_shape, shape):
    """A single number has a result of its own; of no numbers comes none."""
    return {"output": answer.mish(of_any_shape)}


# --- SwiGLU ---------------------------------------------------------------------------------------


def test_swiglu_parameters(answer, build, widths):
    """Three linear layers without biases, `w_gate` and `w_up` to d_ff and `w_down` back, and nothing else."""
    return {"parameters": shapes(build(answer.SwiGLU, **widths))}


def test_swiglu(answer, build, widths, tokens):
    """Swish of one projection times the other, and back to d_model: the same at every position."""
    return {"output": build(answer.SwiGLU, **widths)(tokens)}


@pytest.mark.parametrize("leading", [0, 1, 3])
def test_swiglu_leading_dimensions(answer, build, widths, tokens_of_rank, leading):
    """One token alone, a list of tokens, or more axes in front."""
    return {"output": build(answer.SwiGLU, **widths)(tokens_of_rank)}


def test_swiglu_gradients(answer, build, widths, tokens):
    """Gradients reach x and all three matrices, the gate's through Swish."""
    module = build(answer.SwiGLU, **widths)
    inputs = wanting_gradients({"x": tokens})
    backward(module(**inputs))
    return {"gradients": gradients(inputs) | gradients(module)}


@pytest.mark.watertight(KEPT)
def test_swiglu_again(answer, build, widths, tokens):
    """After a training step the output is that of the new weights."""
    return called_again(build(answer.SwiGLU, **widths), (tokens, tokens[:1, 1:]))


@pytest.mark.watertight(START)
@pytest.mark.constant("weights not like those of nn.Linear", "there is none")
def test_swiglu_start(answer, roomy):
    """The initial weights are those of `nn.Linear`: uniform within ±1/√n for n inputs."""
    odd = []
    for name, parameter in answer.SwiGLU(**roomy).named_parameters():
        unit = parameter.detach() * parameter.size(1) ** 0.5
        if not (unit.abs().max() <= 1.001 and 0.54 < unit.std() < 0.61):  # 1/√3 is 0.577
            odd.append(name)
    return {"weights not like those of nn.Linear": len(odd)} | roomy


@pytest.mark.watertight("one NaN on the way back ends a run, hours after the loss looked well")
def test_swiglu_gradients_of_loud_tokens(answer, build, widths, loud_tokens):
    """Gates of several hundred, open or shut, have a slope as others have."""
    module = build(answer.SwiGLU, **widths)
    inputs = wanting_gradients({"x": loud_tokens})
    backward(module(**inputs))
    return {"gradients": gradients(inputs) | gradients(module)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu_dtype(answer, build, widths, tokens_of_dtype, dtype):
    """The output has the dtype of weights and inputs."""
    return {"output": build(answer.SwiGLU, **widths, dtype=dtype)(tokens_of_dtype)}
