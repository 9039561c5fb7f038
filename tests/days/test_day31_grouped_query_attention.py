"""Day 31 · GroupedQueryAttention(d_model, n_heads, n_kv_heads)."""

import contextlib
import math

import pytest
import torch
from torch.overrides import TorchFunctionMode

from course.checks.authoring import DTYPES, backward, gradients, wanting_gradients

EDGES = "a batch, a sequence, a group or a head of one is where squeezed axes go astray"
STORED = "published code repeats the keys, and fewer of them in memory is what groups are for"
LOUD = (
    "in a trained model some scores are very large, and the hidden ones must stay below all of them"
)
KEPT = "whatever a layer keeps of one call must still be right in the next"
EMPTY = "an empty prompt, or a chunk without queries"


def some_sizes(draw, **fixed):
    """B, T, the numbers of groups and of heads in one, and d_k, all different unless they are fixed."""
    b, t, groups, share, d_k = draw.sizes(2, 6, 5)
    return {"B": b, "T": t, "groups": groups, "share": share, "d_k": d_k} | fixed


def made_from(sizes):
    """What a module of these sizes is made from, in this order."""
    n_heads = sizes["groups"] * sizes["share"]
    d_model = n_heads * sizes["d_k"]
    return {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": sizes["groups"]}


def tokens(draw, sizes, **how):
    """A module's sizes, and an x for it."""
    arguments = made_from(sizes)
    x = draw.normal(sizes["B"], sizes["T"], arguments["d_model"], **how)
    return arguments | {"x": x}


def heads(draw, sizes, t_q, t_k, **how):
    """A module's sizes, and queries, keys and values in heads."""
    shape = sizes["B"], sizes["groups"], t_k, sizes["d_k"]
    arguments = made_from(sizes)
    return arguments | {
        "query": draw.normal(sizes["B"], arguments["n_heads"], t_q, sizes["d_k"], **how),
        "key": draw.normal(*shape, mean=0.2, **how),
        "value": draw.normal(*shape, mean=0.5, **how),
    }


def sizes_of(given):
    """What the module is made from, in the constructor's order."""
    return [given[name] for name in ("d_model", "n_heads", "n_kv_heads")]


def inputs_of(given):
    """What the module is called with: all the tensors."""
    return {name: value for name, value in given.items() if not isinstance(value, int)}


class Stored(TorchFunctionMode):
    """Counts the tensors made within it whose memory has room for so many numbers, or more."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers
        self.count = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, tuple | list) else [output]:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                with contextlib.suppress(
                    NotImplementedError
                ):  # within `vmap`, a tensor has no memory
                    room = tensor.untyped_storage().nbytes() // tensor.element_size()
                    self.count += room >= self.numbers
        return output


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def given(draw):
    """Several groups of several heads, and no two sizes alike."""
    return tokens(draw, some_sizes(draw))


@pytest.fixture
def each_its_own(draw):
    """As many key/value heads as query heads."""
    return tokens(draw, some_sizes(draw, share=1))


@pytest.fixture
def one_for_all(draw):
    """A single head that answers."""
    return tokens(draw, some_sizes(draw, groups=1))


@pytest.fixture
def changed(draw, given):
    """A place in the sequence, and other tokens from there on."""
    x = given["x"]
    position = draw.size(1, x.size(1) - 1)
    later = x.clone()
    later[:, position:] = draw.normal(x.size(0), x.size(1) - position, x.size(2))
    return {"place": position, "x": later}


@pytest.fixture
def in_heads(draw):
    """As many queries as keys."""
    sizes = some_sizes(draw)
    return heads(draw, sizes, sizes["T"], sizes["T"])


@pytest.fixture
def chunk(draw):
    """Several queries, the last of more keys."""
    t_q = draw.size(2, 4)
    return heads(draw, some_sizes(draw), t_q, t_q + draw.size(2, 5))


@pytest.fixture
def newest(draw):
    """One query, and the keys of all that came before it."""
    return heads(draw, some_sizes(draw), 1, draw.size(5, 12))


@pytest.fixture
def loud(draw):
    """Vectors so large that scores reach some 10⁵."""
    t = draw.size(2, 4)
    return heads(draw, some_sizes(draw), t, t, scale=200.0)


@pytest.fixture
def shared(draw):
    """A chunk of so few queries that no other tensor is as large as keys that are repeated."""
    sizes = some_sizes(draw, B=2, groups=3, share=4, d_k=draw.choice([5, 7]))
    return heads(draw, sizes, 3, draw.choice([11, 13]))


@pytest.fixture
def longer(draw, chunk):
    """As many queries as before, the last of more keys."""
    b, groups, t_k, d_k = chunk["key"].shape
    more = draw.size(2, 4)
    cached = {name: draw.normal(b, groups, t_k + more, d_k) for name in ("key", "value")}
    return cached | {"query": draw.normal(*chunk["query"].shape)}


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1."""
    return tokens(draw, some_sizes(draw, **{edge.split("=")[0]: 1}))


@pytest.fixture
def nothing(draw):
    """No tokens at all."""
    return tokens(draw, some_sizes(draw, T=0))


@pytest.fixture
def nobody_asks(draw):
    """No queries, though there are keys."""
    return heads(draw, some_sizes(draw), 0, draw.size(3, 6))


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype."""
    return tokens(draw, some_sizes(draw), dtype=dtype)


# --- What there is to learn -----------------------------------------------------------------------


def test_parameters(answer, build, given):
    """The parameters are `w_q`, `w_k`, `w_v` and `w_o`, without biases; those of keys and values are
    narrower."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    return dict(module.named_parameters())


# --- In heads -------------------------------------------------------------------------------------


def test_project(answer, build, given):
    """Each head has its own queries; keys and values have fewer heads, of the same width."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    query, key, value = module.project(**inputs_of(given))
    return {"query": query, "key": key, "value": value}


@pytest.mark.on_devices
def test_attend(answer, build, in_heads):
    """Neighboring heads attend to the same keys, causally, and are joined in order."""
    module = build(answer.GroupedQueryAttention, *sizes_of(in_heads))
    return {"joined heads": module.attend(**inputs_of(in_heads))}


def test_the_newest_token(answer, build, newest):
    """A single query is at the last position, and attends to all keys, as in generation."""
    module = build(answer.GroupedQueryAttention, *sizes_of(newest))
    return {"joined heads": module.attend(**inputs_of(newest))}


def test_a_chunk(answer, build, chunk):
    """Several queries are the last positions: each attends to the cache, and causally to its own chunk."""
    module = build(answer.GroupedQueryAttention, *sizes_of(chunk))
    return {"joined heads": module.attend(**inputs_of(chunk))}


@pytest.mark.watertight(STORED)
@pytest.mark.constant("tensors with keys or values for each query head", "they are shared")
def test_keys_are_not_repeated(answer, build, shared):
    """No tensor contains a copy of keys or values for each query head."""
    module = build(answer.GroupedQueryAttention, *sizes_of(shared))
    numbers = math.prod(shared["key"].shape) // shared["n_kv_heads"] * shared["n_heads"]
    with Stored(numbers) as stored:
        joined = module.attend(**inputs_of(shared))
    return {"joined heads": joined, "tensors with keys or values for each query head": stored.count}


@pytest.mark.watertight(LOUD)
def test_large_scores(answer, build, loud):
    """With very large scores, outputs are finite, and hidden keys stay hidden."""
    module = build(answer.GroupedQueryAttention, *sizes_of(loud))
    return {"joined heads": module.attend(**inputs_of(loud))}


@pytest.mark.watertight(KEPT)
def test_another_past(answer, build, chunk, longer):
    """Calls with a longer past, and then with the first past again, do not depend on each other."""
    module = build(answer.GroupedQueryAttention, *sizes_of(chunk))
    module.attend(**inputs_of(chunk))
    return {"longer": module.attend(**longer), "as at first": module.attend(**inputs_of(chunk))}


# --- The output -----------------------------------------------------------------------------------


def test_as_many_kv_heads_as_heads(answer, build, each_its_own):
    """If every head has its own keys and values, the result is causal multi-head attention without
    biases."""
    module = build(answer.GroupedQueryAttention, *sizes_of(each_its_own))
    return {"output": module(**inputs_of(each_its_own))}


def test_one_kv_head(answer, build, one_for_all):
    """With a single KV head, the result is multi-query attention."""
    module = build(answer.GroupedQueryAttention, *sizes_of(one_for_all))
    return {"output": module(**inputs_of(one_for_all))}


@pytest.mark.on_devices
def test_grouped_queries(answer, build, given):
    """The heads of a group share keys and values."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    return {"output": module(**inputs_of(given))}


def test_later_tokens_are_invisible(answer, build, given, changed):
    """Outputs do not depend on later tokens."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    return {"output before": module(changed["x"])[:, : changed["place"]]}


@pytest.mark.watertight(EDGES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "groups=1", "share=1", "d_k=1"])
def test_at_the_edge(answer, build, at_the_edge, edge):
    """The result is right for one sequence, one token, one group, one head per group, or heads of width
    1."""
    module = build(answer.GroupedQueryAttention, *sizes_of(at_the_edge))
    return {"output": module(**inputs_of(at_the_edge))}


@pytest.mark.watertight(EMPTY)
def test_no_tokens(answer, build, nothing, nobody_asks):
    """Without tokens, or without queries, there are no outputs."""
    module = build(answer.GroupedQueryAttention, *sizes_of(nothing))
    other = build(answer.GroupedQueryAttention, *sizes_of(nobody_asks))
    return {
        "output": module(**inputs_of(nothing)),
        "joined heads": other.attend(**inputs_of(nobody_asks)),
    }


@pytest.mark.watertight("a model saved after a call has to load into a new one, key by key")
def test_state_dict(answer, build, given):
    """The state dict holds the four matrices and nothing else, before a call and after it."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    module(**inputs_of(given))
    return dict(module.state_dict())


# --- Gradients ------------------------------------------------------------------------------------


def test_gradients(answer, build, given):
    """Gradients reach the tokens and every projection; those of a group's heads are added up."""
    module = build(answer.GroupedQueryAttention, *sizes_of(given))
    inputs = wanting_gradients(inputs_of(given))
    backward(module(**inputs))
    return {"gradients": gradients(inputs) | gradients(module)}


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, of_dtype, dtype):
    """The output has the dtype of the module and the tokens."""
    module = build(answer.GroupedQueryAttention, *sizes_of(of_dtype), dtype=dtype)
    return {"output": module(**inputs_of(of_dtype))}
