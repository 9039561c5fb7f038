"""Day 8 · attention(query, key, value, mask=None, dropout=None), in PyTorch."""

import pytest
import torch

from course.checks.authoring import (
    FLOAT64,
    HALVES,
    backward,
    gradients,
    named,
    sequences,
    wanting_gradients,
)

EMPTY = (
    "a padded sentence of length 0 must not turn the whole batch into NaN, nor listen to padding"
)
SINGLE = "a batch or a sequence of one is where squeezed and broadcast axes go astray"


def seen(result):
    """What attention returns, by name; the output hangs on the weights."""
    return named(result, "output", "weights", first="weights")


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def inputs(draw):
    """Four axes, as in multi-head attention, whose sizes are all different."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 8, 6)
    return sequences(draw, [b, h], t_q, t_k, d_k, d_v)


@pytest.fixture
def inputs_of_rank(draw, leading):
    """No leading axis, one, or more than batch and heads."""
    t_q, t_k, d_k, d_v = draw.sizes(3, 8, 4)
    return sequences(draw, draw.sizes(2, 4, leading), t_q, t_k, d_k, d_v)


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1."""
    names = ["B", "T_q", "T_k", "d_k", "d_v"]
    sizes = dict(zip(names, draw.sizes(2, 8, 5), strict=True)) | {edge.split("=")[0]: 1}
    b, t_q, t_k, d_k, d_v = sizes.values()
    return sequences(draw, [b], t_q, t_k, d_k, d_v)


@pytest.fixture
def large_scores(draw):
    """Scores of about ±1e4, near each other at the top."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 7, 6)
    inputs = sequences(draw, [b, h], t_q, t_k, d_k, d_v)
    return inputs | {"query": inputs["query"] * 100, "key": inputs["key"] * 100}


@pytest.fixture
def split_from_heads(draw):
    """Four axes that are in memory as (B, T, h, d), as after a split into heads; keys by columns."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 7, 6)
    inputs = sequences(draw, [b, h], t_q, t_k, d_k, d_v)
    axes = {"query": (1, 2), "key": (2, 3), "value": (1, 2)}
    return {
        name: x.transpose(*axes[name]).contiguous().transpose(*axes[name])
        for name, x in inputs.items()
    }


@pytest.fixture
def masked(draw, shape):
    """Four axes, as in multi-head attention, and a mask with or without axes of its own for them."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 7, 6)
    if "T" in shape.split():  # as many queries as keys
        t_q = t_k
    sizes = {"B": b, "h": h, "T_q": t_q, "T_k": t_k, "T": t_k, "1": 1}
    mask = draw.mask(*(sizes[axis] for axis in shape.split()))
    return sequences(draw, [b, h], t_q, t_k, d_k, d_v) | {"mask": mask}


@pytest.fixture
def masked_batch(draw):
    """A mask for each query, which leaves it something to attend to."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 8, 6)
    return sequences(draw, [b, h], t_q, t_k, d_k, d_v) | {"mask": draw.mask(b, h, t_q, t_k)}


@pytest.fixture
def loud_and_hidden(draw):
    """The keys that are hidden would win every softmax, by far."""
    b, h, t_q, t_k, d_k, d_v = draw.sizes(2, 8, 6)
    inputs = sequences(draw, [b, h], t_q, t_k, d_k, d_v)
    mask = draw.mask(b, 1, 1, t_k)
    direction = draw.normal(d_k)
    direction = direction / direction.norm()
    inputs["query"] = inputs["query"] + 30.0 * direction
    inputs["key"] = inputs["key"] + 30.0 * direction * ~mask.transpose(-2, -1)
    return inputs | {"mask": mask}


@pytest.fixture
def low_scores(draw, dtype):
    """Every score is about minus a million, and no model's lie lower; each query may ask one key only."""
    b, t_q, t_k, d_v = draw.sizes(2, 8, 4)
    inputs = sequences(draw, [b], t_q, t_k, 2, d_v, dtype=dtype)
    inputs["query"][..., 0] = 1000 * draw.uniform(0.8, 1.0, b, t_q, dtype=dtype)
    inputs["key"][..., 0] = -1000 * draw.uniform(0.8, 1.0, b, t_k, dtype=dtype)
    return inputs | {"mask": draw.integers(0, t_k - 1, b, t_q, 1) == torch.arange(t_k)}


@pytest.fixture
def empty_rows(draw):
    """Some queries may attend to nothing."""
    return with_empty_rows(draw)


@pytest.fixture
def empty_rows_of_dtype(draw, dtype):
    """The same in other dtypes."""
    return with_empty_rows(draw, dtype=dtype)


def with_empty_rows(draw, **how):
    """In the first sequence one query may attend to nothing, in the second none may attend to anything."""
    b, t_q, t_k, d_k, d_v = draw.sizes(2, 8, 5)
    mask = draw.mask(b, t_q, t_k)
    mask[0, draw.size(0, t_q - 1)] = False
    mask[1] = False
    return sequences(draw, [b], t_q, t_k, d_k, d_v, **how) | {"mask": mask}


@pytest.fixture
def kept(draw, inputs):
    """What a dropout of p = ½ might make of each weight: nothing, or twice as much."""
    visible = draw.mask(*inputs["query"].shape[:-1], inputs["key"].shape[-2])
    return 2.0 * visible.to(inputs["query"].dtype)  # whatever an answer makes the default dtype


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype, masked; √d_k is no whole number.

    Of two keys a mask leaves one, whose weight is 1 whatever was rounded before.
    """
    b, h, t_q, t_k, d_v = draw.sizes(3, 8, 5)
    d_k = draw.choice([3, 5, 6, 7])
    mask = draw.mask(b, h, t_q, t_k)
    return sequences(draw, [b, h], t_q, t_k, d_k, d_v, dtype=dtype) | {"mask": mask}


@pytest.fixture
def wide_halves(draw):
    """Wide vectors: their dot products pass 65504, the largest number of float16, and scaled they do
    not. Queries alike, so that the keys compete."""
    b, t_q, t_k, d_v = draw.sizes(2, 6, 4)
    d_k = 256
    common = draw.normal(d_k, scale=18.0)
    query = common + draw.normal(b, t_q, d_k, scale=0.05)
    key = common + draw.normal(b, t_k, d_k, scale=0.02)
    halves = {"query": query, "key": key, "value": draw.normal(b, t_k, d_v, mean=0.5)}
    return {name: tensor.to(torch.float16) for name, tensor in halves.items()}


@pytest.fixture
def close_halves(draw, dtype):
    """Scores of about 70 that differ by about 1: half precision would round much of that away."""
    b, t_q, t_k, d_v = draw.sizes(2, 6, 4)
    d_k = {"float16": 100, "bfloat16": 64}[dtype]
    size = {"float16": 9.0, "bfloat16": 3.0}[dtype]
    common = draw.normal(d_k)
    common = size * d_k**0.5 * common / common.norm()
    query = common + draw.normal(b, t_q, d_k, scale=0.1)
    key = common + draw.normal(b, t_k, d_k, scale=1.0 / size)
    halves = {"query": query, "key": key, "value": draw.normal(b, t_k, d_v, mean=0.5)}
    return {name: tensor.to(getattr(torch, dtype)) for name, tensor in halves.items()}


# --- Checks ---------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_attention(answer, inputs):
    """Each query mixes the values by the softmax of its scaled scores."""
    return seen(answer.attention(**inputs))


@pytest.mark.watertight("leading axes other than batch and heads, which change nothing")
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_leading_dimensions(answer, inputs_of_rank, leading):
    """There may be any number of leading axes, or none."""
    return seen(answer.attention(**inputs_of_rank))


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", ["B=1", "T_q=1", "T_k=1", "d_k=1", "d_v=1"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one query, one key, or values of width 1."""
    return seen(answer.attention(**at_the_edge))


def test_large_scores(answer, large_scores):
    """Scores of ±1e4 do not overflow."""
    return seen(answer.attention(**large_scores))


@pytest.mark.watertight(
    "heads are split by a transposition, and a `view` of the result raises an error"
)
def test_memory(answer, split_from_heads):
    """Transposed tensors, which are not contiguous, give the same result."""
    return seen(answer.attention(**split_from_heads))


# --- Masks ----------------------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize(
    "shape",
    ["B h T_q T_k", "B 1 T_q T_k", "B 1 1 T_k", "B 1 1 T", "1 1 T_q T_k", "h T_q T_k", "T_q T_k"],
)
def test_mask(answer, masked, shape):
    """A mask hides keys, for each query separately or for all queries; it broadcasts over batch and
    heads."""
    return seen(answer.attention(**masked))


def test_loud_and_hidden(answer, loud_and_hidden):
    """A hidden key with a very high score has no effect."""
    return seen(answer.attention(**loud_and_hidden))


@pytest.mark.watertight(EMPTY)
def test_nothing_to_attend_to(answer, empty_rows):
    """A query with no visible key has weights and output of 0."""
    return seen(answer.attention(**empty_rows))


# --- Dropout --------------------------------------------------------------------------------------


def test_dropout(answer, inputs, kept):
    """`dropout` is applied to the weights, after the softmax, and its result is used and returned."""
    return seen(answer.attention(**inputs, dropout=lambda weights: weights * kept))


def test_dropout_with_a_mask(answer, masked_batch):
    """`dropout` is applied to masked weights as well, exactly once."""
    return seen(answer.attention(**masked_batch, dropout=lambda weights: 2.0 * weights))


# --- Gradients ------------------------------------------------------------------------------------


def test_gradients(answer, inputs):
    """Gradients reach query, key and value."""
    inputs = wanting_gradients(inputs)
    output, _ = answer.attention(**inputs)
    backward(output)
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight("one NaN in a backward pass ends a run, hours after the loss looked fine")
def test_gradients_with_nothing_to_attend_to(answer, empty_rows):
    """If a query has no visible key, its gradient is 0, and the other gradients do not change."""
    inputs = wanting_gradients(empty_rows)
    output, _ = answer.attention(**inputs)
    backward(output)
    return {"gradients": gradients(inputs)}


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT64, "float32", *HALVES])
def test_dtype(answer, of_dtype, dtype):
    """Output and weights have the inputs' dtype, and are accurate to its precision."""
    return seen(answer.attention(**of_dtype))


@pytest.mark.watertight("a score that overflows in float16 is infinite, and the next step is NaN")
def test_halves_do_not_overflow(answer, wide_halves):
    """Scores that exceed 65504 before they are scaled do not overflow in float16."""
    return seen(answer.attention(**wide_halves))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_exact(answer, close_halves, dtype):
    """In half precision, the result is the float32 result, rounded: scores are not rounded before the
    softmax."""
    return seen(answer.attention(**close_halves))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_with_nothing_to_attend_to(answer, empty_rows_of_dtype, dtype):
    """A query with no visible key has weights and output of 0 in half precision as well."""
    return seen(answer.attention(**empty_rows_of_dtype))


@pytest.mark.watertight("scores down to minus a million, as in training that goes wrong")
@pytest.mark.parametrize("dtype", ["float64", "float32", *HALVES])
def test_low_scores(answer, low_scores, dtype):
    """A forbidden key gets no weight, even if the allowed key has a score of minus a million."""
    return seen(answer.attention(**low_scores))


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_gradients_of_dtype(answer, of_dtype, dtype):
    """Gradients have the inputs' dtype, and are accurate to its precision."""
    inputs = wanting_gradients(of_dtype)
    output, _ = answer.attention(**inputs)
    backward(output)
    return {"gradients": gradients(inputs)}
