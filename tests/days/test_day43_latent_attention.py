"""Day 43 · QKNorm(d_k) and MultiHeadLatentAttention(config)."""

from dataclasses import replace

import pytest

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients
from course.checks.tensors import LargestResult
from variants.latent import LatentConfig

EDGES = "sizes of one are where squeezed axes go astray, and a large eps is where it counts"
FAR = 500  # a position that half precision cannot tell from its neighbors
CASES = {"one token": {}, "one head": {"n_heads": 1}, "one pair": {"d_r": 2}, "eps": {"eps": 0.5}}
SMALL = "an eps shows only beside vectors that are nearly 0"


# --- Inputs ---------------------------------------------------------------------------------------


def config(draw):
    """Sizes of which no two are alike."""
    h, d_k, d_c, pairs = draw.sizes(2, 5, 4)
    return LatentConfig(h * d_k + 11, h, d_k, 5 + d_c, 2 * pairs, draw.size(20, 30), 100.0)


def tokens(draw, sizes, t, **how):
    """A config and an x."""
    return {"config": sizes, "x": draw.normal(draw.size(2, 3), t, sizes.d_model, **how)}


@pytest.fixture
def given(draw):
    """A few tokens."""
    return tokens(draw, config(draw), draw.size(4, 7))


@pytest.fixture
def halved(draw, dtype):
    """The same in another dtype, with a long context."""
    sizes = replace(config(draw), context=FAR + 20)
    return tokens(draw, sizes, draw.size(4, 7), dtype=dtype)


@pytest.fixture
def past(draw):
    """How many tokens have come before."""
    return draw.size(3, 9)


@pytest.fixture
def long(draw):
    """One token behind many, and heads that are far wider than what is cached."""
    sizes = LatentConfig(17, 2, 80, 6, 2, 300, 100.0)
    cache = draw.normal(2, draw.size(200, 240), sizes.d_c + sizes.d_r)
    return {"config": sizes, "x": draw.normal(2, 1, sizes.d_model), "cache": cache}


@pytest.fixture
def later(draw, given, past):
    """A chunk of two or three tokens behind a cache of others."""
    sizes = given["config"]
    rows = len(given["x"])
    return {
        "x": draw.normal(rows, draw.size(2, 3), sizes.d_model),
        "cache": draw.normal(rows, past, sizes.d_c + sizes.d_r),
    }


@pytest.fixture
def edge(draw, case):
    """One token, one head, a single rotary pair, or a large eps."""
    return tokens(
        draw, replace(config(draw), **CASES[case]), 1 if case == "one token" else draw.size(3, 6)
    )


@pytest.fixture
def pair(draw):
    """Queries and keys of several heads, not of one size; neither has a mean of 0."""
    b, h, t_q, t_k, d_k = draw.sizes(2, 7, 5)
    scale = 3.0
    return {
        "query": draw.normal(b, h, t_q, d_k, scale=scale, mean=1.0),
        "key": draw.normal(b, h, t_k, d_k, scale=scale, mean=-0.5),
    }


@pytest.fixture
def typed(draw, dtype):
    """Queries and keys of a dtype, with entries too large to square in float16."""
    shape = draw.sizes(3, 7, 3)
    return {name: draw.normal(*shape, scale=400.0, dtype=dtype) for name in ("query", "key")}


@pytest.fixture
def tiny(draw):
    """Queries and keys beside which eps counts."""
    shape = draw.sizes(3, 7, 3)
    return {name: draw.normal(*shape, scale=1e-3) for name in ("query", "key")}


def both(query_and_key):
    """Query and key by name."""
    query, key = query_and_key
    return {"query": query, "key": key}


def made(answer, build, given, **how):
    """A module."""
    return build(answer.MultiHeadLatentAttention, given["config"], **how)


# --- QKNorm ---------------------------------------------------------------------------------------


def test_norms(answer, build, pair):
    """The parts are `query` and `key`, each an RMSNorm of one head's width."""
    return dict(build(answer.QKNorm, pair["query"].size(-1)).named_parameters())


@pytest.mark.on_devices
def test_query_and_key(answer, build, pair):
    """Each query and each key has a mean square of 1, before its own gain."""
    return both(build(answer.QKNorm, pair["query"].size(-1))(**pair))


def test_gradients_of_the_norm(answer, build, pair):
    """Gradients reach queries, keys and gains."""
    module = build(answer.QKNorm, pair["query"].size(-1))
    inputs = wanting_gradients(pair)
    backward(sum(output.sum() for output in module(**inputs)))
    return gradients(inputs) | gradients(module)


@pytest.mark.watertight(SMALL)
def test_eps(answer, build, tiny):
    """`eps` is 10⁻⁶ by default, and both norms use it."""
    width = tiny["query"].size(-1)
    return {
        "as it is": both(build(answer.QKNorm, width)(**tiny)),
        "another": both(build(answer.QKNorm, width, 1e-2)(**tiny)),
    }


@pytest.mark.parametrize("dtype", HALVES)
def test_halves(answer, build, typed, dtype):
    """Half precision is normalized in float32 and returned in its own dtype."""
    return both(build(answer.QKNorm, typed["query"].size(-1), dtype=dtype)(**typed))


# --- MultiHeadLatentAttention ---------------------------------------------------------------------


def test_parameters(answer, build, given):
    """The parameters are seven projections without biases, and the norm of the latent; nothing else is
    in the state dict."""
    return dict(made(answer, build, given).state_dict())


def test_compress(answer, build, given):
    """For each token, the cache holds its normalized latent, followed by one rotated key."""
    return {"cached": made(answer, build, given).compress(given["x"])}


def test_positions(answer, build, given, past):
    """A chunk after `past` tokens is rotated by its positions from `past` on; the latent is not rotated."""
    module = made(answer, build, given)
    query, rotary = module.queries(given["x"], past)
    return {"cached": module.compress(given["x"], past), "query": query, "rotary part": rotary}


def test_queries(answer, build, given):
    """Each head has a query of width d_k, and a rotary part of width d_r."""
    query, rotary = made(answer, build, given).queries(given["x"])
    return {"query": query, "rotary part": rotary}


@pytest.mark.on_devices
def test_output(answer, build, given):
    """Every token attends to itself and to earlier tokens; the scale is that of width d_k + d_r."""
    output, cache = made(answer, build, given)(given["x"])
    return {"output": output, "cache": cache}


def test_continues(answer, build, given, later):
    """A chunk attends to the entire cache, which grows by the chunk's tokens."""
    output, cache = made(answer, build, given)(later["x"], later["cache"])
    return {"output": output, "cache": cache}


def test_absorbed(answer, build, given):
    """The absorbed form gives the same output."""
    output, cache = made(answer, build, given).absorbed(given["x"])
    return {"output": output, "cache": cache}


@pytest.mark.on_devices
@pytest.mark.constant("latents that are expanded", "the projections of the cache are absorbed")
def test_absorbed_continues(answer, build, given, later):
    """The absorbed form does not project the cache to keys or values."""
    module = made(answer, build, given)
    expanded = []
    for part in (module.w_uk, module.w_uv):
        part.register_forward_hook(lambda part, inputs, output: expanded.append(output))
    output, cache = module.absorbed(later["x"], later["cache"])
    return {"output": output, "cache": cache, "latents that are expanded": len(expanded)}


@pytest.mark.constant("makes keys or values of all tokens")
def test_absorbed_expands_nothing(answer, build, long):
    """Nothing is as large as the keys of one head for the tokens in the cache."""
    module = made(answer, build, long)
    with LargestResult() as largest:
        output, _ = module.absorbed(long["x"], long["cache"])
    large = largest.numbers > 3 * long["cache"].numel()
    return {"output": output, "makes keys or values of all tokens": large}


def test_gradients(answer, build, given):
    """Gradients reach the input and all parameters."""
    module = made(answer, build, given)
    inputs = wanting_gradients({"x": given["x"]})
    backward(module(**inputs)[0])
    return gradients(inputs) | gradients(module)


@pytest.mark.watertight(EDGES)
@pytest.mark.parametrize("case", CASES)
def test_at_the_edge(answer, build, edge, case):
    """The result is right for one token, one head, a rotary part of one pair, or a large `config.eps`."""
    module = made(answer, build, edge)
    return {"output": module(edge["x"])[0], "absorbed": module.absorbed(edge["x"])[0]}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtypes(answer, build, halved, dtype):
    """Output and cache have the input's dtype; the angles keep theirs, so that distant positions stay
    exact."""
    module = made(answer, build, halved, dtype=dtype)
    output, cache = module(halved["x"])
    far = {"cached far away": module.compress(halved["x"], FAR)}
    return {"output": output, "cache": cache} | far
