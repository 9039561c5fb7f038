"""Day 28 · RMSNorm(features, eps), GroupNorm(groups, features, eps), gelu(x, approximate), mish(x) and
SwiGLU(d_model, d_ff)."""

import pytest
import torch

from course.checks.authoring import DTYPES, HALVES, backward, gradients, shapes, wanting_gradients

CURVES = ["none", "tanh"]
LARGE = "features of 300 are common in a trained stack, and float16 ends at 65504"
SHAPES = "one number alone, or none at all, has a shape like any other"
KEPT = "whatever a module keeps of one call must still be right in the next"
ONE_NAN = "one NaN in a backward pass ends a run, hours after the loss looked fine"
START = "published code starts with a deviation of its own"
WIDE_GAIN = "in mixed precision the parameters are float32, and what they meet is not"


def beyond(case, why):
    """A case that asks more than the day is about."""
    return pytest.param(case, marks=pytest.mark.watertight(why))


OTHER_AXES = [
    beyond(case, "leading axes other than batch and time, which change nothing")
    for case in ("one vector", "four axes")
]


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
    return {"groups": groups, "eps": eps, "x": vectors(draw, batch, time, groups * each, **how)}


def fitting(build, norm, given, **how):
    """The norm for these vectors in groups."""
    return build(norm, given["groups"], given["x"].size(-1), given["eps"], **how)


def all_gradients(module, x):
    """Those of x and of the parameters."""
    inputs = wanting_gradients({"x": x})
    backward(module(**inputs))
    return gradients(inputs) | gradients(module)


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
def given(draw, case):
    """Vectors for an RMSNorm, and ε."""
    batch, time, features = draw.sizes(3, 8, 3)
    shape = {"one vector": (features,), "four axes": (2, batch, time, features)}
    shape = shape.get(case, (batch, time, 1 if case == "one feature" else features))
    if case == "large eps":  # about as large as the mean square
        return {"x": draw.normal(*shape), "eps": draw.size(3, 9) / 10}
    if case == "small vectors":  # whose mean square is about as small as ε
        return {"x": draw.normal(*shape, scale=0.003), "eps": 1e-5}
    x = vectors(draw, *shape)
    if case == "zeros":
        x[0], x[1, draw.size(0, time - 1)] = 0.0, 0.0
    return {"x": x, "eps": 1e-5}


@pytest.fixture
def of_dtype(draw, dtype):
    """Vectors in other dtypes."""
    return vectors(draw, *draw.sizes(3, 8, 3), dtype=dtype)


@pytest.fixture
def large_halves(draw):
    """Features of ±300: float16 holds them, and not their squares."""
    features = 2 * draw.size(8, 10)
    return draw.normal(*draw.sizes(2, 5, 2), features, scale=300.0, dtype="float16")


@pytest.fixture
def in_groups(draw):
    """Vectors in groups."""
    return grouped(draw)


@pytest.fixture
def groups_like(draw, case):
    """Vectors in groups, and ε."""
    if case == "large eps":  # about as large as the variances
        given = grouped(draw, eps=draw.size(3, 9) / 10)
        return given | {"x": draw.normal(*given["x"].shape)}
    if case == "far from zero":
        x = draw.normal(*draw.sizes(2, 5, 2), 2 * draw.size(8, 10), scale=0.1, mean=1000.0)
        return {"groups": 2, "eps": 1e-5, "x": x}
    given = grouped(draw)
    groups, x = given["groups"], given["x"]
    if case == "small variances":  # about as small as ε
        x = draw.normal(*x.shape, scale=0.003, mean=0.1)
    if case == "constant groups":  # of one whole number each, so that their mean is exact
        numbers = draw.integers(-9, 9, *x.shape[:-1], groups).to(torch.float32)
        x = numbers.repeat_interleave(x.size(-1) // groups, dim=-1)
    if case == "one group":
        groups = 1
    if case == "groups of one":
        # The deviation of one feature is √ε: what multiplies x and its mean by 1/√ε = 316 before it
        # takes their difference, as torch does, rounds 316 times as coarsely. Hence the small x.
        groups, x = x.size(-1), x / 10
    shapes = {"one vector": x[0, 0], "four axes": x.unsqueeze(1), "transposed": x.transpose(0, 1)}
    return given | {"groups": groups, "x": shapes.get(case, x)}


@pytest.fixture
def groups_of_dtype(draw, dtype):
    """Vectors in groups in other dtypes."""
    return grouped(draw, dtype=dtype)


@pytest.fixture
def curve(draw, where):
    """Features where a curve bends, and far from there, half of them negative."""
    if where == "bend":
        return draw.uniform(-6.0, 6.0, *draw.sizes(5, 8, 2))
    if where == "far":
        x = draw.uniform(20.0, 80.0, *draw.sizes(3, 6, 2))
    else:  # hundreds to ten thousand
        x = 10 ** draw.uniform(2.0, 4.0, *draw.sizes(3, 6, 2))
    return torch.stack([x, -x])


@pytest.fixture
def of_any_shape(draw, shape):
    """A single number, or nothing."""
    return draw.normal(*([] if shape == "()" else [*draw.sizes(2, 5, 2), 0]))


@pytest.fixture
def roomy(draw):
    """Matrices of thousands of numbers, whose standard deviation is known to about 1%."""
    return dict(zip(["d_model", "d_ff"], draw.sizes(60, 90, 2), strict=True))


@pytest.fixture
def two_batches(draw, in_groups):
    """A second batch of other lengths, for the same norm."""
    return in_groups["x"], vectors(draw, *draw.sizes(8, 10, 2), in_groups["x"].size(-1))


@pytest.fixture
def bend_of_dtype(draw, dtype):
    """Features where a curve bends, in other dtypes."""
    return draw.uniform(-3.0, 3.0, *draw.sizes(5, 8, 2), dtype=dtype)


@pytest.fixture
def left_tail(draw, dtype):
    """Features from −5 to −3, where the curve has nearly come back to 0."""
    return draw.uniform(-5.0, -3.0, *draw.sizes(5, 8, 2), dtype=dtype)


@pytest.fixture
def widths(draw):
    """d_model and d_ff; either may be the larger."""
    return dict(zip(["d_model", "d_ff"], draw.sizes(3, 9, 2), strict=True))


@pytest.fixture
def tokens(draw, widths, case):
    """Tokens with two axes in front or another number; loud ones have features of several hundred."""
    shape = draw.sizes(2, 6, {"one vector": 0, "four axes": 3}.get(case, 2))
    scale = 500.0 if case == "loud tokens" else 1.0
    return draw.normal(*shape, widths["d_model"], scale=scale)


@pytest.fixture
def tokens_of_dtype(draw, widths, dtype):
    """The same in other dtypes."""
    return draw.normal(*draw.sizes(2, 6, 2), widths["d_model"], dtype=dtype)


# --- RMSNorm --------------------------------------------------------------------------------------


def test_rms_norm_parameters(answer, build, features):
    """The only parameter is `gain`, with a number for every feature."""
    return {"parameters": shapes(build(answer.RMSNorm, features, 1e-5))}


def test_rms_norm_at_the_start(answer, features):
    """The gain is initialized to 1."""
    return {"gain": answer.RMSNorm(features, 1e-5).gain}


@pytest.mark.parametrize(
    "case", ["tokens", *OTHER_AXES, "one feature", "large eps", "small vectors", "zeros"]
)
def test_rms_norm(answer, build, given, case):
    """Each vector is divided by the root of its mean square plus ε; then the gain is applied."""
    return {"normed": build(answer.RMSNorm, given["x"].size(-1), given["eps"])(given["x"])}


@pytest.mark.parametrize(
    "case",
    [
        "tokens",
        beyond("zeros", "a vector of zeros must not turn all gradients of a batch into NaN"),
    ],
)
def test_rms_norm_gradients(answer, build, given, case):
    """Gradients reach x, also through the mean square, and the gain, even for a vector of zeros."""
    norm = build(answer.RMSNorm, given["x"].size(-1), given["eps"])
    return {"gradients": all_gradients(norm, given["x"])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_dtype(answer, build, of_dtype, dtype):
    """The result has the dtype of x and the gain."""
    return {"normed": build(answer.RMSNorm, of_dtype.size(-1), 1e-5, dtype=dtype)(of_dtype)}


@pytest.mark.watertight(LARGE)
def test_rms_norm_large_halves(answer, build, large_halves):
    """Features of ±300 are normalized correctly in float16, which cannot represent their squares."""
    norm = build(answer.RMSNorm, large_halves.size(-1), 1e-5, dtype="float16")
    return {"normed": norm(large_halves)}


@pytest.mark.watertight(WIDE_GAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_wide_gain(answer, build, of_dtype, dtype):
    """The result has the dtype of x even if the gain is float32."""
    return {"normed": build(answer.RMSNorm, of_dtype.size(-1), 1e-5)(of_dtype)}


@pytest.mark.watertight(KEPT)
def test_rms_norm_again(answer, build, two_batches):
    """A second call, with a different gain, does not depend on the first."""
    norm = build(answer.RMSNorm, two_batches[0].size(-1), 1e-5)
    return called_again(norm, two_batches)


# --- GroupNorm ------------------------------------------------------------------------------------


def test_group_norm_parameters(answer, build, in_groups):
    """The parameters are `gain` and `bias`, with a number for every feature."""
    return {"parameters": shapes(fitting(build, answer.GroupNorm, in_groups))}


def test_group_norm_at_the_start(answer, in_groups):
    """The gain is initialized to 1 and the bias to 0."""
    norm = answer.GroupNorm(in_groups["groups"], in_groups["x"].size(-1), 1e-5)
    return {"gain": norm.gain, "bias": norm.bias}


@pytest.mark.on_devices
@pytest.mark.parametrize(
    "case",
    [
        "tokens",
        *OTHER_AXES,
        "one group",
        "large eps",
        "small variances",
        "constant groups",
        beyond("groups of one", "with n − 1 a group of one is 0/0"),
        beyond("far from zero", "the mean of squares less the square of the mean is noise there"),
        beyond("transposed", "a transposed tensor lies by columns, and `view` refuses it"),
    ],
)
def test_group_norm(answer, build, groups_like, case):
    """Each group of adjacent features is normalized by its own statistics and ε; then gain and bias are
    applied."""
    return {"normed": fitting(build, answer.GroupNorm, groups_like)(groups_like["x"])}


@pytest.mark.parametrize(
    "case",
    [
        "tokens",
        beyond("constant groups", "equal numbers must not turn all gradients of a batch into NaN"),
    ],
)
def test_group_norm_gradients(answer, build, groups_like, case):
    """Gradients reach x, also through mean and standard deviation, gain and bias, even for constant
    groups."""
    norm = fitting(build, answer.GroupNorm, groups_like)
    return {"gradients": all_gradients(norm, groups_like["x"])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm_dtype(answer, build, groups_of_dtype, dtype):
    """The result has the dtype of x, gain and bias."""
    return {
        "normed": fitting(build, answer.GroupNorm, groups_of_dtype, dtype=dtype)(
            groups_of_dtype["x"]
        )
    }


@pytest.mark.watertight(LARGE)
def test_group_norm_large_halves(answer, build, large_halves):
    """Features of ±300 are normalized correctly in float16, which cannot represent their squares."""
    norm = build(answer.GroupNorm, 2, large_halves.size(-1), 1e-5, dtype="float16")
    return {"normed": norm(large_halves)}


@pytest.mark.watertight(WIDE_GAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_group_norm_wide_gain(answer, build, groups_of_dtype, dtype):
    """The result has the dtype of x even if gain and bias are float32."""
    return {"normed": fitting(build, answer.GroupNorm, groups_of_dtype)(groups_of_dtype["x"])}


@pytest.mark.watertight(KEPT)
def test_group_norm_again(answer, build, in_groups, two_batches):
    """A second call, with a different gain and bias, does not depend on the first."""
    return called_again(fitting(build, answer.GroupNorm, in_groups), two_batches)


# --- gelu -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximate", CURVES)
@pytest.mark.parametrize("where", ["bend", "far"])
def test_gelu(answer, curve, approximate, where):
    """Each feature is multiplied by the share of the normal distribution below it, exact or approximated
    with tanh."""
    return {"output": answer.gelu(curve, approximate)}


@pytest.mark.parametrize("approximate", CURVES)
@pytest.mark.parametrize("where", ["bend", beyond("very far", ONE_NAN)])
def test_gelu_gradients(answer, curve, approximate, where):
    """The slope is below 0 on the left, slightly above 1 on the right, and 0 and 1 far out, up to ±10⁴."""
    inputs = wanting_gradients({"x": curve})
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
    """Left of −3, where a number near −1 is added to 1, half precision is accurate to its rounding."""
    return {"output": answer.gelu(left_tail, approximate)}


@pytest.mark.watertight(SHAPES)
@pytest.mark.parametrize("shape", ["()", "(n, 0)"])
def test_gelu_of_any_shape(answer, of_any_shape, shape):
    """A single number works, and so does an empty tensor."""
    return {curve: answer.gelu(of_any_shape, curve) for curve in CURVES}


# --- mish -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["bend", "far"])
def test_mish(answer, curve, where):
    """Each feature is multiplied by the tanh of its softplus."""
    return {"output": answer.mish(curve)}


@pytest.mark.parametrize("where", ["bend", beyond("very far", ONE_NAN)])
def test_mish_gradients(answer, curve, where):
    """The slope is below 0 on the left, slightly above 1 on the right, and 0 and 1 far out, where eˣ
    overflows."""
    inputs = wanting_gradients({"x": curve})
    backward(answer.mish(**inputs))
    return {"gradients": gradients(inputs)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_mish_dtype(answer, bend_of_dtype, dtype):
    """The result has the dtype of x."""
    return {"output": answer.mish(bend_of_dtype)}


@pytest.mark.parametrize("dtype", HALVES)
def test_mish_left_tail_of_halves(answer, left_tail, dtype):
    """Left of −3, where eˣ is small compared with 1, half precision is accurate to its rounding."""
    return {"output": answer.mish(left_tail)}


@pytest.mark.watertight(SHAPES)
@pytest.mark.parametrize("shape", ["()", "(n, 0)"])
def test_mish_of_any_shape(answer, of_any_shape, shape):
    """A single number works, and so does an empty tensor."""
    return {"output": answer.mish(of_any_shape)}


# --- SwiGLU ---------------------------------------------------------------------------------------


def test_swiglu_parameters(answer, build, widths):
    """The parameters are three linear layers without biases: `w_gate` and `w_up` to d_ff, and `w_down`
    back."""
    return {"parameters": shapes(build(answer.SwiGLU, **widths))}


@pytest.mark.parametrize("case", ["tokens", *OTHER_AXES])
def test_swiglu(answer, build, widths, tokens, case):
    """Swish of one projection is multiplied by the other, and projected back, at every position."""
    return {"output": build(answer.SwiGLU, **widths)(tokens)}


@pytest.mark.parametrize("case", ["tokens", beyond("loud tokens", ONE_NAN)])
def test_swiglu_gradients(answer, build, widths, tokens, case):
    """Gradients reach x and all three matrices, the gate's through Swish, however large or small it is."""
    return {"gradients": all_gradients(build(answer.SwiGLU, **widths), tokens)}


@pytest.mark.watertight(KEPT)
@pytest.mark.parametrize("case", ["tokens"])
def test_swiglu_again(answer, build, widths, tokens, case):
    """After a training step, the output is that of the new weights."""
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu_dtype(answer, build, widths, tokens_of_dtype, dtype):
    """The output has the dtype of the weights and the inputs."""
    return {"output": build(answer.SwiGLU, **widths, dtype=dtype)(tokens_of_dtype)}
