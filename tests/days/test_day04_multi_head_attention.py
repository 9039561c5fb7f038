"""Day 4 · split_heads(x, h), join_heads(x), multi_head_attention(query, key, value, params, h, mask=None)."""

import numpy as np
import pytest

from course.checks.authoring import FLOAT32

EDGES = ["B=1", "T=1", "h=1", "d_k=1"]


def sizes_at(draw, edge):
    """B, T, h and d_k, all different, or one of them 1.

    None is 2: where d_k is, a hard-wired h = 2 would look like two axes swapped.
    """
    sizes = dict(zip(["B", "T", "h", "d_k"], draw.sizes(3, 7, 4), strict=True))
    return sizes | {edge.split("=")[0]: 1} if edge else sizes


def projections(draw, d_model, **how):
    """The four projections with their biases, none of them small."""
    matrices = {
        name: draw.normal(d_model, d_model, scale=d_model**-0.5, **how)
        for name in ("w_q", "w_k", "w_v", "w_o")
    }
    return matrices | {name: draw.normal(d_model, **how) for name in ("b_q", "b_k", "b_v", "b_o")}


def arguments(draw, batch, t_q, t_k, h, d_k, **how):
    """Query, key and value, three different things, with everything else that multi_head_attention takes."""
    d_model = h * d_k
    return {
        "query": draw.normal(batch, t_q, d_model, **how),
        "key": draw.normal(batch, t_k, d_model, **how),
        "value": draw.normal(batch, t_k, d_model, **how),
        "params": projections(draw, d_model, **how),
        "h": h,
    }


def mask_shape(inputs):
    """(B, T_q, T_k)"""
    return *inputs["query"].shape[:2], inputs["key"].shape[1]


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def tokens(draw):
    """Token vectors and a number of heads."""
    size = sizes_at(draw, "")
    return {"x": draw.normal(size["B"], size["T"], size["h"] * size["d_k"]), "h": size["h"]}


@pytest.fixture
def tokens_at_the_edge(draw, edge):
    """The same where one of B, T, h and d_k is 1."""
    size = sizes_at(draw, edge)
    return {"x": draw.normal(size["B"], size["T"], size["h"] * size["d_k"]), "h": size["h"]}


@pytest.fixture
def tokens_of_dtype(draw, dtype):
    """The same, of one dtype."""
    size = sizes_at(draw, "")
    return {
        "x": draw.normal(size["B"], size["T"], size["h"] * size["d_k"], dtype=dtype),
        "h": size["h"],
    }


@pytest.fixture
def heads(draw):
    """One vector a head and token."""
    size = sizes_at(draw, "")
    return {"x": draw.normal(size["B"], size["h"], size["T"], size["d_k"])}


@pytest.fixture
def heads_at_the_edge(draw, edge):
    """The same where one of B, T, h and d_k is 1."""
    size = sizes_at(draw, edge)
    return {"x": draw.normal(size["B"], size["h"], size["T"], size["d_k"])}


@pytest.fixture
def heads_of_dtype(draw, dtype):
    """The same, of one dtype."""
    size = sizes_at(draw, "")
    return {"x": draw.normal(size["B"], size["h"], size["T"], size["d_k"], dtype=dtype)}


@pytest.fixture
def silent_queries(draw):
    """Queries that come out as 0, and so ask nothing."""
    inputs = arguments(draw, *draw.sizes(2, 6, 5))
    params = inputs["params"]
    return inputs | {
        "params": params | {name: np.zeros_like(params[name]) for name in ("w_q", "b_q")}
    }


@pytest.fixture
def three(draw):
    """Query, key and value differ, and are equally long."""
    batch, time, h, d_k = draw.sizes(2, 6, 4)
    return arguments(draw, batch, time, time, h, d_k)


@pytest.fixture
def inputs(draw):
    """T_q differs from T_k, and everything from everything else."""
    return arguments(draw, *draw.sizes(2, 6, 5))


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1; a mask of its own for every query."""
    names = ["B", "T_q", "T_k", "h", "d_k"]
    sizes = dict(zip(names, draw.sizes(2, 6, 5), strict=True)) | {edge.split("=")[0]: 1}
    inputs = arguments(draw, *sizes.values())
    return inputs | {"mask": draw.mask(*mask_shape(inputs))}


@pytest.fixture
def masked(draw, batch, queries):
    """A mask with or without an axis of its own for the batch and for the queries."""
    all_batches, t_q, t_k, h, d_k = draw.sizes(2, 6, 5)
    if queries == "1, T_q = T_k":
        t_q = t_k
    inputs = arguments(draw, all_batches, t_q, t_k, h, d_k)
    return inputs | {
        "mask": draw.mask(all_batches if batch == "B" else 1, t_q if queries == "T_q" else 1, t_k)
    }


@pytest.fixture
def as_many_sequences_as_heads(draw):
    """B equals h: a mask whose axes lie wrong still fits."""
    t_q, t_k, h, d_k = draw.sizes(2, 6, 4)
    inputs = arguments(draw, h, t_q, t_k, h, d_k)
    return inputs | {"mask": draw.mask(*mask_shape(inputs))}


@pytest.fixture
def nothing_to_attend_to(draw):
    """A query without any key, and a sequence of such queries."""
    inputs = arguments(draw, *draw.sizes(2, 6, 5))
    mask = draw.mask(*mask_shape(inputs))
    mask[0, draw.size(0, mask.shape[1] - 1)] = False
    mask[1] = False
    return inputs | {"mask": mask}


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype, masked."""
    inputs = arguments(draw, *draw.sizes(2, 6, 5), dtype=dtype)
    return inputs | {"mask": draw.mask(*mask_shape(inputs))}


# --- split_heads ----------------------------------------------------------------------------------


def test_split_heads(answer, tokens):
    """Each vector is split into h heads of d_k consecutive features, and heads come before time."""
    return {"heads": answer.split_heads(**tokens)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
@pytest.mark.parametrize("edge", EDGES)
def test_split_heads_at_the_edge(answer, tokens_at_the_edge, edge):
    """With one sequence, one token, one head, or heads of width 1, there are still four axes."""
    return {"heads": answer.split_heads(**tokens_at_the_edge)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_split_heads_dtype(answer, tokens_of_dtype, dtype):
    """The heads have the dtype of the tokens."""
    return {"heads": answer.split_heads(**tokens_of_dtype)}


# --- join_heads -----------------------------------------------------------------------------------


def test_join_heads(answer, heads):
    """The heads of each token are side by side again, head 0 first."""
    return {"joined": answer.join_heads(**heads)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
@pytest.mark.parametrize("edge", EDGES)
def test_join_heads_at_the_edge(answer, heads_at_the_edge, edge):
    """With one sequence, one token, one head, or heads of width 1, there are still three axes."""
    return {"joined": answer.join_heads(**heads_at_the_edge)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_join_heads_dtype(answer, heads_of_dtype, dtype):
    """The result has the dtype of the heads."""
    return {"joined": answer.join_heads(**heads_of_dtype)}


# --- multi_head_attention -------------------------------------------------------------------------


def test_queries_of_zero(answer, silent_queries):
    """For a query of 0 all weights are equal, so the heads are means of the projected values."""
    return {"output": answer.multi_head_attention(**silent_queries)}


def test_three_roles(answer, three):
    """Query, key and value are different arrays, each with its own matrix and bias."""
    return {"output": answer.multi_head_attention(**three)}


def test_as_many_keys_as_there_are(answer, inputs):
    """T_k can differ from T_q."""
    return {"output": answer.multi_head_attention(**inputs)}


@pytest.mark.parametrize("queries", ["T_q", "1", "1, T_q = T_k"])
@pytest.mark.parametrize("batch", ["B", "1"])
def test_mask(answer, masked, batch, queries):
    """A mask (1|B, 1|T_q, T_k) applies to every head."""
    return {"output": answer.multi_head_attention(**masked)}


def test_mask_with_as_many_sequences_as_heads(answer, as_many_sequences_as_heads):
    """If B equals h, each sequence still has its own mask, in every head."""
    return {"output": answer.multi_head_attention(**as_many_sequences_as_heads)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
@pytest.mark.parametrize("edge", ["B=1", "T_q=1", "T_k=1", "h=1", "d_k=1"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one query, one key, one head, or heads of width 1, with a
    mask."""
    return {"output": answer.multi_head_attention(**at_the_edge)}


@pytest.mark.watertight(
    "rows with nothing to attend to, as in a batch of sequences of different lengths"
)
def test_query_with_no_key(answer, nothing_to_attend_to):
    """If a query has no visible key, the heads return 0 and the output is b_o."""
    return {"output": answer.multi_head_attention(**nothing_to_attend_to)}


@pytest.mark.parametrize("dtype", [FLOAT32, "float64"])
def test_dtype(answer, of_dtype, dtype):
    """The output has the dtype of the inputs."""
    return {"output": answer.multi_head_attention(**of_dtype)}
