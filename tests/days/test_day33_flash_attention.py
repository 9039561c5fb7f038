"""Day 33 · flash_attention(query, key, value, block=64, causal=False)."""

import weakref

import pytest
import torch
from torch.utils._pytree import tree_leaves

from course.checks.authoring import (
    DTYPES,
    HALVES,
    backward,
    gradients,
    sequences,
    wanting_gradients,
)
from course.checks.tensors import DispatchMode

WIDTHS = "no publication has values of another width than its keys"
AXES = "publications take a batch of heads: two leading axes"
CHUNK = (
    "published code lays the border of a chunk in either of two ways, and trains with equal lengths"
)
SINGLE = "a batch, a sequence, a width or a block of one is where squeezed axes go astray"
EMPTY = "a query without keys must not turn the whole batch into NaN, forward or backward"
FIGURES = "whether it was too much, and no number"
LARGEST = "numbers in the largest tensor"
KEPT = "numbers kept for the backward pass"
FORWARD = "numbers in memory at once, forward"
BACKWARD = "numbers in memory at once, backward"


def uneven(draw):
    """A block, and two lengths, several blocks long and a bit."""
    block = draw.size(3, 5)
    t_q, t_k = (block * blocks + draw.size(1, block - 1) for blocks in draw.sizes(2, 4, 2))
    return block, t_q, t_k


def heads(draw, t_q, t_k, **how):
    """Sequences of several heads in a batch, of one width."""
    b, h, d = draw.sizes(2, 6, 3)
    return sequences(draw, [b, h], t_q, t_k, d, d, **how)


def causal_tiles(draw):
    """As many keys as queries, no multiple of the block, and causal."""
    block, t, _ = uneven(draw)
    return heads(draw, t, t) | {"block": block, "causal": True}


def seen_with_gradients(flash_attention, inputs):
    """The output, and the gradients of query, key and value."""
    inputs = wanting_gradients(inputs)
    output = flash_attention(**inputs)
    backward(output)
    return {"output": output, "gradients": gradients(inputs)}


class Held(DispatchMode):
    """How many numbers are held at once in tensors made inside: now, at most, and in one of them.

    A buffer counts as large as it has grown, and a complex number as several of `size` bytes.
    """

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.now = self.most = self.largest = 0
        self.known = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in (out,) if isinstance(out, torch.Tensor) else tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor.untyped_storage(), tensor.element_size())
        return out

    def see(self, storage, size):
        address, numbers = storage._cdata, storage.nbytes() // min(size, self.size)
        before = self.known.get(address, 0)
        if numbers > before:
            if not before:
                weakref.finalize(storage, self.forget, address)
            self.known[address] = numbers
            self.now += numbers - before
            self.largest = max(self.largest, numbers)
            self.most = max(self.most, self.now)

    def forget(self, address):
        self.now -= self.known.pop(address)


def seen_with_memory(flash_attention, inputs):
    """How many numbers are held at once, in words, and what comes out."""
    inputs = wanting_gradients(inputs)
    few = inputs["query"].size(-2) * inputs["key"].size(-2)

    def word(numbers):
        return "fewer than T_q × T_k" if numbers < few else "as many as T_q × T_k, or more"

    with Held(inputs["query"].element_size()) as memory:
        output = flash_attention(**inputs)
        forward, between = memory.most, memory.now
        memory.most = memory.now
        backward(output)
    counts = {LARGEST: memory.largest, KEPT: between, FORWARD: forward, BACKWARD: memory.most}
    return {
        **{what: word(numbers) for what, numbers in counts.items()},
        "output": output,
        "gradients": gradients(inputs),
    }


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def one_tile(draw):
    """All keys and queries fit into one tile."""
    return heads(draw, *draw.sizes(2, 8, 2)) | {"block": draw.size(9, 20)}


@pytest.fixture
def inputs(draw):
    """Lengths of which neither is a multiple of the block."""
    block, t_q, t_k = uneven(draw)
    return heads(draw, t_q, t_k) | {"block": block}


@pytest.fixture
def all_rests(draw):
    """Blocks of 4 and lengths that leave over 0, 1, 2 or 3."""
    lengths = [(8, 9), (9, 11), (10, 8), (11, 10)]
    return [sequences(draw, [2, 1], *two, 3, 3) | {"block": 4} for two in lengths]


@pytest.fixture
def all_causal_chunks(draw):
    """Causal, with 4, 5, 6 or 7 keys more than queries."""
    causal = {"block": 4, "causal": True}
    return [sequences(draw, [2, 1], 9, 9 + more, 3, 3) | causal for more in (4, 5, 6, 7)]


@pytest.fixture
def other_width(draw):
    """Values wider than the keys, or narrower."""
    block, t_q, t_k = uneven(draw)
    b, d_k, d_v = draw.sizes(2, 6, 3)
    return sequences(draw, [b], t_q, t_k, d_k, d_v) | {"block": block}


@pytest.fixture
def usual_block(draw):
    """More queries and keys than the usual block has."""
    return heads(draw, *draw.sizes(66, 90, 2))


@pytest.fixture
def inputs_of_rank(draw, leading):
    """No batch at all, or several leading axes: the heads are only one more of them."""
    block, t_q, t_k = uneven(draw)
    d = draw.size(4, 6)
    return sequences(draw, draw.sizes(1, 3, leading), t_q, t_k, d, d) | {"block": block}


@pytest.fixture
def ladder(draw, order, height):
    """Scores that rise or fall by so much from the first key to the last, two by two alike, so that several
    count. A weight comes back from L with an error that grows with the scores."""
    block, t_q, t_k = uneven(draw)
    b, h = draw.sizes(2, 4, 2)
    inputs = sequences(draw, [b, h], t_q, t_k, 2, 2)
    rungs = torch.arange(t_k).to(inputs["key"].dtype).div(2, rounding_mode="floor")
    inputs["query"][..., 0] = draw.uniform(1.0, 2.0, b, h, t_q)
    inputs["key"][..., 0] = height / rungs[-1] * (rungs if order == "rising" else rungs.flip(0))
    return inputs | {"block": block}


@pytest.fixture
def low_scores(draw):
    """Every score is below minus ten thousand, and they are near each other."""
    block, t_q, t_k = uneven(draw)
    inputs = sequences(draw, draw.sizes(2, 4, 2), t_q, t_k, 2, 2)
    inputs["query"][..., 0], inputs["key"][..., 0] = 150.0, -150.0
    return inputs | {"block": block}


@pytest.fixture
def as_many(draw):
    """Causal, as many queries as keys."""
    return causal_tiles(draw)


@pytest.fixture
def loud_and_late(draw):
    """Causal, and the later keys would win every softmax, by far."""
    inputs = causal_tiles(draw)
    t = inputs["key"].size(-2)
    direction = draw.normal(inputs["key"].size(-1))
    direction = direction / direction.norm()
    loudness = 10.0 * torch.arange(t).to(direction.dtype).unsqueeze(-1)
    inputs["query"] = inputs["query"] + 10.0 * direction
    inputs["key"] = inputs["key"] + loudness * direction
    return inputs


@pytest.fixture
def two_calls(draw):
    """Two calls of the same sizes."""
    block, t_q, t_k = uneven(draw)
    b, h, d = draw.sizes(2, 6, 3)
    return [sequences(draw, [b, h], t_q, t_k, d, d) | {"block": block} for _ in range(2)]


@pytest.fixture
def long(draw, causal):
    """Sequences of a dozen blocks, and a bit; causal ones as long as each other."""
    block = draw.size(16, 18)
    t_q, t_k = (12 * block + extra for extra in draw.sizes(1, 15, 2))
    d = draw.size(2, 3)
    inputs = sequences(draw, [1, 1], t_q, t_q if causal else t_k, d, d)
    return inputs | {"block": block, "causal": causal}


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1."""
    names = ["B", "T_q", "T_k", "d_k", "d_v", "block"]
    sizes = dict(zip(names, draw.sizes(2, 9, 6), strict=True)) | {edge.split("=")[0]: 1}
    *sizes, block = sizes.values()
    b, t_q, t_k, d_k, d_v = sizes
    return sequences(draw, [b], t_q, t_k, d_k, d_v) | {"block": block}


@pytest.fixture
def split_from_heads(draw):
    """Four axes that are in memory as (B, T, h, d), as after a split into heads; keys by columns."""
    block, t_q, t_k = uneven(draw)
    b, h, d_k, d_v = draw.sizes(2, 6, 4)
    inputs = sequences(draw, [b, h], t_q, t_k, d_k, d_v) | {"block": block}
    axes = {"query": (1, 2), "key": (2, 3), "value": (1, 2)}
    return inputs | {
        name: inputs[name].transpose(*two).contiguous().transpose(*two)
        for name, two in axes.items()
    }


@pytest.fixture
def too_early(draw):
    """Causal queries of which the first, more than a block of them, come before the first key."""
    block, t_k, _ = uneven(draw)
    early = block * draw.size(1, 2) + draw.size(1, block - 1)
    b, d_k, d_v = draw.sizes(2, 6, 3)
    inputs = sequences(draw, [b], t_k + early, t_k, d_k, d_v)
    return inputs | {"block": block, "causal": True}


@pytest.fixture
def without(draw, missing):
    """No keys, or no queries."""
    b, t_q, t_k, d_k, d_v, block = draw.sizes(2, 8, 6)
    t_q, t_k = (0, t_k) if missing == "queries" else (t_q, 0)
    return sequences(draw, [b], t_q, t_k, d_k, d_v) | {"block": block}


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype, causal; √d_k is no whole number."""
    block, t_q, _ = uneven(draw)
    d = draw.choice([3, 5, 6, 7])
    inputs = sequences(draw, draw.sizes(1, 4, 2), t_q, t_q, d, d, dtype=dtype)
    return inputs | {"block": block, "causal": True}


@pytest.fixture
def wide_halves(draw):
    """Wide vectors: their dot products pass 65504, the largest number of float16, and scaled they do
    not. Queries alike, so that the keys compete."""
    block, t_q, t_k = uneven(draw)
    b, d_v = draw.sizes(2, 6, 2)
    common = draw.normal(256, scale=18.0)
    query = common + draw.normal(b, t_q, 256, scale=0.05)
    key = common + draw.normal(b, t_k, 256, scale=0.02)
    halves = {"query": query, "key": key, "value": draw.normal(b, t_k, d_v, mean=0.5)}
    return {name: x.to(torch.float16) for name, x in halves.items()} | {"block": block}


@pytest.fixture
def large_values(draw):
    """Values of about a thousand, so many that their sum passes 65504 where their mean does not."""
    t_q, d_k, d_v = draw.sizes(2, 5, 3)
    inputs = sequences(draw, [], t_q, draw.size(120, 150), d_k, d_v, scale=0.2)
    inputs["value"] = 1000 + 100 * inputs["value"]
    return {name: x.to(torch.float16) for name, x in inputs.items()} | {"block": 40}


@pytest.fixture
def close_halves(draw, dtype):
    """Scores of about 70 that differ by about 1: half precision would round much of that away."""
    block, t_q, t_k = uneven(draw)
    b, d_v = draw.sizes(2, 6, 2)
    d_k = {"float16": 100, "bfloat16": 64}[dtype]
    size = {"float16": 9.0, "bfloat16": 3.0}[dtype]
    common = draw.normal(d_k)
    common = size * d_k**0.5 * common / common.norm()
    query = common + draw.normal(b, t_q, d_k, scale=0.1)
    key = common + draw.normal(b, t_k, d_k, scale=1.0 / size)
    halves = {"query": query, "key": key, "value": draw.normal(b, t_k, d_v, mean=0.5)}
    return {name: x.to(getattr(torch, dtype)) for name, x in halves.items()} | {"block": block}


@pytest.fixture
def many_halves(draw):
    """Enough keys, one a tile, that bfloat16 cannot count them: 256 + 1 is 256 there."""
    t_q, d_k, d_v = draw.sizes(1, 3, 3)
    t_k = draw.size(600, 700)
    inputs = sequences(draw, [], t_q, t_k, d_k, d_v, dtype="bfloat16", scale=0.1)
    return inputs | {"block": 1}


# --- The output -----------------------------------------------------------------------------------


def test_one_tile(answer, one_tile):
    """If everything fits into one tile, the result is that of day 8."""
    return {"output": answer.flash_attention(**one_tile)}


def test_any_length(answer, inputs):
    """Lengths do not need to be multiples of the block."""
    return {"output": answer.flash_attention(**inputs)}


def test_every_rest(answer, all_rests):
    """The remainder of a length that is not a multiple of the block is not lost."""
    return {
        f"output of {inputs['query'].size(-2)} queries and {inputs['key'].size(-2)} keys": (
            answer.flash_attention(**inputs)
        )
        for inputs in all_rests
    }


def test_usual_block(answer, usual_block):
    """By default, the block is 64."""
    return {"output": answer.flash_attention(**usual_block)}


@pytest.mark.watertight(WIDTHS)
def test_other_width_of_values(answer, other_width):
    """Values, and their gradients, may be wider or narrower than queries and keys."""
    return seen_with_gradients(answer.flash_attention, other_width)


@pytest.mark.parametrize(
    "leading",
    [pytest.param(axes, marks=pytest.mark.watertight(AXES)) for axes in (0, 1)]
    + [2, pytest.param(3, marks=pytest.mark.watertight(AXES))],
)
def test_leading_dimensions(answer, inputs_of_rank, leading):
    """There may be no batch, or any number of leading axes."""
    return {"output": answer.flash_attention(**inputs_of_rank)}


@pytest.mark.parametrize("order", ["rising", "falling"])
@pytest.mark.parametrize("height", [300.0])
def test_scores_in_order(answer, ladder, order, height):
    """The result is right if each tile's scores are far above or far below those of the previous tile."""
    return {"output": answer.flash_attention(**ladder)}


def test_low_scores(answer, low_scores):
    """If all scores are below −10,000, the weights are still right."""
    return {"output": answer.flash_attention(**low_scores)}


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", ["B=1", "T_q=1", "T_k=1", "d_k=1", "d_v=1", "block=1"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one query, one key, vectors of width 1, or a tile of one
    score."""
    return {"output": answer.flash_attention(**at_the_edge)}


# --- Causal ---------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_causal(answer, as_many):
    """With `causal`, a query attends to the key at its own position and to earlier keys."""
    return {"output": answer.flash_attention(**as_many)}


@pytest.mark.watertight(CHUNK)
def test_every_causal_chunk(answer, all_causal_chunks):
    """With more keys than queries, the last query is at the position of the last key, for any tiles."""
    return {
        f"output of 9 queries and {inputs['key'].size(-2)} keys": answer.flash_attention(**inputs)
        for inputs in all_causal_chunks
    }


def test_loud_and_late(answer, loud_and_late):
    """A later key with a very high score has no effect."""
    return {"output": answer.flash_attention(**loud_and_late)}


# --- Gradients ------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_gradients(answer, inputs):
    """Gradients add up over several tiles."""
    return seen_with_gradients(answer.flash_attention, inputs)


@pytest.mark.parametrize("tiles", ["one tile", "causal"])
def test_gradients_of(answer, one_tile, as_many, tiles):
    """Gradients are those of day 8's attention, and later keys get none."""
    inputs = one_tile if tiles == "one tile" else as_many
    return seen_with_gradients(answer.flash_attention, inputs)


@pytest.mark.parametrize("order", ["rising", "falling"])
@pytest.mark.parametrize("height", [3.0])
def test_gradients_with_scores_in_order(answer, ladder, order, height):
    """Gradients are right if each tile's scores are above or below those of the previous tile."""
    return seen_with_gradients(answer.flash_attention, ladder)


def test_two_calls(answer, two_calls):
    """Two calls followed by two backward passes, as in a model with two layers, give the right
    gradients."""
    wanting = [wanting_gradients(inputs) for inputs in two_calls]
    outputs = [answer.flash_attention(**inputs) for inputs in wanting]
    backward(*outputs)
    return {"first": gradients(wanting[0]), "second": gradients(wanting[1])}


# --- Memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.constant(LARGEST, KEPT, FORWARD, BACKWARD, FIGURES)
def test_memory(answer, long, causal):
    """T_q × T_k numbers, or a mask of this size, are never in memory at once: not in the forward pass,
    between the passes, or in the backward pass."""
    return seen_with_memory(answer.flash_attention, long)


# --- Extremes -------------------------------------------------------------------------------------


@pytest.mark.watertight(EMPTY)
def test_nothing_to_attend_to(answer, too_early):
    """A causal query before the first key has an output of exactly 0 and passes no gradient on."""
    return seen_with_gradients(answer.flash_attention, too_early)


@pytest.mark.watertight("an empty prompt, or a chunk without queries")
@pytest.mark.parametrize("missing", ["queries", "keys"])
def test_without(answer, without, missing):
    """Without queries there are no outputs; without keys, outputs are 0."""
    return {"output": answer.flash_attention(**without)}


@pytest.mark.watertight(
    "heads are split by a transposition, and a `view` of the result raises an error"
)
def test_memory_layout(answer, split_from_heads):
    """Transposed tensors, which are not contiguous, give the same results and gradients."""
    wanting = wanting_gradients(split_from_heads)
    output = answer.flash_attention(**wanting)
    backward(
        output.transpose(1, 2).flatten(2)
    )  # the heads joined: so the gradient is transposed, too
    return {"output": output, "gradients": gradients(wanting)}


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """Output and gradients have the inputs' dtype, and are accurate to its precision."""
    return seen_with_gradients(answer.flash_attention, of_dtype)


@pytest.mark.watertight("a score that overflows in float16 is infinite, and the next step is NaN")
def test_halves_do_not_overflow(answer, wide_halves, large_values):
    """Scores or sums of values that exceed 65504 before the division do not overflow in float16."""
    return {
        "output": answer.flash_attention(**wide_halves),
        "output of large values": answer.flash_attention(**large_values),
    }


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_exact(answer, close_halves, dtype):
    """In half precision, the result is the float32 result, rounded: scores and their log-sum-exp are
    not rounded, either forward or backward."""
    observed = seen_with_gradients(answer.flash_attention, close_halves)
    return {"output": observed["output"], "gradient of value": observed["gradients"]["value"]}


@pytest.mark.watertight("a sum of many small numbers stops growing in half precision")
def test_halves_add_up(answer, many_halves):
    """Sums over the tiles are computed in float32."""
    return {"output": answer.flash_attention(**many_halves)}
