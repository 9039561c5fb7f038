"""Day 36 · ParallelBlock(d_model, n_heads, d_ff, dropout=0.0), MixtureOfDepths(block, d_model, capacity)."""

import pytest
import torch
from torch import nn

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients
from variants.gpt import Block, CausalSelfAttention, FeedForward

LOADED = "weights saved after a call must load into a new model, key by key"
ONES = (
    "a batch, a text or a head of one is where squeezed axes go astray, and a prompt may be empty"
)
MODES = pytest.mark.watertight(
    "a choice that is made otherwise in use than in training is another model"
)
STARTS = "where the weights start decides what the first steps of training are like"
SHORT = pytest.mark.watertight(
    "the first tokens that a model writes are a text shorter than 1/capacity"
)
TIES = "equal tokens score the same, and in half precision so do others"
APART = "published code often drops the sum instead"
FLOATS = pytest.mark.watertight(
    "in floats a share of a whole number may fall just short of a whole number"
)

LENGTHS = (
    (9, 0.25),
    (13, 0.25),
    (7, 0.75),
    (11, 0.75),
)  # the share is a whole number and a quarter


def start_of(parameter):
    """How a parameter starts, in words: as `nn.Linear` makes its matrix, or 1, or otherwise."""
    if parameter.dim() == 1:
        return "1" if bool((parameter == 1).all()) else "otherwise"
    bound = parameter.size(-1) ** -0.5
    largest, mean = float(parameter.abs().max()) / bound, float(parameter.abs().mean()) / bound
    return "uniform" if 0.95 < largest < 1.0001 and 0.45 < mean < 0.55 else "otherwise"


# --- ParallelBlock: inputs ------------------------------------------------------------------------


def block_inputs(draw, b, t, h, d_k, **how):
    """What a block is made from, and the tokens' vectors; d_ff is not four times d_model."""
    d_model = h * d_k
    sizes = {"d_model": d_model, "n_heads": h, "d_ff": d_model + draw.size(1, 5)}
    return sizes | {"x": draw.normal(b, t, d_model, mean=0.3, **how)}


def block_of(build, kind, given, *dropout, **options):
    """The block of these sizes."""
    return build(kind, given["d_model"], given["n_heads"], given["d_ff"], *dropout, **options)


@pytest.fixture
def given(draw):
    """B, T, h and d_k, all different."""
    return block_inputs(draw, *draw.sizes(2, 6, 4))


@pytest.fixture
def many(draw):
    """Very many tokens, the same for all, each alone in its text."""
    given = block_inputs(draw, 1, 1, 1, draw.size(4, 6))
    return given | {"x": given["x"].expand(3000, 1, -1).clone()}


@pytest.fixture
def roomy(draw):
    """Sizes of a block whose matrices are large enough to know how they start."""
    return {"d_model": 8 * draw.size(8, 10), "n_heads": 4, "d_ff": draw.size(90, 120)}


@pytest.fixture
def block_at_the_edge(draw, edge):
    """One of the sizes is 1, or there are no tokens."""
    sizes = dict(zip(("B", "T", "h", "d_k"), draw.sizes(2, 6, 4), strict=True))
    name, size = edge.split("=")
    return block_inputs(draw, *(sizes | {name: int(size)}).values())


@pytest.fixture
def block_dtype(draw, dtype):
    """The same in other dtypes."""
    return block_inputs(draw, *draw.sizes(2, 6, 4), dtype=dtype)


# --- ParallelBlock --------------------------------------------------------------------------------


def test_parallel_parameters(answer, build, given):
    """The parameters are those of one norm, and of day 23's attention and feed-forward network."""
    return dict(block_of(build, answer.ParallelBlock, given).named_parameters())


def test_both_at_once(answer, build, given):
    """Attention and feed-forward network get the same normalized tokens; both outputs are added to the
    unchanged input."""
    return {"output": block_of(build, answer.ParallelBlock, given)(given["x"])}


def test_parallel_gradients(answer, build, given):
    """Gradients reach the tokens, the norm on both paths, and every weight."""
    block = block_of(build, answer.ParallelBlock, given)
    inputs = wanting_gradients({"x": given["x"]})
    backward(block(**inputs))
    named = gradients(block)
    query, _, value = named["self_attn.w_qkv.bias"].chunk(3)  # the keys' third is rounding alone
    named["self_attn.w_qkv.bias"] = torch.cat([query, value])
    return {"gradients": gradients(inputs) | named}


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_everything_dropped(answer, build, given, mode):
    """In training with p = 1, the output is the input, and every attention weight is dropped; in
    evaluation mode, dropout is inactive."""
    block = block_of(build, answer.ParallelBlock, given, 1.0).train(mode == "training")
    return {"output": block(given["x"]), "attention alone": block.self_attn(given["x"])}


@pytest.mark.watertight(APART)
@pytest.mark.constant("share that gained nothing", "it is p², to two digits")
def test_dropped_independently(answer, build, many):
    """The outputs of attention and of the feed-forward network are dropped independently of each other."""
    block = block_of(build, answer.ParallelBlock, many, 0.4)
    with torch.no_grad():
        gain = block(many["x"]) - many["x"]
    nothing = (gain.abs() < 1e-6).double().mean().item()
    return {"share that gained nothing": round(nothing, 1), "largest gain": gain.amax(dim=(0, 1))}


@pytest.mark.watertight(ONES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "h=1", "d_k=1", "T=0"])
def test_parallel_at_the_edge(answer, build, block_at_the_edge, edge):
    """The result is right for one text, one token, one head, heads of width 1, or no tokens."""
    given = block_at_the_edge
    return {"output": block_of(build, answer.ParallelBlock, given)(given["x"])}


@pytest.mark.watertight(LOADED)
def test_parallel_state_dict(answer, build, given):
    """The state dict holds norm, attention and feed-forward network, and nothing else, before a call and
    after it."""
    block = block_of(build, answer.ParallelBlock, given)
    block(given["x"])
    return dict(block.state_dict())


@pytest.mark.watertight(STARTS)
@pytest.mark.constant("what starts otherwise", "nothing")
def test_parallel_start(answer, roomy):
    """All matrices have the default initialization of `nn.Linear`, and the norm's gain is 1."""
    parameters = dict(answer.ParallelBlock(**roomy).named_parameters())
    other = [
        name
        for name, parameter in parameters.items()
        if start_of(parameter) == "otherwise" and (parameter.dim() == 2 or name == "norm.gain")
    ]
    sizes = sum(parameter.numel() for parameter in parameters.values())
    return {"what starts otherwise": ", ".join(other) or "nothing", "size": sizes}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_parallel_dtype(answer, build, block_dtype, dtype):
    """The output has the dtype of the weights and the tokens."""
    block = block_of(build, answer.ParallelBlock, block_dtype, dtype=dtype)
    return {"output": block(block_dtype["x"])}


# --- MixtureOfDepths: inputs ----------------------------------------------------------------------


def tokens(draw, b, t, capacity, dtype="float32", h=None, above=None):
    """Tokens whose scores lie well apart, in a different order in each row, and the router that scores so.

    Rounding changes no choice then. Scores are of both signs, unless all are to lie `above` a number.
    """
    h, d_k = draw.sizes(2, 4, 2) if h is None else (h, draw.size(2, 4))
    x = draw.normal(b, t, h * d_k, dtype="float64")
    router = draw.normal(1, h * d_k, dtype="float64")
    ranks = torch.tensor([draw.sizes(0, t - 1, t) for _ in range(b)], dtype=torch.float64)
    ranks = ranks.view(b, t) + draw.uniform(-0.2, 0.2, b, t, dtype="float64")
    scores = 4 * ranks / max(t, 5) + (-1.7 if above is None else above)
    missing = (scores - (x @ router.T).squeeze(-1)) / router.square().sum()
    x = x + missing.unsqueeze(-1) * router
    kind = getattr(torch, dtype)
    return {"n_heads": h, "capacity": capacity, "router": router.to(kind), "x": x.to(kind)}


def layer_of(build, kind, given, block=None, **options):
    """The layer with this router, around a block of day 23 unless another one is given."""
    d_model = given["x"].size(-1)

    def make():
        inside = block
        if inside is None:
            attention = CausalSelfAttention(d_model, given["n_heads"])
            inside = Block(d_model, attention, FeedForward(d_model, d_model + 3), 0.0)
        return kind(inside, d_model, given["capacity"])

    layer = build(make, **options)
    with torch.no_grad():
        layer.router.weight.copy_(given["router"])
    return layer


class Mixing(nn.Module):
    """A block that keeps what it is called with, and in which each token learns of those before it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return x + x.tanh().cumsum(dim=1)


@pytest.fixture
def mixed(draw):
    """Several texts, and a share of them that is no whole number of tokens."""
    t, capacity = draw.choice(LENGTHS)
    return tokens(draw, draw.size(3, 5), t, capacity)


@pytest.fixture
def share(draw, above):
    """The share is three quarters above a whole number, or floats put it just below one."""
    quarters = (7, 0.25), (11, 0.25), (15, 0.25), (13, 0.75), (9, 0.75)
    missed = (100, 0.29), (100, 0.57), (50, 0.58), (100, 0.58)
    t, capacity = draw.choice(quarters if above == "three quarters" else missed)
    return tokens(draw, draw.size(2, 3), t, capacity)


@pytest.fixture
def weighed(draw, what):
    """All scores are below 0, or all tokens pass, or the share is less than one token."""
    lengths = {"all pass": ((draw.size(5, 8), 1.0),), "short": ((3, 0.25), (5, 0.125), (7, 0.125))}
    t, capacity = draw.choice(lengths.get(what, LENGTHS))
    return tokens(draw, draw.size(2, 4), t, capacity, above=-6.0 if what == "negative" else None)


@pytest.fixture
def again(draw, mixed):
    """A second batch, of a different size and length, for the same layer."""
    b, t, d_model = mixed["x"].shape
    return draw.normal(b + 1, t + draw.size(9, 12), d_model)


@pytest.fixture
def alike(draw):
    """Texts of equal tokens."""
    t, capacity = draw.choice(LENGTHS)
    given = tokens(draw, draw.size(2, 4), t, capacity)
    return given | {"x": given["x"][:, :1].expand(-1, t, -1).clone()}


@pytest.fixture
def depths_at_the_edge(draw, edge):
    """One text, one token or none, or one token in the block."""
    t, capacity = draw.choice(LENGTHS)
    name, size = edge.split("=")
    sizes = {"B": draw.size(2, 4), "T": t} | {name: int(size)}
    return tokens(draw, sizes["B"], sizes["T"], 0.1 if name == "k" else capacity)


@pytest.fixture
def wide(draw):
    """A width of which a single row of weights tells how it starts."""
    return draw.size(2000, 2100)


@pytest.fixture
def depths_dtype(draw, dtype):
    """The same in other dtypes."""
    t, capacity = draw.choice(LENGTHS)
    return tokens(draw, draw.size(2, 4), t, capacity, dtype=dtype)


# --- MixtureOfDepths: who is chosen ---------------------------------------------------------------


def test_router(answer, build, mixed):
    """Besides the block's parameters, there is only the router's projection, without a bias."""
    return dict(layer_of(build, answer.MixtureOfDepths, mixed).named_parameters())


@pytest.mark.parametrize("mode", ["training", pytest.param("evaluation", marks=MODES)])
def test_choose(answer, build, mixed, mode):
    """The tokens with the largest scores are chosen, in the order of their positions, each with its own
    weight."""
    layer = layer_of(build, answer.MixtureOfDepths, mixed).train(mode == "training")
    weights, places = layer.choose(mixed["x"])
    return {"places": places, "weights": weights, "output": layer(mixed["x"])}


@pytest.mark.parametrize("above", ["three quarters", pytest.param("nothing", marks=FLOATS)])
def test_rounded_down(answer, build, share, above):
    """The number of tokens is rounded down; 0.29 of 100 tokens are 29, although the float product is
    28.999999999999996."""
    return {"places": layer_of(build, answer.MixtureOfDepths, share).choose(share["x"])[1]}


# --- MixtureOfDepths: what comes of it ------------------------------------------------------------


@pytest.mark.constant("calls of the block", "it is called once")
def test_what_the_block_sees(answer, build, mixed):
    """The block is called once, on only the chosen tokens, in the order of their positions."""
    layer = layer_of(build, answer.MixtureOfDepths, mixed, Mixing())
    layer(mixed["x"])
    return {"calls of the block": len(layer.block.seen), "what it was given": layer.block.seen[0]}


@pytest.mark.on_devices
def test_gain(answer, build, mixed):
    """Chosen tokens get what the block adds, times their weight; all other tokens do not change."""
    return {"output": layer_of(build, answer.MixtureOfDepths, mixed, Mixing())(mixed["x"])}


@pytest.mark.parametrize("what", ["negative", "all pass", pytest.param("short", marks=SHORT)])
def test_weighed(answer, build, weighed, what):
    """A weight may be negative, and applies even if all tokens are chosen; from a very short text, one
    token is chosen."""
    return {"output": layer_of(build, answer.MixtureOfDepths, weighed)(weighed["x"])}


def test_second_call(answer, build, mixed, again):
    """A second call chooses among its own tokens, and the share is of their number."""
    layer = layer_of(build, answer.MixtureOfDepths, mixed)
    layer(mixed["x"])
    other = mixed["x"].flip(1)
    return {
        "how many": layer.choose(again)[1].size(1),
        "weights": layer.choose(again)[0],
        "places in another text": layer.choose(other)[1],
    }


def test_gradients(answer, build, mixed):
    """Gradients reach the tokens, the block and, through the weights, the router."""
    layer = layer_of(build, answer.MixtureOfDepths, mixed, Mixing())
    inputs = wanting_gradients({"x": mixed["x"]})
    backward(layer(**inputs))
    return {"gradients": gradients(inputs) | gradients(layer)}


# --- MixtureOfDepths: beyond the core -------------------------------------------------------------


@pytest.mark.watertight(TIES)
def test_ties(answer, build, alike):
    """If several tokens have the same score, exactly k are chosen."""
    layer = layer_of(build, answer.MixtureOfDepths, alike, Mixing())
    moved = (layer(alike["x"]) != alike["x"]).any(dim=-1)
    return {"chosen in each row": moved.sum(dim=1), "given to the block": layer.block.seen[0]}


@pytest.mark.watertight(ONES)
@pytest.mark.parametrize("edge", ["B=1", "T=1", "k=1", "T=0"])
def test_depths_at_the_edge(answer, build, depths_at_the_edge, edge):
    """The result is right for one text, one token, a single token in the block, or no tokens."""
    given = depths_at_the_edge
    return {"output": layer_of(build, answer.MixtureOfDepths, given)(given["x"])}


@pytest.mark.watertight(STARTS)
@pytest.mark.constant("start of the router", "it is that of `nn.Linear`")
def test_router_start(answer, wide):
    """The router has the default initialization of `nn.Linear`."""
    router = answer.MixtureOfDepths(nn.Identity(), wide, 0.5).router
    return {"start of the router": start_of(router.weight), "size": router.weight.numel()}


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_depths_dtype(answer, build, depths_dtype, dtype):
    """Weights and output have the dtype of the tokens and the module."""
    layer = layer_of(build, answer.MixtureOfDepths, depths_dtype, dtype=dtype)
    weights, _ = layer.choose(depths_dtype["x"])
    return {"weights": weights, "output": layer(depths_dtype["x"])}
