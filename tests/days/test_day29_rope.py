"""Day 29 · rope_angles(head_dim, max_len, base=10000.0) and
apply_rope(x, angles, offset=0, layout="interleaved")."""

import pytest
import torch

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients

LAYOUTS = ["interleaved", "halves"]
SINGLE = "a batch, a head or a pair of one is where squeezed and broadcast axes go astray"
NOTHING = "an empty chunk, which a loop over pieces may end with"
MEMORY = "heads are split by a transposition, and not every view of the result is to be had"
RANKS = "published code rotates `(B, h, T, head_dim)`, and fewer or more axes are an extra"
ROWS = "offsets of their own are for serving prompts of different lengths side by side"
FAR = "at position 10⁵ an angle in float32 is off by 0.004"
OTHER_RANKS = "one offset for each row, in front of other axes than heads"


def in_float32(table):
    """The table rounded to float32, which is exact enough; anything else as it is."""
    return table.float() if isinstance(table, torch.Tensor) else table


def table_of(draw, max_len, pairs, dtype="float32"):
    """Angles as `rope_angles` gives them, with a base so small that even the last pair turns."""
    base = float(draw.uniform(8.0, 40.0, dtype="float64"))
    theta = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), theta)
    return angles.to(getattr(torch, dtype))


def chunk(draw, leading, t, pairs, offset, spare, dtype="float32"):
    """Queries from position `offset` on, and a table that reaches `spare` positions further."""
    return {
        "x": draw.normal(*leading, t, 2 * pairs, mean=0.3, dtype=dtype),
        "angles": table_of(
            draw, offset + t + spare, pairs, "float64" if dtype == "float64" else "float32"
        ),
    }


def with_rows(draw, leading, t, pairs):
    """Each row at an offset of its own, in no order; one starts at 0, one ends at the table's end."""
    rows = leading[0]
    starts = [0, *(draw.size(2, 7) for _ in range(rows - 2)), 9][:rows]
    first = draw.size(0, rows - 1)
    given = chunk(draw, leading, t, pairs, 9, 0)
    return given | {"offset": torch.tensor(starts[first:] + starts[:first])}


def sizes(draw):
    """B, h, T and the number of pairs: all different, and different from head_dim."""
    b, h, t = draw.sizes(2, 5, 3)
    return b, h, t, draw.choice([3, 6, 7])


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def table_size(draw):
    """A head_dim and a max_len unlike each other."""
    pairs, more = draw.size(2, 6), draw.size(1, 6)
    return {"head_dim": 2 * pairs, "max_len": 2 * pairs + more}


@pytest.fixture
def other_base(draw, table_size):
    """Another base, as many models have."""
    return table_size | {"base": draw.choice([100.0, 500000.0, 1000000.0])}


@pytest.fixture
def edge_of_table(draw, edge):
    """One size is as small as it can be."""
    given = {"head_dim": 2 * draw.size(2, 5), "max_len": draw.size(3, 7)}
    name, value = edge.split("=")
    return given | {"base": draw.choice([10.0, 100.0]), name: int(value)}


@pytest.fixture
def sequence(draw):
    """A sequence from its beginning, shorter than the table."""
    b, h, t, pairs = sizes(draw)
    return chunk(draw, [b, h], t, pairs, 0, draw.size(2, 5))


@pytest.fixture
def square(draw):
    """Every size that can be mixed up with another is equal to it."""
    size = draw.choice([4, 6])
    offset = draw.size(2, 5)
    given = chunk(draw, [size, size], size, size // 2, offset, draw.size(1, 3))
    return given | {"offset": offset}


@pytest.fixture
def later(draw):
    """A chunk that continues what came before it."""
    b, h, t, pairs = sizes(draw)
    offset = draw.size(3, 9)
    return chunk(draw, [b, h], t, pairs, offset, draw.size(2, 5)) | {"offset": offset}


@pytest.fixture
def next_token(draw):
    """One token, after what a cache holds."""
    b, h, _, pairs = sizes(draw)
    offset = draw.size(3, 9)
    return chunk(draw, [b, h], 1, pairs, offset, draw.size(2, 5)) | {"offset": offset}


@pytest.fixture
def rows(draw):
    """Prompts of different lengths, continued."""
    b, h, t, pairs = sizes(draw)
    return with_rows(draw, [b, h], t, pairs)


@pytest.fixture
def of_rank(draw, leading):
    """No axis before time, or several."""
    t, pairs, *axes = draw.sizes(2, 7, 2 + leading)
    offset = draw.size(1, 5)
    return chunk(draw, axes, t, pairs, offset, draw.size(1, 4)) | {"offset": offset}


@pytest.fixture
def rows_of_rank(draw, leading):
    """Rows of their own, and no head axis or two."""
    t, pairs, *axes = draw.sizes(2, 7, 2 + leading)
    return with_rows(draw, axes, t, pairs)


@pytest.fixture
def query_and_key(draw):
    """Queries and keys of one sequence, and how much further on they stand the second time."""
    b, h, t, pairs = sizes(draw)
    further = draw.size(4, 9)
    given = chunk(draw, [b, h], t, pairs, further, 0)
    key = draw.normal(b, h, t, 2 * pairs, mean=0.3)
    return {"query": given["x"], "key": key, "angles": given["angles"], "further": further}


@pytest.fixture
def of_dtype(draw, dtype):
    """Far enough on for an angle in half precision to be wrong."""
    b, h, t, pairs = sizes(draw)
    offset = draw.size(150, 250)
    return chunk(draw, [b, h], t, pairs, offset, 2, dtype=dtype) | {"offset": offset}


@pytest.fixture
def many(draw, dtype):
    """Enough numbers that their roundings can be counted."""
    return chunk(draw, [5, 7], draw.size(12, 16), 16, 0, 1, dtype=dtype)


@pytest.fixture
def far(draw):
    """The rows of a table that are far out."""
    b, h, t, pairs = sizes(draw)
    first = float(draw.size(100_000, 200_000))
    angles = table_of(draw, t, pairs, "float64")
    one_step = angles[1]
    return {"x": draw.normal(b, h, t, 2 * pairs), "angles": angles + first * one_step}


@pytest.fixture
def strided(draw, axes):
    """x cut from a tensor in which heads and time, or time and features, lay the other way round."""
    b, h, t, pairs = sizes(draw)
    given = chunk(draw, [b, h], t, pairs, 0, draw.size(2, 5))
    first, second = (int(axis) for axis in axes.split())
    x = given["x"].transpose(first, second).contiguous().transpose(first, second)
    return given | {"x": x}


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1."""
    named = dict(zip(["B", "h", "T", "pairs"], sizes(draw), strict=True)) | {edge.split("=")[0]: 1}
    b, h, t, pairs = named.values()
    return chunk(draw, [b, h], t, pairs, 6, 0) | {"offset": torch.tensor([draw.size(0, 6)] * b)}


@pytest.fixture
def no_tokens(draw):
    """A chunk of nothing."""
    b, h, _, pairs = sizes(draw)
    return chunk(draw, [b, h], 0, pairs, draw.size(4, 7), 0)


# --- Angles ---------------------------------------------------------------------------------------


def test_angles(answer, table_size):
    """Every pair is rotated in proportion to the position, which counts from 0."""
    return {"angles": in_float32(answer.rope_angles(**table_size))}


def test_base(answer, other_base):
    """The argument `base` is used: the larger it is, the more slowly the last pairs rotate."""
    return {"angles": in_float32(answer.rope_angles(**other_base))}


@pytest.mark.watertight("a single pair, a single position, or none")
@pytest.mark.parametrize("edge", ["head_dim=2", "max_len=2", "max_len=0"])
def test_smallest_tables(answer, edge_of_table, edge):
    """A single pair rotates by one radian per position; a table without positions is empty."""
    return {"angles": in_float32(answer.rope_angles(**edge_of_table))}


# --- Turning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turned(answer, sequence, layout):
    """Each pair of features is rotated by the angle of its position and its index, in both layouts."""
    return {"output": answer.apply_rope(**sequence, layout=layout)}


@pytest.mark.on_devices
def test_layout_by_default(answer, sequence):
    """By default, pairs are interleaved, and the first token is at position 0."""
    return {"output": answer.apply_rope(sequence["x"], sequence["angles"].cpu())}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_square(answer, square, layout):
    """Even if all sizes are equal, the rotation depends on time, not on heads or rows."""
    return {"output": answer.apply_rope(**square, layout=layout)}


@pytest.mark.watertight(RANKS)
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_leading_axes(answer, of_rank, leading):
    """Any number of axes may come before time."""
    return {"output": answer.apply_rope(**of_rank)}


def test_scores(answer, query_and_key):
    """The product of a rotated query and a rotated key depends only on their distance."""
    query, key, angles = (query_and_key[name] for name in ("query", "key", "angles"))
    observed = {}
    for name, offset in {"scores": 0, "scores further on": query_and_key["further"]}.items():
        turned = [answer.apply_rope(x, angles, offset) for x in (query, key)]
        observed[name] = turned[0] @ turned[1].transpose(-2, -1)
    return observed


# --- Offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_offset(answer, later, layout):
    """With an offset, the first token is at that position, and the others follow."""
    return {"output": answer.apply_rope(**later, layout=layout)}


def test_next_token(answer, next_token):
    """A single token after a cache is rotated by its own position."""
    return {"output": answer.apply_rope(**next_token)}


@pytest.mark.watertight(ROWS)
@pytest.mark.on_devices
@pytest.mark.parametrize("layout", LAYOUTS)
def test_offset_of_each_row(answer, rows, layout):
    """Each row of the batch may start at its own position."""
    return {"output": answer.apply_rope(**rows, layout=layout)}


@pytest.mark.watertight(OTHER_RANKS)
@pytest.mark.parametrize("leading", [1, 3])
def test_offset_of_each_row_of_rank(answer, rows_of_rank, leading):
    """Offsets belong to the rows of the first axis, with any number of axes after it."""
    return {"output": answer.apply_rope(**rows_of_rank)}


# --- Gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(answer, later, layout):
    """Gradients flow through the rotation."""
    x = wanting_gradients({"x": later["x"]})
    backward(answer.apply_rope(**(later | x), layout=layout))
    return {"gradients": gradients(x)}


# --- Dtypes, memory, edges ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT64, "float32", *HALVES])
def test_dtype(answer, of_dtype, dtype):
    """The result has the dtype of x, and the angles are not rounded to it."""
    return {"output": answer.apply_rope(**of_dtype)}


@pytest.mark.watertight("in half precision a product is rounded before the difference is taken")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.constant("is rounded only once", "what is computed in float32 is rounded at the end")
def test_halves_are_rotated_in_float32(answer, many, dtype):
    """In half precision, the result is the float32 result, rounded once, at the end."""
    output = answer.apply_rope(**many)
    in_float32 = answer.apply_rope(many["x"].float(), many["angles"]).to(output.dtype)
    differing = (output != in_float32).double().mean().item()
    return {"output": output, "is rounded only once": differing < 0.02}


@pytest.mark.watertight(FAR)
def test_far_positions(answer, far):
    """Cosines and sines are computed in the dtype of the angles, such as float64."""
    return {"output": answer.apply_rope(far["x"], far["angles"].cpu())}


@pytest.mark.watertight(MEMORY)
@pytest.mark.parametrize("axes", ["1 2", "2 3"])
def test_memory(answer, strided, axes):
    """Transposed tensors, which are not contiguous, give the same result in both layouts."""
    return {layout: answer.apply_rope(**strided, layout=layout) for layout in LAYOUTS}


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", ["B=1", "h=1", "T=1", "pairs=1"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one row, one head, one token or one pair, with an offset for each row."""
    return {layout: answer.apply_rope(**at_the_edge, layout=layout) for layout in LAYOUTS}


@pytest.mark.watertight(NOTHING)
def test_no_tokens(answer, no_tokens):
    """Without tokens, the result has no tokens."""
    return {layout: answer.apply_rope(**no_tokens, layout=layout) for layout in LAYOUTS}
