"""Day 40 · quantize_int8(weight), dequantize(quantized, scale) and QuantizedLinear(linear)."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from course.checks.authoring import (
    DTYPES,
    FLOAT64,
    HALVES,
    backward,
    gradients,
    named,
    wanting_gradients,
)

PRUNED = "a row that was pruned is all zeros, and 0/0 would be NaN"
FAINT = "below the smallest normal number a scale has no digits left"
HALVED = "a model is often turned into half precision after it was quantized"
MODES = pytest.mark.watertight("a shipped model is used in evaluation mode")
WRITTEN = "whoever asks for the matrix may write into it"
TIES = "halfway between two integers there are two nearest ones, and one of them has to be chosen"
SINGLE = pytest.mark.watertight("an axis of length 1, where squeezing and broadcasting go wrong")
NOTHING = "an empty batch, or a matrix without rows, is a shape like any other"
HISTORY = "a module that holds what has a history cannot be copied"
TRAINED = "scales can be trained as well, which needs their gradient"
LATER = "the float weights may go on being trained, or be thrown away"
ROOM = (
    "sums over integers are larger than the outputs by 1 over the scale, and float16 ends at 65504"
)


REGISTERED = ("_parameters", "_buffers", "_modules")


def clear_of_ties(weight):
    """The weights, with 0 for those that lie so near the middle of two steps that rounding decides."""
    wide = weight.double()
    steps = wide / (wide.abs().amax(dim=1, keepdim=True) / 127)
    return weight.masked_fill(((steps.abs() % 1) - 0.5).abs() < 0.02, 0.0)


def matrix(draw, rows, columns, **how):
    """Rows of sizes of their own."""
    sizes = draw.uniform(0.2, 6.0, rows, 1, **how)
    return clear_of_ties(draw.normal(rows, columns, **how) * sizes)


def layer(draw, leading, rows, columns, **how):
    """A weight, a bias, and an x for it."""
    return {
        "weight": matrix(draw, rows, columns, **how),
        "bias": draw.normal(rows, mean=0.5, **how),
        "x": draw.normal(*leading, columns, mean=0.2, **how),
    }


@torch.no_grad()
def linear_of(build, given, bias=True, dtype="float32"):
    """The linear layer with this weight and this bias."""
    rows, columns = given["weight"].shape
    linear = build(nn.Linear, columns, rows, bias=bias, dtype=dtype)
    linear.weight.copy_(given["weight"])
    if bias:
        linear.bias.copy_(given["bias"])
    return linear


def large(module, size):
    """The names of the tensors of real numbers, as large as that, that a module holds in any way."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    for part in module.modules():
        attributes = {name: value for name, value in vars(part).items() if name not in REGISTERED}
        for name, leaf in (
            (name, leaf) for name, value in attributes.items() for leaf in tree_leaves(value)
        ):
            if isinstance(leaf, nn.Module):
                tensors |= {f"{name}.{inner}": value for inner, value in leaf.named_parameters()}
            elif isinstance(leaf, torch.Tensor):
                tensors[name] = leaf
    return sorted(
        name
        for name, value in tensors.items()
        if value.is_floating_point() and value.numel() >= size
    )


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def weight(draw):
    """More columns than rows, or fewer."""
    return matrix(draw, *draw.sizes(4, 11, 2))


@pytest.fixture
def halfway(draw):
    """Scales are powers of two, and most weights are midway between two steps."""
    rows, columns = draw.sizes(5, 9, 2)
    steps = draw.integers(-120, 119, rows, columns).float() + 0.5
    steps[:, :4] = torch.tensor([0.5, -0.5, 1.5, -1.5])
    steps[:, -1] = torch.tensor([127.0, -127.0]).repeat(rows)[:rows]
    return steps * 2.0 ** draw.integers(-9, -3, rows, 1)


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1."""
    rows, columns = (1 if f"{axis}=1" == edge else draw.size(4, 9) for axis in ("out", "in"))
    return layer(draw, (draw.size(2, 3),), rows, columns)


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype."""
    rows, columns = draw.sizes(5, 11, 2)
    return layer(draw, draw.sizes(2, 4, 2), rows, columns, dtype=dtype)


@pytest.fixture
def kept(draw, dtype):
    """Integers, and a scale for each row."""
    rows, columns = draw.sizes(4, 9, 2)
    return {
        "quantized": draw.integers(-127, 127, rows, columns).to(torch.int8),
        "scale": draw.uniform(0.01, 0.2, rows, 1, dtype=dtype),
    }


@pytest.fixture
def given(draw):
    """A layer of more inputs than outputs, or fewer, and a batch of texts."""
    b, t, rows, columns = draw.sizes(2, 9, 4)
    return layer(draw, (b, t), rows, columns)


@pytest.fixture
def other(draw, given):
    """Another layer of the same sizes."""
    return layer(draw, (1,), *given["weight"].shape)


@pytest.fixture
def in_any_batch(draw, batch):
    """Inputs with other leading axes."""
    sizes = {"B": draw.size(2, 3), "1": 1, "T": 4, "0": 0}
    rows, columns = draw.sizes(5, 9, 2)
    return layer(draw, [sizes[axis] for axis in batch.split()], rows, columns)


@pytest.fixture
def loud(draw):
    """Inputs and weights that nearly all have one sign, as after a ReLU: the sums are large."""
    rows, columns = draw.size(3, 5), draw.size(70, 90)
    return {
        "weight": clear_of_ties(draw.uniform(0.05, 0.1, rows, columns, dtype="float16")),
        "bias": draw.normal(rows, dtype="float16"),
        "x": draw.normal(2, columns, mean=30.0, scale=3.0, dtype="float16"),
    }


# --- There ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", ["out=1", pytest.param("in=1", marks=SINGLE)])
def test_one_row(answer, at_the_edge, edge):
    """The largest magnitude of a row becomes 127, and every weight the nearest step, even with a single
    column."""
    result = answer.quantize_int8(at_the_edge["weight"])
    return named(result, "quantized", "scale", first="scale")


def test_rows(answer, weight):
    """Each row has its own scale, so that a row of small weights keeps its accuracy."""
    return named(answer.quantize_int8(weight), "quantized", "scale", first="scale")


@pytest.mark.watertight(PRUNED)
def test_a_row_of_zeros(answer, weight):
    """A row of zeros has scale 1, and zeros."""
    weight = weight.clone()
    weight[1] = 0  # exactly: what is nearly zero has another scale
    return named(answer.quantize_int8(weight), "quantized", "scale", first="scale")


@pytest.mark.watertight(FAINT)
@pytest.mark.constant("scale of the faint row", "it is 1")
def test_a_faint_row(answer, weight):
    """A row whose scale would be below the smallest normal number is treated as zeros; other small rows
    are not."""
    faint, small = weight.clone(), weight.clone()
    faint[1] = 1e-37
    small[1] *= 1e-30
    quantized, scale = answer.quantize_int8(faint)
    return {
        "scale of the faint row": str(scale[1].item()),
        "quantized": quantized,
        "with a small row": named(answer.quantize_int8(small), "quantized", "scale", first="scale"),
    }


@pytest.mark.watertight(TIES)
def test_ties(answer, halfway):
    """Halfway cases are rounded to even, as `torch.round` does."""
    return named(answer.quantize_int8(halfway), "quantized", "scale", first="scale")


@pytest.mark.constant("scale", "there is none")
@pytest.mark.watertight(NOTHING)
def test_no_rows(answer, weight):
    """A matrix without rows has no scales."""
    result = answer.quantize_int8(weight[:0])
    return named(result, "quantized", "scale", first="scale")


@pytest.mark.constant("scale needs a gradient", "it never does")
@pytest.mark.watertight(HISTORY)
def test_no_history(answer, weight):
    """The results for a parameter do not require gradients, and have no computation graph."""
    quantized, scale = answer.quantize_int8(nn.Parameter(weight))
    return {"scale needs a gradient": scale.requires_grad, "quantized": quantized, "scale": scale}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtype_of_scales(answer, of_dtype, dtype):
    """For half precision, the scale is computed in float32; for float64, in float64."""
    result = answer.quantize_int8(of_dtype["weight"])
    return named(result, "quantized", "scale", first="scale")


# --- And back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dequantize(answer, kept, dtype):
    """Each integer is multiplied by its row's scale, in the dtype of the scale."""
    return {"weights": answer.dequantize(**kept)}


def test_there_and_back(answer, weight):
    """After quantizing and dequantizing, each weight is the nearest multiple of its row's scale."""
    return {"weights": answer.dequantize(*answer.quantize_int8(weight))}


@pytest.mark.watertight(TRAINED)
@pytest.mark.parametrize("dtype", ["float32"])
def test_gradient_of_the_scale(answer, kept, dtype):
    """A gradient reaches the scale."""
    scale = wanting_gradients(kept["scale"])
    backward(answer.dequantize(kept["quantized"], scale))
    return {"gradient of the scale": scale.grad}


# --- A layer --------------------------------------------------------------------------------------


def test_state(answer, build, given):
    """Integers, scale and bias are buffers: they are in the state dict, and there are no parameters."""
    module = answer.QuantizedLinear(linear_of(build, given))
    return {"state dict": dict(module.state_dict()), "parameters": dict(module.named_parameters())}


def test_weight(answer, build, given):
    """`weight` is the dequantized matrix."""
    return {"weight": answer.QuantizedLinear(linear_of(build, given)).weight}


@pytest.mark.parametrize("mode", ["training", pytest.param("evaluation", marks=MODES)])
def test_output(answer, build, given, mode):
    """The output is that of a linear layer with the dequantized weights."""
    module = answer.QuantizedLinear(linear_of(build, given)).train(mode == "training")
    return {"output": module(given["x"])}


def test_without_a_bias(answer, build, given):
    """A layer without a bias has none, in the state dict or in the output."""
    module = answer.QuantizedLinear(linear_of(build, given, bias=False))
    return {"output": module(given["x"]), "bias": module.bias, "state dict": module.state_dict()}


def test_it_loads(answer, build, given, other):
    """The state dict loads into a different layer of the same sizes, which then computes the same."""
    module = answer.QuantizedLinear(linear_of(build, given))
    loaded = answer.QuantizedLinear(linear_of(build, other))
    before = loaded(given["x"])
    loaded.load_state_dict(module.state_dict())
    return {"output": loaded(given["x"]), "output before": before}


def test_nothing_large_is_kept(answer, build, given):
    """The module stores no floating-point tensor of the size of the weights, before a call or after it."""
    module = answer.QuantizedLinear(linear_of(build, given))
    size = given["weight"].numel()
    before = large(module, size)
    y = module(given["x"])
    return {"kept before": before, "kept after": large(module, size), "output": y}


def test_gradients(answer, build, given):
    """Gradients reach the inputs, so that earlier layers can be trained."""
    module = answer.QuantizedLinear(linear_of(build, given))
    inputs = wanting_gradients({"x": given["x"]})
    backward(module(inputs["x"]))
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight("a linear layer takes inputs with any leading axes, or none, or empty ones")
@pytest.mark.parametrize("batch", ["", "B", "B 1 T"])
def test_any_batch(answer, build, in_any_batch, batch):
    """Any number of leading axes works."""
    return {"output": answer.QuantizedLinear(linear_of(build, in_any_batch))(in_any_batch["x"])}


@pytest.mark.watertight(LATER)
def test_the_linear_layer_goes_its_own_way(answer, build, given):
    """The linear layer does not change, and later changes of it have no effect."""
    linear = linear_of(build, given)
    module = answer.QuantizedLinear(linear)
    before = linear.weight.detach().clone()
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
    return {"the layer's weight": before, "output": module(given["x"])}


@pytest.mark.watertight(HALVED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_after_half(answer, build, given, of_dtype, dtype):
    """After `module.half()`, inputs in half precision work, and the integers do not change."""
    module = answer.QuantizedLinear(linear_of(build, given)).half()
    x = given["x"].to(of_dtype["x"].dtype)
    return {"output": module(x), "quantized": module.quantized, "weight": module.weight}


@pytest.mark.watertight(WRITTEN)
def test_weight_is_made_anew(answer, build, given):
    """Writing into `weight` changes neither the output nor a later `weight`."""
    module = answer.QuantizedLinear(linear_of(build, given))
    module.weight.zero_()
    return {"weight": module.weight, "output": module(given["x"])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, of_dtype, dtype):
    """The output has the dtype of the input, and the bias that of the linear layer."""
    module = answer.QuantizedLinear(linear_of(build, of_dtype, dtype=dtype))
    return {"output": module(of_dtype["x"]), "bias": module.bias}


@pytest.mark.watertight(ROOM)
def test_large_sums(answer, build, loud):
    """Outputs that float16 can represent are right, even if sums over the integers exceed it."""
    module = answer.QuantizedLinear(linear_of(build, loud, dtype="float16"))
    return {"output": module(loud["x"])}
