"""Day 34 · linear_attention(query, key, value, causal), sliding_window_mask(size, window, global_tokens)."""

import pytest
import torch

from course.checks.authoring import (
    DTYPES,
    FLOAT64,
    HALVES,
    backward,
    gradients,
    sequences,
    wanting_gradients,
)
from course.checks.tensors import LargestResult, OperationRecorder
from implementation import attention, subsequent_mask

WIDTHS = "no publication has values of another width than its keys"
AXES = "publications take a batch of heads: two leading axes"
ALIKE = "a mask that is kept is handed out to several, and one of them may write into it"
NOTHING = pytest.mark.watertight("a window of 0 is easily taken for no window")
SINGLE = "a batch, a sequence or a width of one is where squeezed and broadcast axes go astray"
EMPTY = "an empty prompt, or an empty memory, must not turn into NaN"
FAR = "float32's elu(x) + 1 is 0 from −17.4 on, and the quotient of two zeros is NaN"
ABOVE = (
    "where both sides of a choice are computed, an infinity in the other one makes gradients NaN"
)
SUMS = "a sum of thousands of features is beyond what half precision can hold or count"
RANKS = tuple(pytest.param(axes, marks=pytest.mark.watertight(AXES)) for axes in (0, 1))
BEYOND = pytest.param(3, marks=pytest.mark.watertight(AXES))
STATES = "a state for every token takes d times the memory of all keys and values together"


def short(draw, **how):
    """As many queries as keys, a few of them, no two sizes alike."""
    b, h, t, d = draw.sizes(2, 8, 4)
    return sequences(draw, [b, h], t, t, d, d, **how)


def long(draw, **how):
    """Enough tokens that any chunks are several, and the last one is not full."""
    t = 2 * draw.size(40, 90) + 1
    b, h, d = draw.sizes(2, 5, 3)
    return sequences(draw, [b, h], t, t, d, d, **how)


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def inputs(draw):
    """A batch of heads whose sizes are all different."""
    b, h, t_q, t_k, d = draw.sizes(2, 8, 5)
    return sequences(draw, [b, h], t_q, t_k, d, d)


@pytest.fixture
def other_width(draw):
    """Values wider than the keys, or narrower, in more than one chunk."""
    t = 2 * draw.size(40, 90) + 1
    b, d_k, d_v = draw.sizes(2, 5, 3)
    return sequences(draw, [b], t, t, d_k, d_v)


@pytest.fixture
def inputs_of_rank(draw, leading):
    """No batch at all, or several leading axes."""
    t, d = draw.sizes(3, 8, 2)
    return sequences(draw, draw.sizes(2, 4, leading), t, t, d, d)


@pytest.fixture
def few_tokens(draw):
    """Fewer tokens than any chunk has."""
    return short(draw)


@pytest.fixture
def many_tokens(draw):
    """Several chunks, the last not full."""
    return long(draw)


@pytest.fixture
def around_whole_chunks(draw):
    """A power of two, one token less and one more."""
    return [sequences(draw, [1, 2], t, t, 3, 3) for t in (127, 128, 129)]


@pytest.fixture
def changed(draw, many_tokens):
    """A place in the sequence, and other tokens from there on."""
    b, h, t, d = many_tokens["key"].shape
    position = draw.size(t // 2, t - 2)
    later = {name: x.clone() for name, x in many_tokens.items()}
    for x in later.values():
        x[:, :, position:] = draw.normal(b, h, t - position, d)
    return {"place": position, "inputs": later}


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1, or none at all are there to ask or to be asked."""
    names = ["B", "T_q", "T_k", "d_k", "d_v"]
    sizes = dict(zip(names, draw.sizes(2, 8, 5), strict=True))
    sizes |= {name: int(size) for name, size in (entry.split("=") for entry in edge.split())}
    b, t_q, t_k, d_k, d_v = sizes.values()
    return sequences(draw, [b], t_q, t_k, d_k, d_v)


@pytest.fixture
def split_from_heads(draw):
    """Four axes that are in memory as (B, T, h, d), as after a split into heads; keys by columns."""
    b, h, t, d_k, d_v = draw.sizes(2, 7, 5)
    inputs = sequences(draw, [b, h], t, t, d_k, d_v)
    axes = {"query": (1, 2), "key": (2, 3), "value": (1, 2)}
    return {
        name: x.transpose(*axes[name]).contiguous().transpose(*axes[name])
        for name, x in inputs.items()
    }


@pytest.fixture
def far_below_zero(draw, dtype):
    """All features of some queries, and all keys of one sequence, lie about −20."""
    inputs = short(draw, dtype=dtype)
    inputs["query"][0, :, 1:] -= 20
    inputs["key"][1] -= 20
    return inputs


@pytest.fixture
def far_above_zero(draw):
    """Some features of queries and keys lie about 100."""
    inputs = short(draw)
    inputs["query"][..., 0] += 100
    inputs["key"][..., 0] += 100
    return inputs


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype."""
    return short(draw, dtype=dtype)


@pytest.fixture
def long_sums(draw, dtype):
    """Thousands of tokens whose features and values are large, all of one sign."""
    t, d_k, d_v = draw.size(2000, 2500), draw.size(2, 3), draw.size(4, 5)
    inputs = sequences(draw, [], t, t, d_k, d_v)
    return {name: (x + 12).to(getattr(torch, dtype)) for name, x in inputs.items()}


@pytest.fixture
def very_long(draw):
    """Narrow features of many tokens: T × T is far more than anything else."""
    t, d = draw.size(1040, 1280), draw.size(3, 6)
    return sequences(draw, [1, 1], t, t, d, d)


@pytest.fixture
def wide_features(draw):
    """Wide features: a state, d_k × d_v, is far larger than a token."""
    t, d_k, d_v = draw.size(500, 560), draw.size(48, 55), draw.size(56, 64)
    return sequences(draw, [], t, t, d_k, d_v)


def window_of(size, window, global_tokens=None):
    """A mask's arguments; global tokens where they are asked for."""
    some = {} if global_tokens is None else {"global_tokens": global_tokens}
    return {"size": size, "window": window} | some


@pytest.fixture
def local(draw, window):
    """A window that is nothing, with global tokens or none beside it, or neither nothing nor everything."""
    if window == "of nothing":
        return window_of(draw.size(5, 9), 0, draw.size(0, 2))
    return window_of(draw.size(9, 14), draw.size(2, 4))


@pytest.fixture
def with_global_tokens(draw):
    """A window, and a few first tokens beside it."""
    return window_of(draw.size(10, 15), draw.size(1, 3), draw.size(2, 4))


@pytest.fixture
def to_attend(draw):
    """Queries, keys and values, and a window for them."""
    b, d_k, d_v = draw.sizes(2, 5, 3)
    t = draw.size(9, 12)
    return sequences(draw, [b], t, t, d_k, d_v) | {"window": draw.size(1, 3)}


@pytest.fixture
def no_size(draw):
    """No tokens, and one."""
    return {
        "no tokens": window_of(0, draw.size(0, 3), draw.size(0, 3)),
        "one token": window_of(1, draw.size(0, 3), draw.size(0, 3)),
        "two tokens": window_of(2, draw.size(0, 1), draw.size(0, 1)),
    }


# --- Measures -------------------------------------------------------------------------------------


def kept_for_the_way_back(function, inputs):
    """The output, and how many numbers are kept for its backward pass, each memory counted once."""
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function(**wanting_gradients(inputs))
    return output, sum(sizes.values())


def numbers_made(function, inputs):
    """How many numbers all operations return together: twice as many tokens need twice as many."""
    sizes = []
    with OperationRecorder(lambda tensor: sizes.append(tensor.numel())):
        function(**inputs)
    return sum(sizes)


# --- All keys -------------------------------------------------------------------------------------


def test_linear_attention(answer, inputs):
    """The weights are products of the features elu(x) + 1, and the output is the weighted mean of the
    values."""
    return {"output": answer.linear_attention(**inputs)}


@pytest.mark.parametrize("leading", [*RANKS, 2, BEYOND])
def test_leading_dimensions(answer, inputs_of_rank, leading):
    """There may be no batch, or any number of leading axes."""
    return {"output": answer.linear_attention(**inputs_of_rank)}


# --- Causal ---------------------------------------------------------------------------------------


def test_causal(answer, few_tokens):
    """A query attends to the keys up to and including its own position."""
    return {"causal output": answer.linear_attention(**few_tokens, causal=True)}


def test_causal_around_whole_chunks(answer, around_whole_chunks):
    """The length may be one token below or above a multiple of the chunk size."""
    return {
        f"causal output of {inputs['key'].size(-2)} tokens": (
            answer.linear_attention(**inputs, causal=True)[..., -5:, :]
        )
        for inputs in around_whole_chunks
    }


def test_later_tokens_are_invisible(answer, changed):
    """Causal outputs do not depend on later tokens."""
    output = answer.linear_attention(**changed["inputs"], causal=True)
    return {"causal output before": output[:, :, : changed["place"]]}


# --- Memory ---------------------------------------------------------------------------------------


@pytest.mark.constant(
    "the largest tensor", "twice as many tokens", "both grow with T, not with T × T"
)
@pytest.mark.parametrize("causal", [False, True])
def test_no_table_of_scores(answer, very_long, causal):
    """For a thousand tokens, no tensor has T × T numbers, or a large share; nor have all of them together."""
    with LargestResult() as largest:
        output = answer.linear_attention(**very_long, causal=causal)
    t = very_long["key"].size(-2)
    few = largest.numbers < t * t // 4
    half = {name: x[..., : t // 2, :] for name, x in very_long.items()}
    of_half, of_all = (
        numbers_made(answer.linear_attention, inputs | {"causal": causal})
        for inputs in (half, very_long)
    )
    return {
        "output": output,
        "the largest tensor": "has far fewer than T × T numbers"
        if few
        else "has about T × T numbers",
        "twice as many tokens": "need at most three times as many numbers"
        if of_all <= 3 * of_half
        else "need over three times as many numbers",
    }


@pytest.mark.constant("for the backward pass", "there is no state for each token")
@pytest.mark.watertight(STATES)
def test_no_state_for_each_token(answer, wide_features):
    """For the causal backward pass, fewer than T states of d_k × d_v numbers are stored."""
    output, sizes = kept_for_the_way_back(
        lambda **inputs: answer.linear_attention(**inputs, causal=True), wide_features
    )
    (t, d_k), d_v = wide_features["key"].shape, wide_features["value"].size(-1)
    few = sizes < t * d_k * d_v
    return {
        "causal output": output.detach(),
        "for the backward pass": "less than a state for each token is kept"
        if few
        else "a state for each token is kept, or more",
    }


# --- Gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(answer, inputs, many_tokens, causal):
    """Gradients reach query, key and value; in the causal case, also those of earlier chunks."""
    wanting = wanting_gradients(many_tokens if causal else inputs)
    backward(answer.linear_attention(**wanting, causal=causal))
    return {"gradients": gradients(wanting)}


# --- Edges ----------------------------------------------------------------------------------------


@pytest.mark.watertight(SINGLE)
@pytest.mark.parametrize("edge", ["B=1", "T_q=1", "T_k=1", "d_k=1", "d_v=1", "T_q=0"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one sequence, one query or none, one key, or vectors of width 1."""
    return {"output": answer.linear_attention(**at_the_edge)}


@pytest.mark.watertight(EMPTY)
@pytest.mark.parametrize("edge", ["T_q=0 T_k=0"])
def test_no_tokens(answer, at_the_edge, edge):
    """Without tokens, there is no output, causal or not."""
    return {
        "output": answer.linear_attention(**at_the_edge),
        "causal output": answer.linear_attention(**at_the_edge, causal=True),
    }


@pytest.mark.watertight(WIDTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_other_width_of_values(answer, other_width, causal):
    """Values, and their gradients, may be wider or narrower than queries and keys."""
    inputs = wanting_gradients(other_width)
    output = answer.linear_attention(**inputs, causal=causal)
    backward(output)
    return {"output": output, "gradients": gradients(inputs)}


@pytest.mark.watertight(EMPTY)
@pytest.mark.parametrize("edge", ["T_k=0"])
def test_no_keys(answer, at_the_edge, edge):
    """Without keys, the output and the query's gradient are 0."""
    inputs = wanting_gradients(at_the_edge)
    output = answer.linear_attention(**inputs)
    backward(output)
    return {"output": output.detach(), "gradients": {"query": gradients(inputs)["query"]}}


@pytest.mark.watertight(
    "heads are split by a transposition, and a `view` of the result raises an error"
)
def test_memory(answer, split_from_heads):
    """Transposed tensors, which are not contiguous, give the same result."""
    return {
        "output": answer.linear_attention(**split_from_heads),
        "causal output": answer.linear_attention(**split_from_heads, causal=True),
    }


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """The output has the inputs' dtype, and is accurate to its precision."""
    return {
        "output": answer.linear_attention(**of_dtype),
        "causal output": answer.linear_attention(**of_dtype, causal=True),
    }


@pytest.mark.watertight(FAR)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_far_below_zero(answer, far_below_zero, dtype):
    """For inputs of about −20, features are small but not 0, and the weights are accurate."""
    return {
        "output": answer.linear_attention(**far_below_zero),
        "causal output": answer.linear_attention(**far_below_zero, causal=True),
    }


@pytest.mark.watertight(ABOVE)
def test_far_above_zero(answer, far_above_zero):
    """For inputs of about 100, features and gradients are finite."""
    inputs = wanting_gradients(far_above_zero)
    output = answer.linear_attention(**inputs)
    backward(output)
    return {"output": output, "gradients": gradients(inputs)}


@pytest.mark.watertight(SUMS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums(answer, long_sums, dtype):
    """Over thousands of tokens in half precision, sums neither overflow nor lose accuracy."""
    return {
        "output": answer.linear_attention(**long_sums)[:9],
        "causal output": answer.linear_attention(**long_sums, causal=True)[-9:],
    }


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_gradients_of_dtype(answer, of_dtype, dtype):
    """Gradients have the inputs' dtype, and are accurate to its precision."""
    inputs = wanting_gradients(of_dtype)
    backward(answer.linear_attention(**inputs, causal=True))
    return {"gradients": gradients(inputs)}


# --- The mask -------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["of some", pytest.param("of nothing", marks=NOTHING)])
def test_window(answer, local, window):
    """A token attends to itself, to at most `window` tokens on either side, and to the global tokens."""
    return {"mask": answer.sliding_window_mask(**local)}


def test_global_tokens(answer, with_global_tokens):
    """The global tokens attend to all tokens, and all tokens attend to them."""
    return {"mask": answer.sliding_window_mask(**with_global_tokens)}


def test_causal_window(answer, with_global_tokens):
    """Combined with `subsequent_mask` by `&`, the mask is a decoder's window, over the past only."""
    size = with_global_tokens["size"]
    return {"mask": answer.sliding_window_mask(**with_global_tokens) & subsequent_mask(size)}


def test_in_attention(answer, to_attend):
    """Day 8's attention accepts the mask, for an entire batch."""
    inputs = {name: value for name, value in to_attend.items() if name != "window"}
    mask = answer.sliding_window_mask(inputs["key"].size(1), to_attend["window"], 1)
    output, _ = attention(**inputs, mask=mask.to(inputs["key"].device))
    return {"output of attention": output}


@pytest.mark.watertight(ALIKE)
def test_mask_once_more(answer, with_global_tokens):
    """Writing into a mask does not change any other mask."""
    first = answer.sliding_window_mask(**with_global_tokens)
    before = first.clone()
    first.fill_(False)
    wider = {**with_global_tokens, "window": with_global_tokens["window"] + 2}
    return {
        "mask": before,
        "mask once more": answer.sliding_window_mask(**with_global_tokens),
        "mask of a wider window": answer.sliding_window_mask(**wider),
    }


@pytest.mark.constant("no tokens", "it is empty")
@pytest.mark.constant("one token", "it sees itself")
@pytest.mark.watertight("no token, or one or two, where a slice from the end takes everything")
def test_hardly_any_tokens(answer, no_size):
    """Without tokens, the mask is empty and has three axes; a single token attends to itself."""
    return {name: answer.sliding_window_mask(**sizes) for name, sizes in no_size.items()}
