"""Day 2 · attention(query, key, value, mask=None) → (output, weights)."""

import numpy as np
import pytest

from course.checks.authoring import FLOAT32, named


def queries_keys_values(draw, *batch, low=3, high=8, **how):
    """Inputs in which T_q, T_k, d_k and d_v are all different, so that no swapped axis can hide."""
    t_q, t_k, d_k, d_v = draw.sizes(low, high, 4)
    return {
        "query": draw.normal(*batch, t_q, d_k, **how),
        "key": draw.normal(*batch, t_k, d_k, **how),
        "value": draw.normal(*batch, t_k, d_v, **how),
    }


def score_shape(inputs):
    """(…, T_q, T_k)"""
    return *inputs["query"].shape[:-1], inputs["key"].shape[-2]


@pytest.fixture
def inputs(draw):
    """Two batch dimensions."""
    return queries_keys_values(draw, *draw.sizes(2, 4, 2))


@pytest.fixture
def unbatched(draw):
    """A single sequence."""
    return queries_keys_values(draw)


@pytest.fixture
def wide(draw):
    """Vectors so wide that a wrong scale changes everything."""
    t_q, t_k, d_v = draw.sizes(2, 5, 3)
    d_k = draw.size(24, 48)
    return {
        "query": draw.normal(2, t_q, d_k),
        "key": draw.normal(2, t_k, d_k),
        "value": draw.normal(2, t_k, d_v),
    }


@pytest.fixture
def large(draw):
    """Scores of about ±10 000."""
    return queries_keys_values(draw, 2, scale=100.0)


@pytest.fixture
def masked(draw):
    """A mask of its own for every query, with a key left for each."""
    inputs = queries_keys_values(draw, 2)
    return inputs | {"mask": draw.mask(*score_shape(inputs))}


@pytest.fixture
def masked_large(draw):
    """Scores between −2000 and −9000, the highest of them hidden."""
    return highest_hidden(draw, 45.0)


@pytest.fixture
def masked_very_large(draw, dtype):
    """Scores between −90 000 and −900 000, the highest of them hidden."""
    inputs = highest_hidden(draw, draw.uniform(300.0, 450.0))
    return {name: x if name == "mask" else x.astype(dtype) for name, x in inputs.items()}


def highest_hidden(draw, size):
    """All scores are negative and large, and each query's highest is hidden."""
    inputs = queries_keys_values(draw, 2)
    inputs |= {
        "query": draw.uniform(0.8, 1.2, *inputs["query"].shape) * size,
        "key": draw.uniform(0.8, 1.2, *inputs["key"].shape) * -size,
    }
    scores = inputs["query"] @ np.swapaxes(inputs["key"], -2, -1)
    return inputs | {"mask": scores < scores.max(axis=-1, keepdims=True)}


@pytest.fixture
def masked_for_all_queries(draw, axes):
    """One mask over the keys for all queries, with or without axes of length 1 to broadcast."""
    inputs = queries_keys_values(draw, *draw.sizes(2, 4, 2))
    t_k = inputs["key"].shape[-2]
    return inputs | {
        "mask": draw.mask(*{1: (t_k,), 2: (1, t_k), 4: (inputs["key"].shape[0], 1, 1, t_k)}[axes])
    }


@pytest.fixture
def nothing_to_attend_to(draw):
    """A mask that leaves some query without any key."""
    inputs = queries_keys_values(draw, 2)
    mask = draw.mask(*score_shape(inputs))
    mask[0, draw.size(0, mask.shape[1] - 1)] = False
    mask[1] = False
    return inputs | {"mask": mask}


@pytest.fixture
def one_key(draw):
    """A single key: T_k is 1."""
    d_k, d_v = draw.sizes(2, 5, 2)
    return {
        "query": draw.normal(1, draw.size(2, 4), d_k),
        "key": draw.normal(1, 1, d_k),
        "value": draw.normal(1, 1, d_v),
    }


@pytest.fixture
def turned(draw):
    """Arrays that are not contiguous in memory."""
    inputs = queries_keys_values(draw)
    return {name: np.asfortranarray(array) for name, array in inputs.items()}


@pytest.fixture
def of_dtype(draw, dtype):
    """Inputs of one dtype, masked."""
    inputs = queries_keys_values(draw, 2, dtype=dtype)
    return inputs | {"mask": draw.mask(*score_shape(inputs))}


def observe(result):
    """The pair by its names; the output follows from the weights."""
    return named(result, "output", "weights", first="weights")


def test_output_and_weights(answer, inputs):
    """The function returns (output, weights); T_q, T_k, d_k and d_v all differ."""
    return observe(answer.attention(**inputs))


def test_without_a_batch(answer, unbatched):
    """A single sequence without a batch dimension works, too."""
    return observe(answer.attention(**unbatched))


def test_scale(answer, wide):
    """The scores are divided by √d_k before the softmax."""
    return observe(answer.attention(**wide))


def test_large_scores(answer, large):
    """Scores of ±10,000 do not overflow."""
    return observe(answer.attention(**large))


def test_mask(answer, masked):
    """The weight is 0 where the mask is False, and the other weights sum to 1."""
    return observe(answer.attention(**masked))


def test_mask_hides_the_highest_score(answer, masked_large):
    """A hidden key has the weight 0, however large its score is."""
    return observe(answer.attention(**masked_large))


@pytest.mark.watertight("scores of up to a million, as in training that goes wrong")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mask_among_very_large_scores(answer, masked_very_large, dtype):
    """A hidden key has the weight 0 even if all visible scores are below −10,000."""
    return observe(answer.attention(**masked_very_large))


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_mask_broadcasts(answer, masked_for_all_queries, axes):
    """A mask over the keys only applies to every query."""
    return observe(answer.attention(**masked_for_all_queries))


@pytest.mark.watertight(
    "rows with nothing to attend to, as in a batch of sequences of different lengths"
)
def test_query_with_no_key(answer, nothing_to_attend_to):
    """A query with no visible key has weights and output of exactly 0, not NaN."""
    return observe(answer.attention(**nothing_to_attend_to))


@pytest.mark.watertight("a single key, where an axis is easily lost")
def test_one_key(answer, one_key):
    """With one key, every query's output is its value."""
    return observe(answer.attention(**one_key))


@pytest.mark.watertight("arrays with a different memory layout, as after a transposition")
def test_memory_layout(answer, turned):
    """An array that is stored by columns gives the same result as one stored by rows."""
    return observe(answer.attention(**turned))


@pytest.mark.parametrize("dtype", [FLOAT32, "float64"])
def test_dtype(answer, of_dtype, dtype):
    """The result has the dtype of the inputs."""
    return observe(answer.attention(**of_dtype))
