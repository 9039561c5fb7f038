"""Day 44 · delta_rule(query, key, value, beta, decay, state), chunked_delta_rule(…, chunk)."""

import pytest
import torch
import torch.nn.functional as F

from course.checks.authoring import DTYPES, backward, gradients, sequences, wanting_gradients
from course.checks.tensors import DispatchMode, LargestResult

AXES = "publications take a batch of heads: two leading axes"
SINGLE = "sizes of one, or equal ones, are where squeezed, broadcast and swapped axes go astray"
EMPTY = "the last chunk of a text that is read in chunks may be empty"
EDGES = ["B=1", "T=1", "d_k=1", "d_v=1", "d_v=d_k"]
OWN = "beams that begin alike share a state, until one of them reads on"
GIVEN = "published functions normalize keys only if asked to, and layers with β up to 2 exist"
ZERO = "a decay underflows to 0 where a layer has learned to forget at once, and learns on"
RANKS = tuple(pytest.param(axes, marks=pytest.mark.watertight(AXES)) for axes in (0, 1, 3))
NONE = pytest.param("T=0", marks=pytest.mark.watertight(EMPTY))


# --- Inputs ---------------------------------------------------------------------------------------


def drawn(draw, *batch, t, d_k, d_v, dtype="float32", decay=True, state=True):
    """Queries, normalized keys, values and β; α and a state where they are asked for."""
    given = sequences(draw, batch, t, t, d_k, d_v, dtype="float64")
    given["key"] = F.normalize(given["key"], dim=-1)
    given["beta"] = draw.uniform(0.2, 0.95, *batch, t, dtype="float64")
    if decay:
        given["decay"] = draw.uniform(0.6, 0.97, *batch, t, dtype="float64")
    if state:
        given["state"] = draw.normal(*batch, d_v, d_k, dtype="float64")
    return {name: x.to(getattr(torch, dtype)) for name, x in given.items()}


def some(draw, **how):
    """A batch of heads whose sizes are all different."""
    b, h, t, d_k, d_v = draw.sizes(2, 8, 5)
    return drawn(draw, b, h, **{"t": t + 2, "d_k": d_k, "d_v": d_v} | how)


@pytest.fixture
def plain(draw):
    """A few tokens, without decay, from an empty state."""
    return some(draw, decay=False, state=False)


@pytest.fixture
def full(draw):
    """A few tokens, with decay, from a state."""
    return some(draw)


@pytest.fixture
def written_again(draw):
    """Two keys in turn, as queries too; β is 1 from the second round on, in which all is replaced."""
    given = some(draw, t=6, state=False)
    given["key"] = given["key"][..., :2, :].repeat(1, 1, 3, 1)
    given["beta"] = given["beta"].clone()
    given["beta"][..., 2:] = 1
    return given | {"query": given["key"].clone()}


@pytest.fixture
def not_written(draw):
    """From the third token on, β is 0 and α is 1."""
    given = some(draw, t=draw.size(6, 8))
    given["beta"][..., 2:], given["decay"][..., 2:] = 0, 1
    return given


@pytest.fixture
def of_other_lengths(draw):
    """Keys that are not of length 1, and a β between 1 and 2 every other token."""
    given = some(draw)
    given["beta"][..., ::2] += 1
    return given | {"key": given["key"] * draw.uniform(0.5, 1.1, *given["key"].shape[:-1], 1)}


@pytest.fixture
def of_rank(draw, leading):
    """No batch at all, or one, or several leading axes."""
    t, d_k, d_v = draw.sizes(3, 7, 3)
    return drawn(draw, *draw.sizes(2, 4, leading), t=t, d_k=d_k, d_v=d_v)


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1, there are no tokens, or values are as wide as keys."""
    sizes = dict(zip(["B", "T", "d_k", "d_v"], draw.sizes(2, 7, 4), strict=True))
    name, size = edge.split("=")
    b, t, d_k, d_v = (sizes | {name: sizes["d_k"] if size == "d_k" else int(size)}).values()
    return drawn(draw, b, t=t, d_k=d_k, d_v=d_v)


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype. In halves one token over and over, with so small a β that what it changes
    is about half a unit in the last place of a state that is rounded; the state stays in float32."""
    if dtype not in ("float16", "bfloat16"):
        return some(draw, dtype=dtype)
    given = some(draw, dtype=dtype, t=1, decay=False, state=False)
    given = {name: x.repeat_interleave(800, dim=2) for name, x in given.items()}
    state = draw.normal(*given["value"].shape[:-2], given["value"].size(-1), given["key"].size(-1))
    return given | {"beta": 0.0005 * given["beta"], "state": state}


@pytest.fixture
def many(draw):
    """Several chunks of three, seven, …, the last not full."""
    return some(draw, t=2 * draw.size(12, 16) + 1)


@pytest.fixture
def vanishing(draw):
    """Decays whose product over a chunk underflows to 0 in float32."""
    given = some(draw, t=draw.size(70, 80), decay=False)
    return given | {"decay": draw.uniform(0.05, 0.4, *given["beta"].shape)}


@pytest.fixture
def forgotten(draw):
    """A decay of exactly 0 in the middle of a chunk, and one at the start of another."""
    given = some(draw, t=draw.size(13, 15))
    given["decay"][..., [3, 8]] = 0
    return given


@pytest.fixture
def long(draw):
    """A text whose chunks are long and few: tokens are many more than operations have to be."""
    t, chunk = draw.size(2400, 2500), draw.size(90, 99)
    return drawn(draw, t=t, d_k=3, d_v=2) | {"chunk": chunk}


# --- What is observed -----------------------------------------------------------------------------


class Operations(DispatchMode):
    """How many operations are asked for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def seen(result):
    """An output and a state, by name."""
    output, state = result
    return {"output": output, "state": state}


def in_pieces(function, given, sizes):
    """The outputs of pieces of a text, each read from the state after the previous piece."""
    state, outputs = given["state"], {}
    pieces = {name: given[name].split(sizes, dim=-2) for name in ("query", "key", "value")}
    pieces |= {name: given[name].split(sizes, dim=-1) for name in ("beta", "decay")}
    for number in range(len(sizes)):
        piece = {name: parts[number] for name, parts in pieces.items()}
        output, state = function(**piece, state=state)
        outputs[f"output of piece {number + 1}"] = output
    return outputs | {"state": state}


def of_gradients(function, given):
    """The gradients of output and state together."""
    inputs = wanting_gradients(given)
    output, state = function(**inputs)
    backward(torch.cat([output.flatten(), state.flatten()]))
    return {"gradients": gradients(inputs)}


def of_all_and_of_one(function, given):
    """The output, and the state after a single token: of many tokens, it would have many roundings."""
    first = {name: x if name in ("state", "chunk") else x[:, :, :1] for name, x in given.items()}
    return {"output": function(**given)[0], "state after a token": function(**first)[1]}


def before_and_after(function, given):
    """The result, and whether the state that was given is as it was."""
    before = given["state"].clone()
    result = seen(function(**given))
    same = given["state"].equal(before)
    given["state"].copy_(before)
    return result | {"the given state": "is as it was" if same else "was written over"}


# --- Token by token -------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_delta_rule(answer, plain):
    """For each token, the state is corrected by β times the error under the key, and then read by the
    query."""
    return seen(answer.delta_rule(**plain))


def test_decay(answer, full):
    """The state decays first, and the key recalls a value from the decayed state."""
    return seen(answer.delta_rule(**full))


def test_written_again(answer, written_again):
    """With β = 1, the new value replaces the stored value exactly."""
    return seen(answer.delta_rule(**written_again))


def test_not_written(answer, not_written):
    """With β = 0 and a decay of 1, the state does not change."""
    return seen(answer.delta_rule(**not_written))


@pytest.mark.on_devices
def test_gradients(answer, full):
    """Gradients reach all arguments, including the state."""
    return of_gradients(answer.delta_rule, full)


def test_in_pieces(answer, many):
    """A text that is read in pieces, even of one token, has the outputs of the full text."""
    t = many["beta"].size(-1)
    return in_pieces(answer.delta_rule, many, [t - 4, 2, 1, 1])


@pytest.mark.parametrize("leading", RANKS)
def test_leading_axes(answer, of_rank, leading):
    """There may be no batch, or any number of leading axes."""
    return seen(answer.delta_rule(**of_rank))


@pytest.mark.watertight(GIVEN)
def test_keys_as_given(answer, of_other_lengths):
    """Keys, queries and β are used as given, and β may be greater than 1."""
    return seen(answer.delta_rule(**of_other_lengths))


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", [*EDGES, NONE])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one token or none, vectors of width 1, or values as wide as
    keys."""
    return seen(answer.delta_rule(**at_the_edge))


@pytest.mark.watertight(OWN)
@pytest.mark.constant("the given state", "it is as it was")
def test_the_given_state(answer, full):
    """The given state is not overwritten."""
    return before_and_after(answer.delta_rule, full)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """The output has the inputs' dtype; the state is at least in float32, and accurate to that
    precision."""
    return of_all_and_of_one(answer.delta_rule, of_dtype)


# --- In chunks ------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_one_chunk(answer, plain):
    """Within a single chunk, each error is corrected by the earlier errors."""
    return seen(answer.chunked_delta_rule(**plain))


@pytest.mark.parametrize("chunk", [1, 3, 8, 64])
def test_chunks(answer, many, chunk):
    """Any size of chunk gives the same result, with decay and from a state."""
    return seen(answer.chunked_delta_rule(**many, chunk=chunk))


@pytest.mark.on_devices
def test_gradients_in_chunks(answer, full):
    """Gradients reach all arguments, including those of earlier chunks and the state."""
    return of_gradients(lambda **given: answer.chunked_delta_rule(**given, chunk=3), full)


def test_chunks_in_pieces(answer, many):
    """A text that is read in pieces has the outputs of the full text."""
    t = many["beta"].size(-1)
    return in_pieces(answer.chunked_delta_rule, many, [t - 4, 3, 1])


def test_vanishing_decays(answer, vanishing):
    """The results are right even if the product of all decays of a chunk underflows to 0."""
    return seen(answer.chunked_delta_rule(**vanishing))


@pytest.mark.constant("operations", "the largest tensor", "both are few for each token")
def test_not_token_by_token(answer, long):
    """Chunks are computed by matrix products, with fewer than two operations per token; and no system has all
    tokens."""
    t = long["beta"].size(-1)
    with Operations() as operations, LargestResult() as largest:
        output, state = answer.chunked_delta_rule(**long)
    few = operations.count < 2 * t
    return {
        "output": output[-9:],
        "state": state,
        "operations": "fewer than two a token" if few else "two a token, or more",
        "the largest tensor": "far fewer than T × T numbers"
        if largest.numbers < t * t // 4
        else "about T × T numbers",
    }


@pytest.mark.parametrize("leading", RANKS)
def test_leading_axes_in_chunks(answer, of_rank, leading):
    """There may be no batch, or any number of leading axes."""
    return seen(answer.chunked_delta_rule(**of_rank, chunk=4))


@pytest.mark.watertight(GIVEN)
def test_keys_as_given_in_chunks(answer, of_other_lengths):
    """Keys, queries and β are used as given, and β may be greater than 1."""
    return seen(answer.chunked_delta_rule(**of_other_lengths, chunk=4))


@pytest.mark.watertight(ZERO)
@pytest.mark.constant("gradients of the zeros", "they are finite, and not 0")
def test_a_decay_of_zero(answer, forgotten):
    """A decay of 0 forgets everything before it, nothing becomes NaN, and gradients reach it."""

    def in_eights(**given):
        return answer.chunked_delta_rule(**given, chunk=8)

    # In words: an ulp away from 0, by which tolerances are found, the gradient of `cumprod` is inexact.
    alone = {name: x for name, x in forgotten.items() if name != "state"}
    of_decay = [
        of_gradients(function, given)["gradients"]["decay"]
        for function, given in ((in_eights, forgotten), (answer.chunked_delta_rule, alone))
    ]
    reached = all(
        gradient is not None
        and (gradient.isfinite() & (gradient != 0))[forgotten["decay"] == 0].all()
        for gradient in of_decay
    )
    words = "finite, and not 0" if reached else "none, 0, infinite or NaN"
    return seen(in_eights(**forgotten)) | {"gradients of the zeros": words}


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", [*EDGES, NONE])
def test_chunks_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one token or none, vectors of width 1, or values as wide as
    keys."""
    return seen(answer.chunked_delta_rule(**at_the_edge, chunk=4))


@pytest.mark.watertight(OWN)
@pytest.mark.constant("the given state", "it is as it was")
def test_the_given_state_in_chunks(answer, full):
    """The given state is not overwritten."""
    return before_and_after(answer.chunked_delta_rule, full)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_in_chunks(answer, of_dtype, dtype):
    """The output has the inputs' dtype; the state is at least in float32, and accurate to that
    precision."""
    return of_all_and_of_one(answer.chunked_delta_rule, of_dtype | {"chunk": 16})
