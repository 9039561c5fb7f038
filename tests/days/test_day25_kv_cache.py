"""Day 25 · KVCache(n_layers, batch, n_heads, max_len, d_k) and
CachedSelfAttention(d_model, n_heads, dropout=0.0)."""

import pytest
import torch

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients

ONE = "a row, a head or a feature of one is where squeezed axes go astray"
NOTHING = "an empty chunk, which a loop over pieces may end with"
HISTORY = "a kept graph holds on to the activations of every step, until memory is full"
DTYPE = "a cache in float32 is twice as large as one in half precision, and its keys fit no halves"

LAST = (
    "published caches count with their first layer, and yours is asked for a position by every one"
)
STEP = "beams may change places at any time, also before every layer has its chunk"
SEVERAL = "a server has a cache for each of its users"
BUFFER = "a program may use the tensor of a chunk again"
EXTRA = "memory is what a cache is short of"
KEPT = "whatever a layer keeps of one call must still be right in the next"


def edges(*ones):
    """These sizes of one, and a chunk of nothing."""
    why = {**dict.fromkeys(ones, ONE), "nothing": NOTHING}
    return [pytest.param(e, marks=pytest.mark.watertight(reason)) for e, reason in why.items()]


class Notes:
    """A cache that works, for attention to be tried with: it keeps all that it is given."""

    def __init__(self, n_layers):
        self.pages = [[] for _ in range(n_layers)]

    @property
    def length(self):
        return min(sum(key.size(2) for key, _ in page) for page in self.pages)

    def update(self, layer, key, value):
        self.pages[layer].append((key, value))
        return tuple(torch.cat(kind, dim=2) for kind in zip(*self.pages[layer], strict=True))


def room(draw):
    """The sizes of a cache, all different, in the order of its arguments; and three chunks that fill it."""
    n_layers, batch, n_heads, d_k = draw.sizes(2, 6, 4)
    chunks = draw.sizes(1, 4, 3)
    return [n_layers, batch, n_heads, sum(chunks), d_k], chunks


def some_chunks(draw, sizes, chunks, dtype="float32"):
    """For each chunk a key and a value for each layer."""
    n_layers, batch, n_heads, _, d_k = sizes
    shapes = [(n_layers, batch, n_heads, t, d_k) for t in chunks]
    return [(draw.normal(*s, dtype=dtype), draw.normal(*s, mean=1.0, dtype=dtype)) for s in shapes]


def filled(cache, chunks):
    """What the first and the last layer gave back for the last of some chunks, after all the others."""
    for keys, values in chunks:
        stored = [cache.update(layer, key, values[layer]) for layer, key in enumerate(keys)]
    return {
        f"{kind} of the {name} layer": stored[layer][index]
        for name, layer in (("first", 0), ("last", -1))
        for index, kind in enumerate(("keys", "values"))
    }


def numbers_in(value):
    """How many real numbers the tensors in it have room for, views of one memory counted once."""
    sizes, values = {}, [value]
    while values:
        item = values.pop()
        if isinstance(item, torch.Tensor) and item.is_floating_point():
            memory = item.untyped_storage()
            sizes[memory.data_ptr()] = memory.nbytes() // item.element_size()
        elif isinstance(item, dict):
            values.extend(item.values())
        elif isinstance(item, list | tuple):
            values.extend(item)
    return sum(sizes.values())


def text(draw, lengths, n_layers=1, dtype="float32", **sizes):
    """A text in chunks of some lengths, and what a layer is made from; no two sizes alike."""
    n_heads, d_k, batch = draw.sizes(2, 5, 3)
    sizes = {"n_heads": n_heads, "d_k": d_k, "batch": batch} | sizes
    d_model = sizes["n_heads"] * sizes["d_k"]
    return {
        "made from": (d_model, sizes["n_heads"]),
        "chunks": [draw.normal(sizes["batch"], t, d_model, dtype=dtype) for t in lengths],
        "layers": n_layers,
    }


def read_by(layer, given, cache=None, number=0):
    """What a layer makes of the chunks of a text, one after the other."""
    cache = cache or Notes(given["layers"])
    outputs = [layer(chunk, cache, number) for chunk in given["chunks"]]
    return {f"output of chunk {index}": output for index, output in enumerate(outputs, 1)}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def spacious(draw):
    """A cache with room left over after three chunks."""
    sizes, chunks = room(draw)
    sizes[3] += draw.size(2, 5)
    return {"sizes": sizes, "chunks": some_chunks(draw, sizes, chunks)}


@pytest.fixture
def chunked(draw, spacious):
    """A cache that its chunks fill to the last place."""
    length = sum(keys.size(3) for keys, _ in spacious["chunks"])
    return spacious | {"sizes": [*spacious["sizes"][:3], length, spacious["sizes"][4]]}


@pytest.fixture
def beams(draw):
    """Which row continues with which: no row stays where it is, one is left out, another comes twice."""
    sizes, chunks = room(draw)
    sizes[1] = batch = draw.size(3, 6)
    shift = draw.size(1, batch - 2)
    rows = [(index + shift) % batch for index in range(batch)]
    rows[0] = rows[1]
    return {"sizes": sizes, "chunks": some_chunks(draw, sizes, chunks), "rows": rows}


@pytest.fixture
def of_dtype(draw, dtype):
    """Chunks of a different dtype than torch's default."""
    sizes, chunks = room(draw)
    return {"sizes": sizes, "chunks": some_chunks(draw, sizes, chunks, dtype)}


@pytest.fixture
def small_room(draw, edge):
    """One size of the cache is 1, or the last chunk is empty."""
    sizes, chunks = room(draw)
    if edge == "nothing":
        return {"sizes": sizes, "chunks": some_chunks(draw, sizes, [*chunks[:2], 0])}
    sizes[["n_layers", "batch", "n_heads", "", "d_k"].index(edge.split("=")[0])] = 1
    return {"sizes": sizes, "chunks": some_chunks(draw, sizes, chunks)}


@pytest.fixture
def whole_text(draw):
    """A text at once."""
    return text(draw, [draw.size(6, 8)])


@pytest.fixture
def token_by_token(draw):
    """A prompt, and three tokens that follow one by one."""
    return text(draw, [draw.size(4, 7), 1, 1, 1])


@pytest.fixture
def in_chunks(draw):
    """A text in chunks of several tokens, no two of a length, the longest in the middle."""
    first, last = draw.sizes(2, 3, 2)
    return text(draw, [first, draw.size(4, 6), last])


@pytest.fixture
def one_of_several(draw):
    """A layer of a deeper model, and what the layer before it has kept already."""
    given = text(draw, draw.sizes(1, 4, 3), n_layers=3)
    batch, _, d_model = given["chunks"][0].shape
    n_heads = given["made from"][1]
    shape = batch, n_heads, draw.size(5, 6), d_model // n_heads
    return given | {"number": 1, "others": (draw.normal(*shape), draw.normal(*shape))}


@pytest.fixture
def two_texts(draw):
    """Two texts of the same sizes, which are read by turns."""
    given = text(draw, [3, 1, 2])
    return given | {"other": [draw.normal(*chunk.shape) for chunk in given["chunks"]]}


@pytest.fixture
def next_text(draw):
    """A text in chunks, the second of which comes first in the text after it."""
    return text(draw, [draw.size(4, 5), 2, 3])


@pytest.fixture
def at_the_edge(draw, edge):
    """One size is 1, or the last chunk is empty."""
    if edge == "nothing":
        return text(draw, [draw.size(2, 4), 0])
    return text(draw, [3, 1, 2], **{edge.split("=")[0]: 1})


@pytest.fixture
def text_of_dtype(draw, dtype):
    """A text in halves or in float64."""
    return text(draw, [3, 1, 2], dtype=dtype)


# --- The cache ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [3, 1])
def test_update(answer, spacious, chunks):
    """Each layer returns all its keys and values so far, without unwritten positions."""
    cache = answer.KVCache(*spacious["sizes"])
    return filled(cache, spacious["chunks"][:chunks])


@pytest.mark.constant("length at first", "an empty cache holds nothing")
def test_length(answer, spacious):
    """`length` counts the tokens that every layer holds, so it rises once per chunk."""
    cache = answer.KVCache(*spacious["sizes"])
    observed = {"length at first": cache.length}
    for index, chunk in enumerate(spacious["chunks"], 1):
        filled(cache, [chunk])
        observed[f"length after chunk {index}"] = cache.length
    return observed


@pytest.mark.watertight(LAST)
def test_length_in_the_middle_of_a_step(answer, spacious):
    """`length` rises when the last layer has stored its chunk."""
    cache = answer.KVCache(*spacious["sizes"])
    filled(cache, spacious["chunks"][:1])
    *earlier_layers, last = range(spacious["sizes"][0])
    observed = {}
    for index, (keys, values) in enumerate(spacious["chunks"][1:], 2):
        for layer in earlier_layers:
            cache.update(layer, keys[layer], values[layer])
        observed[f"length before the last layer has chunk {index}"] = cache.length
        cache.update(last, keys[last], values[last])
    return observed


def test_room(answer, chunked):
    """`keys` and `values` have room for exactly `max_len` tokens of every layer, row and head."""
    cache = answer.KVCache(*chunked["sizes"])
    shapes = {name: str(tuple(getattr(cache, name).shape)) for name in ("keys", "values")}
    return shapes | filled(cache, chunked["chunks"])


def test_reorder(answer, beams):
    """After `reorder(rows)`, row i holds what row `rows[i]` held, in keys and values of every layer."""
    cache = answer.KVCache(*beams["sizes"])
    filled(cache, beams["chunks"][:-1])
    device = beams["chunks"][0][0].device
    cache.reorder(torch.tensor(beams["rows"], device=device))
    return filled(cache, beams["chunks"][-1:])


@pytest.mark.watertight(STEP)
def test_reorder_in_the_middle_of_a_step(answer, beams):
    """`reorder` moves everything stored, even if only some layers have the newest chunk."""
    cache = answer.KVCache(*beams["sizes"])
    rows = torch.tensor(beams["rows"], device=beams["chunks"][0][0].device)
    observed = {}
    for index, (keys, values) in enumerate(beams["chunks"], 1):
        cache.update(0, keys[0], values[0])
        cache.reorder(rows)
        for layer in range(1, len(keys)):
            stored = cache.update(layer, keys[layer], values[layer])
        observed |= {f"keys after chunk {index}": stored[0].clone()}
    nothing = keys[0][:, :, :0]
    first = cache.update(0, nothing, nothing)
    return observed | {"keys of the first layer": first[0], "values of the first layer": first[1]}


@pytest.mark.watertight(SEVERAL)
def test_two_caches(answer, spacious):
    """Two caches do not affect each other."""
    cache, second_cache = (answer.KVCache(*spacious["sizes"]) for _ in range(2))
    first, second, third = spacious["chunks"]
    filled(cache, [first, second])
    filled(second_cache, [third])
    observed = {"length of one": cache.length, "length of the other": second_cache.length}
    return observed | filled(cache, [third]) | {"length afterwards": second_cache.length}


@pytest.mark.watertight(BUFFER)
def test_chunk_written_to_afterwards(answer, spacious):
    """The contents of the cache do not change when the caller's chunk changes."""
    cache = answer.KVCache(*spacious["sizes"])
    *before, last = [(key.clone(), value.clone()) for key, value in spacious["chunks"]]
    filled(cache, before)
    for key, value in before:
        key.zero_()
        value.zero_()
    return filled(cache, [last])


@pytest.mark.watertight(EXTRA)
def test_no_other_tensor(answer, chunked):
    """A full cache holds exactly `max_len` keys and values."""
    cache = answer.KVCache(*chunked["sizes"])
    filled(cache, chunked["chunks"])
    return {"numbers in tensors": numbers_in(vars(cache))}


@pytest.mark.watertight(HISTORY)
@pytest.mark.constant("wants a gradient", "it never does")
def test_history(answer, spacious):
    """The cache stores numbers without their computation graph."""
    keys, values = spacious["chunks"][0]
    given = wanting_gradients({"key": keys[0], "value": values[0]})
    cache = answer.KVCache(*spacious["sizes"])
    stored = cache.update(0, given["key"] * 2, given["value"] * 2)
    wants = [tensor.requires_grad for tensor in (*stored, cache.keys, cache.values)]
    return {
        "keys": stored[0].detach(),
        "values": stored[1].detach(),
        "wants a gradient": any(wants),
    }


@pytest.mark.watertight(DTYPE)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtype_of_the_cache(answer, of_dtype, dtype):
    """An empty cache takes the dtype of the first chunk."""
    return filled(answer.KVCache(*of_dtype["sizes"]), of_dtype["chunks"])


@pytest.mark.parametrize("edge", edges("n_layers=1", "batch=1", "n_heads=1", "d_k=1"))
def test_small_room(answer, small_room, edge):
    """The result is right for one layer, row, head or feature; an empty chunk adds nothing."""
    cache = answer.KVCache(*small_room["sizes"])
    return filled(cache, small_room["chunks"]) | {"length": cache.length}


# --- Attention ------------------------------------------------------------------------------------


def test_without_a_cache(answer, build, whole_text):
    """Without a cache, the result is that of day 23."""
    layer = build(answer.CachedSelfAttention, *whole_text["made from"])
    return {"output": layer(whole_text["chunks"][0])}


def test_whole_text_at_once(answer, build, whole_text):
    """With an empty cache, an entire text can be read at once, and attention is still causal."""
    return read_by(build(answer.CachedSelfAttention, *whole_text["made from"]), whole_text)


def test_token_by_token(answer, build, token_by_token):
    """A single token attends to itself and to everything in the cache."""
    return read_by(build(answer.CachedSelfAttention, *token_by_token["made from"]), token_by_token)


def test_in_chunks(answer, build, in_chunks):
    """Each token of a chunk attends to everything before the chunk, and to the chunk up to itself."""
    return read_by(build(answer.CachedSelfAttention, *in_chunks["made from"]), in_chunks)


def test_one_of_several(answer, build, one_of_several):
    """A layer uses its own part of the cache, with the index `layer`."""
    given, notes = one_of_several, Notes(3)
    notes.update(0, *given["others"])
    layer = build(answer.CachedSelfAttention, *given["made from"])
    return read_by(layer, given, notes, given["number"])


def test_two_texts(answer, build, two_texts):
    """Past tokens are stored only in the cache, so a layer can alternate between two texts."""
    layer, notes = build(answer.CachedSelfAttention, *two_texts["made from"]), (Notes(1), Notes(1))
    observed = {}
    for index, pair in enumerate(zip(two_texts["chunks"], two_texts["other"], strict=True), 1):
        for name, chunk, cache in zip(("one", "other"), pair, notes, strict=True):
            observed[f"chunk {index} of the {name} text"] = layer(chunk, cache, 0)
    return observed


@pytest.mark.watertight(KEPT)
def test_next_text(answer, build, next_text):
    """A second text with its own cache, in chunks of the same sizes, does not depend on the first."""
    layer = build(answer.CachedSelfAttention, *next_text["made from"])
    read_by(layer, next_text)
    return read_by(layer, next_text | {"chunks": next_text["chunks"][1:]})


@pytest.mark.watertight(KEPT)
def test_after_a_training_step(answer, build, token_by_token):
    """After its weights have changed, the layer computes with the new weights."""
    layer = build(answer.CachedSelfAttention, *token_by_token["made from"])
    read_by(layer, token_by_token)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1.5)
    return read_by(layer, token_by_token)


def test_state_dict(answer, build, in_chunks):
    """The state dict holds the two projections and nothing else, before a call and after it."""
    layer = build(answer.CachedSelfAttention, *in_chunks["made from"])
    read_by(layer, in_chunks)
    return dict(layer.state_dict())


def test_dropout_of_everything(answer, build, in_chunks):
    """In training with p = 1, every weight is dropped, and the output is the bias of `w_o`."""
    return read_by(build(answer.CachedSelfAttention, *in_chunks["made from"], 1.0), in_chunks)


def test_gradients(answer, build, whole_text):
    """Without a cache, gradients reach the tokens and both projections."""
    layer = build(answer.CachedSelfAttention, *whole_text["made from"])
    inputs = wanting_gradients({"x": whole_text["chunks"][0]})
    backward(layer(inputs["x"]))
    named = gradients(inputs) | gradients(layer)
    of_query, _, of_value = named.pop("w_qkv.bias").chunk(3)  # the key's is 0, but for rounding
    return {"gradients": named, "gradients of biases": {"query": of_query, "value": of_value}}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtype(answer, build, text_of_dtype, dtype):
    """The output has the dtype of the layer and the text."""
    made_from = text_of_dtype["made from"]
    return read_by(build(answer.CachedSelfAttention, *made_from, dtype=dtype), text_of_dtype)


@pytest.mark.parametrize("edge", edges("batch=1", "n_heads=1", "d_k=1"))
def test_at_the_edge(answer, build, at_the_edge, edge):
    """The result is right for one row, one head, heads of width 1, or an empty chunk."""
    return read_by(build(answer.CachedSelfAttention, *at_the_edge["made from"]), at_the_edge)


# --- Both together --------------------------------------------------------------------------------


def test_two_layers_with_their_cache(answer, build, in_chunks):
    """Two of your layers with your cache, chunk by chunk, give the result of the full text."""
    d_model, n_heads = in_chunks["made from"]
    layers = [build(answer.CachedSelfAttention, d_model, n_heads) for _ in range(2)]
    batch = in_chunks["chunks"][0].size(0)
    longest = sum(chunk.size(1) for chunk in in_chunks["chunks"])
    cache = answer.KVCache(2, batch, n_heads, longest, d_model // n_heads)
    observed = {}
    for index, chunk in enumerate(in_chunks["chunks"], 1):
        for number, layer in enumerate(layers):
            chunk = chunk + layer(chunk, cache, number)
        observed[f"output of chunk {index}"] = chunk
    return observed | {"length": cache.length}
