"""Day 32 · LLaMA(config)."""

from dataclasses import replace

import pytest
import torch

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, listed, named_parameters
from variants import kv_cache
from variants.llama import LLaMAConfig

LOADED = "published weights must load key by key, before and after a call"
FAR = "from position 256 on bfloat16 has one number for several angles"
MODES = "a model that is used otherwise than it was trained gives something else"
ONES = "a batch, a text, a head, a pair or a stack of one is where squeezed axes go astray"
META = "large models are made without numbers first, or there would have to be room for them twice"
PUBLISHED = "GPT-2 and llama2.c divide the deviation of some matrices by √(2N), and train well"
TABLE = "at LLaMA 3.1's context of 131,072 a float64 table for each of 32 layers takes up 2 GiB"


def chunks_of(draw, config, *lengths):
    """A text in chunks of some lengths."""
    b = draw.size(2, 4)
    return [draw.integers(0, config.vocab - 1, b, length) for length in lengths]


def empty_cache(config, rows, room):
    """A cache as the config wants it, with the learner's own class where day 25 is not released."""
    sizes = config.n_layers, rows, config.n_kv_heads, room, config.d_model // config.n_heads
    return kv_cache.KVCache(*sizes)


def room_for(config, chunks):
    """A cache that fits model and text, with some room left over."""
    rows, length = len(chunks[0]), sum(chunk.size(1) for chunk in chunks)
    return empty_cache(config, rows, min(length + 3, config.context))


def read(model, config, chunks):
    """The logits of chunk after chunk, with one cache, and how much that then holds."""
    cache = room_for(config, chunks)
    observed = {f"logits of chunk {n}": model(chunk, cache) for n, chunk in enumerate(chunks, 1)}
    return observed | {"length of the cache": cache.length}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def config(draw):
    """A small LLaMA. No two sizes are alike, the base is small and the eps large enough to be seen."""
    n_kv_heads, d_k = draw.choice([2, 3]), draw.choice([4, 6, 8])
    d_model = 2 * n_kv_heads * d_k
    return LLaMAConfig(
        vocab=draw.size(61, 69),
        context=draw.size(51, 59),
        n_layers=draw.size(2, 3),
        n_heads=2 * n_kv_heads,
        n_kv_heads=n_kv_heads,
        d_model=d_model,
        d_ff=d_model + draw.size(1, 2),
        eps=draw.choice([0.05, 0.1, 0.2]),
        base=draw.choice([20.0, 50.0, 150.0]),
    )


@pytest.fixture
def tokens(draw, config):
    """A batch in which token 0 occurs."""
    b, t = draw.sizes(3, 8, 2)
    tokens = draw.integers(0, config.vocab - 1, b, t)
    tokens[0, 0] = 0
    return tokens


@pytest.fixture
def token_by_token(draw, config):
    """A prompt, and three tokens that follow one by one."""
    return chunks_of(draw, config, draw.size(4, 7), 1, 1, 1)


@pytest.fixture
def in_chunks(draw, config):
    """A text in chunks of several tokens, no two of a length."""
    return chunks_of(draw, config, *draw.sizes(2, 6, 3))


@pytest.fixture
def to_the_end(draw, config):
    """A text in two chunks, which fill the context to its last position."""
    first = draw.size(20, 30)
    return chunks_of(draw, config, first, config.context - first)


@pytest.fixture
def two_texts(draw, config):
    """Two texts in as many chunks, which are read by turns."""
    return [chunks_of(draw, config, 3, 1, 2) for _ in range(2)]


@pytest.fixture
def at_the_edge(draw, config, edge):
    """A model or a text of one."""
    config = {
        "N=1": replace(config, n_layers=1),
        "h=1": replace(config, n_heads=1, n_kv_heads=1),
        "kv=1": replace(config, n_kv_heads=1),
        "pairs=1": replace(config, d_model=2 * config.n_heads),
        "context=1": replace(config, context=1),
    }.get(edge, config)
    b, t = draw.sizes(2, 5, 2)
    b, t = 1 if edge == "B=1" else b, 1 if edge in ("T=1", "context=1") else t
    return {"config": config, "tokens": draw.integers(0, config.vocab - 1, b, t)}


@pytest.fixture
def roomy(draw):
    """Matrices of three thousand numbers and more: their standard deviation is known to 1.3%."""
    return LLaMAConfig(
        vocab=draw.size(58, 66),
        context=draw.size(55, 57),
        n_layers=draw.size(3, 5),
        n_heads=4,
        n_kv_heads=2,
        d_model=80,
        d_ff=draw.size(90, 99),
    )


# --- The parts ------------------------------------------------------------------------------------


def test_parameters(answer, build, config):
    """The parameters are an embedding, the blocks, a final norm, and a separate head without a bias."""
    model = build(answer.LLaMA, config)
    shapes = {name: str(tuple(p.shape)) for name, p in named_parameters(model)}
    return {"parameters": shapes, "how many": sum(p.numel() for p in model.parameters())}


def test_config_is_kept(answer, build, config):
    """`config` is stored as given: a cache reads layers, heads and widths from it."""
    own = build(answer.LLaMA, config).config
    return {"context": own.context, "room": str(tuple(empty_cache(own, 2, 7).keys.shape))}


# --- The logits -----------------------------------------------------------------------------------


def test_logits(answer, build, config, tokens):
    """The model maps tokens to the logits of the next token, at every position."""
    return {"logits": build(answer.LLaMA, config)(tokens)}


def test_gradients(answer, build, config, tokens):
    """Gradients reach every parameter: the embedding only from the input, the head only from the logits."""
    model = build(answer.LLaMA, config)
    backward(model(tokens))
    return {"gradients": gradients(model)}


# --- With a cache ---------------------------------------------------------------------------------


def test_token_by_token(answer, build, config, token_by_token):
    """A single token after a cached text has the same logits as at the end of the full text."""
    return read(build(answer.LLaMA, config), config, token_by_token)


def test_each_layer_keeps_its_own(answer, build, config, in_chunks):
    """After a text, each layer of the cache holds that layer's keys and values for every token."""
    cache = room_for(config, in_chunks)
    model = build(answer.LLaMA, config)
    for chunk in in_chunks:
        model(chunk, cache)
    observed = {}
    for layer, length in enumerate(cache.lengths):
        observed[f"keys of layer {layer}"] = cache.keys[layer, :, :, :length]
        observed[f"values of layer {layer}"] = cache.values[layer, :, :, :length]
    return observed


def test_to_the_end_of_the_context(answer, build, config, to_the_end):
    """With a cache, the context can be used up to its last position."""
    return read(build(answer.LLaMA, config), config, to_the_end)


def test_two_texts(answer, build, config, two_texts):
    """Past tokens are stored only in the cache, so calls can alternate between texts."""
    model = build(answer.LLaMA, config)
    caches = [room_for(config, text) for text in two_texts]
    observed = {}
    for index, pair in enumerate(zip(*two_texts, strict=True), 1):
        for name, chunk, cache in zip(("one", "other"), pair, caches, strict=True):
            observed[f"chunk {index} of the {name} text"] = model(chunk, cache)
    return observed | {"without a cache": model(two_texts[0][0])}


# --- The start ------------------------------------------------------------------------------------


@pytest.mark.constant("not as it should start", "start equal", "what starts wrong: nothing")
def test_start(answer, roomy):
    """Matrices are initialized with standard deviation 0.02, or less in the blocks; gains are
    initialized to 1."""
    parameters = started(answer.LLaMA(roomy))
    smallest = {name: least(name, roomy) for name in parameters}
    return starts(parameters, smallest)


@pytest.mark.watertight(PUBLISHED)
@pytest.mark.constant("not as it should start", "start equal", "what starts wrong: nothing")
def test_start_of_every_matrix(answer, roomy):
    """Every matrix is drawn from N(0, 0.02²), including those that write to the residual stream."""
    parameters = started(answer.LLaMA(roomy))
    return starts(parameters, dict.fromkeys(parameters, 1.0))


def started(model):
    """The parameters of a new model, by name."""
    return {name: p.detach() for name, p in model.named_parameters()}


def least(name, config):
    """The smallest standard deviation of a matrix, in parts of 0.02: GPT-2's and llama2.c's in the blocks."""
    return (2 * config.n_layers) ** -0.5 if name.startswith("blocks.") else 1.0


def starts(parameters, smallest):
    """What starts wrong."""
    wrong = {name: fault(p, smallest[name]) for name, p in parameters.items()}
    return {
        "not as it should start": "; ".join(
            f"{word}: {listed(name for name in wrong if wrong[name] == word)}"
            for word in sorted({*wrong.values()} - {""})
        )
        or "none",
        "start equal": listed(equal_to_the_first_block(parameters)),
        "parameters": sum(p.numel() for p in parameters.values()),
    }


def fault(parameter, smallest):
    """How a parameter starts wrong. A right one is 10% off less than once in 10¹² times."""
    if parameter.dim() == 1:
        return "" if (parameter == 1).all() else "not 1"
    times = float(parameter.square().mean().sqrt()) / 0.02
    if 0.9 * smallest < times < 1.1:
        return ""
    how = "far " if not 0.1 < times < 15 else ""
    return f"{how}too {'wide' if times > 1 else 'narrow'}"


def equal_to_the_first_block(parameters):
    """The matrices of second blocks that equal those of the first."""
    for name, parameter in parameters.items():
        first = parameters.get(name.replace("blocks.1.", "blocks.0."))
        if "blocks.1." in name and parameter.dim() == 2 and torch.equal(parameter, first):
            yield name


# --- Beyond the core ------------------------------------------------------------------------------


@pytest.mark.watertight(ONES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "N=1", "h=1", "kv=1", "pairs=1", "context=1"])
def test_at_the_edge(answer, build, at_the_edge, edge):
    """The result is right for one text, token, block, head, KV head or pair of features, or a context
    of one token."""
    return {"logits": build(answer.LLaMA, at_the_edge["config"])(at_the_edge["tokens"])}


@pytest.mark.watertight(MODES)
def test_evaluation(answer, build, config, tokens):
    """The logits do not depend on the mode."""
    return {"logits in evaluation mode": build(answer.LLaMA, config).eval()(tokens)}


@pytest.mark.watertight(LOADED)
def test_state_dict(answer, build, config, tokens):
    """The state dict holds embedding, blocks, norm and head, and nothing else, before a call and after
    it."""
    model = build(answer.LLaMA, config)
    model(tokens)
    return dict(model.state_dict())


@pytest.mark.watertight(META)
def test_made_without_numbers(answer, build, config, tokens):
    """A model that was created on the device "meta" and then gets weights computes the same logits."""

    def made_on_meta():
        with torch.device("meta"):
            model = answer.LLaMA(config)
        # As `to_empty` does, but what is in no file becomes 0.
        return model._apply(lambda tensor: torch.zeros_like(tensor, device=tokens.device))

    return {"logits": build(made_on_meta)(tokens)}


@pytest.mark.watertight(TABLE)
@pytest.mark.constant("tables", "one for all layers")
def test_one_table_of_angles(answer, build, config):
    """All layers share one table of angles, the same tensor."""
    attentions = [block.self_attn for block in build(answer.LLaMA, config).blocks]
    places = {attention.angles.data_ptr() for attention in attentions}
    return {"tables": len(places), "pairs of features": attentions[0].angles.size(1)}


@pytest.mark.watertight(FAR)
@pytest.mark.constant("angles in", "float32 or better")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_angles_in_halves(answer, build, config, tokens, dtype):
    """In half precision, the angles are still float32 or float64, before a call and after it."""
    model = build(answer.LLaMA, config, dtype=dtype)
    logits = model(tokens)
    wide = {block.self_attn.angles.element_size() >= 4 for block in model.blocks}
    return {"angles in": "float32 or better" if all(wide) else "half precision", "logits": logits}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtype(answer, build, config, in_chunks, dtype):
    """The logits have the dtype of the weights, with or without a cache."""
    return read(build(answer.LLaMA, config, dtype=dtype), config, in_chunks)
