"""Day 7 · softmax_backward(grad_weights, weights), attention_backward(grad_output, query, key, …)."""

import pytest

from course.checks.authoring import FLOAT32, named

# --- softmax_backward ------------------------------------------------------------------------------


def gradient_and_weights(draw, *shape, scale=1.0, mean=0.0, dtype="float64"):
    """A gradient that arrives, and rows of weights that sum to 1."""
    return {
        "grad_weights": draw.normal(*shape, scale=scale, mean=mean, dtype=dtype),
        "weights": draw.weights(*shape, dtype=dtype),
    }


def with_special_rows(draw, weights):
    """The weights with a one-hot row and an empty one (`attention` gives both), the rest as they were."""
    rows = weights.reshape(-1, weights.shape[-1])  # a view: what is written here is written there
    rows[0] = 0
    rows[1] = 0
    rows[1, draw.size(0, weights.shape[-1] - 1)] = 1
    return weights


@pytest.fixture
def row(draw):
    """A single row of weights."""
    return gradient_and_weights(draw, draw.size(3, 7))


@pytest.fixture
def rows(draw):
    """Two batch dimensions, all sizes different."""
    return gradient_and_weights(draw, *draw.sizes(2, 7, 4))


@pytest.fixture
def special_rows(draw):
    """An empty row and a one-hot row among others."""
    inputs = gradient_and_weights(draw, *draw.sizes(3, 7, 2))
    return inputs | {"weights": with_special_rows(draw, inputs["weights"])}


@pytest.fixture
def rows_of_dtype(draw, dtype):
    """Rows of one dtype."""
    return gradient_and_weights(draw, *draw.sizes(3, 6, 2), dtype=dtype)


def test_softmax_backward_of_one_row(answer, row):
    """In a single row, each score's gradient depends on all weights, and the gradients sum to 0."""
    return {"grad_scores": answer.softmax_backward(**row)}


def test_softmax_backward_of_many_rows(answer, rows):
    """With any leading dimensions, each row along the last axis is treated separately."""
    return {"grad_scores": answer.softmax_backward(**rows)}


@pytest.mark.watertight("weights of exactly 0 and 1, which masks and large scores produce")
def test_softmax_backward_of_weights_of_zero(answer, special_rows):
    """If a weight is 0, the gradient of its score is 0; in a row with a single 1, all gradients are 0."""
    return {"grad_scores": answer.softmax_backward(**special_rows)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_backward_dtype(answer, rows_of_dtype, dtype):
    """The gradient has the dtype of the inputs."""
    return {"grad_scores": answer.softmax_backward(**rows_of_dtype)}


# --- attention_backward ----------------------------------------------------------------------------


def everything(draw, batch, t_q, t_k, d_k, d_v, scale=1.0, dtype="float64"):
    """What attention was given, some weights, and the gradient that arrives at the output.

    The weights are drawn by themselves: they are taken as given, whatever scores they came from.
    """
    return {
        "grad_output": draw.normal(*batch, t_q, d_v, scale=scale, dtype=dtype),
        "query": draw.normal(*batch, t_q, d_k, dtype=dtype),
        "key": draw.normal(*batch, t_k, d_k, dtype=dtype),
        "value": draw.normal(*batch, t_k, d_v, dtype=dtype),
        "weights": draw.weights(*batch, t_q, t_k, dtype=dtype),
    }


def four_sizes(draw):
    """T_q, T_k, d_k and d_v, all different; √d_k is no whole number, so that a factor shows what it is."""
    d_k = draw.choice([3, 5, 6, 7])
    t_q, t_k, d_v = [size for size in draw.sizes(2, 7, 6) if size != d_k][:3]
    return t_q, t_k, d_k, d_v


@pytest.fixture
def unbatched(draw):
    """A single sequence with T_q, T_k, d_k and d_v all different."""
    return everything(draw, (), *four_sizes(draw))


@pytest.fixture
def batched(draw, leading):
    """One to three leading dimensions, and all sizes different."""
    return everything(draw, draw.sizes(2, 4, leading), *four_sizes(draw))


@pytest.fixture
def square(draw):
    """T_q = T_k = d_k = d_v: every product fits, transposed or not."""
    size = draw.size(3, 6)
    return everything(draw, (2,), size, size, size, size)


@pytest.fixture
def wide(draw):
    """Vectors so wide that a wrong scale changes everything."""
    t_q, t_k, d_v = draw.sizes(2, 5, 3)
    return everything(draw, (2,), t_q, t_k, draw.size(24, 48), d_v)


@pytest.fixture
def special(draw):
    """Queries that attend to nothing, and to one key alone."""
    inputs = everything(draw, (2,), *four_sizes(draw))
    return inputs | {"weights": with_special_rows(draw, inputs["weights"])}


@pytest.fixture
def one_key(draw):
    """A single key with all the weight: T_k is 1."""
    t_q, d_k, d_v = draw.sizes(2, 6, 3)
    return everything(draw, (draw.size(2, 4),), t_q, 1, d_k, d_v)


@pytest.fixture
def large(draw):
    """Gradients of about ±10 000 in float32."""
    return everything(draw, (2,), *four_sizes(draw), scale=1e4, dtype="float32")


@pytest.fixture
def of_dtype(draw, dtype):
    """Inputs of one dtype."""
    return everything(draw, (2,), *four_sizes(draw), dtype=dtype)


def observe(result):
    """The three by their names; that of the value needs no softmax."""
    return named(result, "grad_query", "grad_key", "grad_value", first="grad_value")


def test_attention_backward(answer, unbatched):
    """The function returns (grad_query, grad_key, grad_value), with T_q, T_k, d_k and d_v all different."""
    return observe(answer.attention_backward(**unbatched))


@pytest.mark.parametrize("leading", [1, 2, 3])
def test_attention_backward_of_a_batch(answer, batched, leading):
    """With any leading dimensions, only the last two axes are transposed."""
    return observe(answer.attention_backward(**batched))


def test_attention_backward_of_squares(answer, square):
    """With T_q = T_k = d_k = d_v, a missing transpose raises no error but is still wrong."""
    return observe(answer.attention_backward(**square))


def test_attention_backward_scale(answer, wide):
    """The gradients of query and key contain 1/√d_k, and the gradient of the value does not."""
    return observe(answer.attention_backward(**wide))


@pytest.mark.watertight("weights of exactly 0 and 1, which masks and large scores produce")
def test_attention_backward_of_weights_of_zero(answer, special):
    """If a query attends to nothing, or to one key only, the gradients of its scores are 0."""
    return observe(answer.attention_backward(**special))


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_attention_backward_with_one_key(answer, one_key):
    """With a single key the weight is always 1: only the value has a gradient."""
    observed = observe(answer.attention_backward(**one_key))
    # Two rounded numbers that should cancel leave some 1e-16: beside 1 that is the 0 it should be.
    zeros = {
        f"1 + {name}": 1 + observed.pop(name)
        for name in ("grad_query", "grad_key")
        if name in observed
    }
    return observed | zeros


@pytest.mark.watertight("gradients in the ten thousands, as from an unlucky batch")
def test_attention_backward_of_large_gradients(answer, large):
    """Gradients of ±10,000 in float32 are not clipped."""
    return observe(answer.attention_backward(**large))


@pytest.mark.parametrize("dtype", [FLOAT32, "float64"])
def test_attention_backward_dtype(answer, of_dtype, dtype):
    """The gradients have the dtype of the inputs."""
    return observe(answer.attention_backward(**of_dtype))
