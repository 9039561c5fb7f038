"""Day 37 · selective_scan(u, delta, a, b, c, d), Mamba(config)."""

import math
from dataclasses import replace

import pytest
import torch.nn.functional as F

from course.checks.authoring import (
    DTYPES,
    FLOAT64,
    HALVES,
    backward,
    gradients,
    named_parameters,
    wanting_gradients,
)
from variants.mamba import MambaConfig, MambaState

EDGES = "a batch, a text, a channel or a state of one is where squeezed axes go astray"
FAST = "published models start at A = −1 to −16, and a state forgets within a few tokens"
MODES = pytest.mark.watertight(
    "a layer that is used otherwise than it was trained gives something else"
)
OWN = "beams that begin alike share a state, until one of them reads on"
HISTORY = "without it each step of decoding would keep the graph of all steps before it"
LOADED = "a model saved after a call has to load into a new one, key by key"
STARTS = "where the weights start decides what the first steps of training are like"
WIDE = "a state that is rounded to three digits at each token soon takes in nothing any more"


# --- Inputs of the scan ---------------------------------------------------------------------------


def scanned(draw, dtype="float32", **fixed):
    """What a scan is given, its sizes all different unless they are fixed."""
    sizes = dict(zip(("B", "D", "N", "T"), draw.sizes(2, 7, 4), strict=True)) | fixed
    b, d, n, t = (sizes[name] for name in ("B", "D", "N", "T"))
    return {
        "u": draw.normal(b, t, d, dtype=dtype),
        "delta": draw.uniform(0.3, 1.2, b, t, d, dtype=dtype),
        "a": draw.uniform(-1.2, -0.2, d, n, dtype=dtype),
        "b": draw.normal(b, t, n, mean=0.2, dtype=dtype),
        "c": draw.normal(b, t, n, mean=0.3, dtype=dtype),
        "d": draw.normal(d, mean=0.5, dtype=dtype),
    }


@pytest.fixture
def given(draw):
    """A few tokens."""
    return scanned(draw)


@pytest.fixture
def stopping(draw):
    """Steps of 0 in the middle of a text."""
    inputs = scanned(draw, T=draw.size(7, 9))
    inputs["delta"][:, 2:5] = 0
    return inputs


@pytest.fixture
def fast(draw, dtype):
    """A = −1 to −30 over so many ordinary steps that no product of all decays is a number."""
    inputs = scanned(draw, dtype=dtype, T=draw.size(60, 70))
    return inputs | {"a": -draw.uniform(1.0, 30.0, *inputs["a"].shape, dtype=dtype)}


@pytest.fixture
def scan_at_the_edge(draw, edge):
    """One size is 1."""
    name, size = edge.split("=")
    return scanned(draw, **{name: int(size)})


@pytest.fixture
def scan_of_dtype(draw, dtype):
    """Everything of one dtype. In halves one token over and over: the state takes in a little each time and
    keeps nearly all, until what comes is less than half a unit in the last place of bfloat16."""
    if dtype not in ("float16", "bfloat16"):
        return scanned(draw, dtype=dtype)
    inputs = scanned(draw, dtype=dtype, B=2, T=1, D=4, N=3)
    for name, tensor in inputs.items():
        if tensor.dim() == 3:
            inputs[name] = (0.05 * tensor if name == "delta" else tensor.abs() + 0.1).repeat(
                1, 800, 1
            )
    inputs["a"] = 0.02 * inputs["a"]
    return inputs


# --- Inputs of the layer --------------------------------------------------------------------------


@pytest.fixture
def config(draw):
    """A small layer, no two of its sizes alike."""
    d_state, d_conv, rank, d_model = draw.sizes(3, 6, 4)
    return MambaConfig(
        d_model=d_model, d_state=d_state, d_conv=d_conv, expand=draw.size(2, 3), dt_rank=rank
    )


def text(draw, config, t, **how):
    """Tokens for a layer."""
    return draw.normal(draw.size(2, 4), t, config.d_model, **how)


@pytest.fixture
def x(draw, config):
    """A text that is longer than the convolution sees."""
    return text(draw, config, draw.size(7, 10))


@pytest.fixture
def later(draw, config, x):
    """A place in the text, and other tokens from there on."""
    position = draw.size(1, x.size(1) - 1)
    other = x.clone()
    other[:, position:] = draw.normal(x.size(0), x.size(1) - position, x.size(2))
    return {"place": position, "x": other}


@pytest.fixture
def pieces(draw, config, lengths):
    """A text in pieces of these lengths."""
    lengths = [int(length) for length in lengths.split()]
    return list(text(draw, config, sum(lengths)).split(lengths, dim=1))


@pytest.fixture
def two_texts(draw, config):
    """Two texts in as many chunks, which are read by turns."""
    b = draw.size(2, 4)
    return [[draw.normal(b, n, config.d_model) for n in (3, 1, 1)] for _ in range(2)]


@pytest.fixture
def layer_at_the_edge(draw, config, edge):
    """A layer or a text of one."""
    field = edge.split("=")[0]
    config = replace(config, **{field: 1}) if field not in ("B", "T") else config
    b, t = draw.sizes(3, 7, 2)
    b, t = 1 if field == "B" else b, 1 if field == "T" else t
    return {"config": config, "x": draw.normal(b, t, config.d_model)}


@pytest.fixture
def layer_of_dtype(draw, config, dtype):
    """Two chunks of one dtype."""
    tokens = text(draw, config, 9, dtype=dtype)
    return list(tokens.split([6, 3], dim=1))


@pytest.fixture
def roomy(draw):
    """A thousand channels: what is drawn for each is known to some per cent."""
    rank, d_state = draw.sizes(4, 12, 2)
    return MambaConfig(
        d_model=draw.size(500, 520), d_state=d_state, d_conv=draw.size(3, 5), expand=2, dt_rank=rank
    )


@pytest.fixture
def middling(draw):
    """Matrices of some thousand numbers."""
    d_model, d_state = draw.sizes(40, 50, 2)
    return MambaConfig(d_model=d_model, d_state=d_state, d_conv=8, expand=2, dt_rank=30)


def fresh(config, x):
    """What a layer keeps before a text, where the text lies."""
    state = MambaState(config, len(x))
    state.window, state.h = state.window.to(x.device), state.h.to(x.device)
    return state


def read(layer, config, chunks):
    """The outputs for chunk after chunk, with one state, and what that then holds."""
    state = fresh(config, chunks[0])
    observed = {f"output of chunk {n}": layer(chunk, state) for n, chunk in enumerate(chunks, 1)}
    return observed | {"window": state.window, "h": state.h}


# --- The scan -------------------------------------------------------------------------------------


def test_scan(answer, given):
    """The state decays by exp(Δ A), adds Δ B u, and is read by C."""
    return {"y": answer.selective_scan(**given)}


def test_steps_of_zero(answer, stopping):
    """A step of 0 adds nothing and forgets nothing."""
    return {"y": answer.selective_scan(**stopping)}


def test_gradients_of_the_scan(answer, given):
    """Gradients reach all six arguments, through every token that the state remembers."""
    inputs = wanting_gradients(given)
    backward(answer.selective_scan(**inputs))
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight(FAST)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fast_decay(answer, fast, dtype):
    """With A from −1 to −30, outputs and gradients are still right."""
    inputs = wanting_gradients(fast)
    y = answer.selective_scan(**inputs)
    backward(y)
    return {"y": y, "gradients": gradients(inputs)}


@pytest.mark.watertight(EDGES)
@pytest.mark.parametrize("edge", ["B=1", "D=1", "N=1"])
def test_scan_at_the_edge(answer, scan_at_the_edge, edge):
    """The result is right for one row, one channel, or a state of one number."""
    return {"y": answer.selective_scan(**scan_at_the_edge)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_the_scan(answer, scan_of_dtype, dtype):
    """The result has the dtype of u; half precision is computed in float32."""
    return {"y": answer.selective_scan(**scan_of_dtype)}


# --- The layer: what there is to learn ------------------------------------------------------------


def test_parameters(answer, build, config):
    """The parameters are four projections, a depthwise convolution, `a_log` and the skip connection `d`."""
    layer = build(answer.Mamba, config)
    return {name: str(tuple(p.shape)) for name, p in named_parameters(layer)}


@pytest.mark.constant("starts otherwise", "what starts wrong: nothing")
def test_start(answer, roomy):
    """A is initialized to −1, −2, …, −N in each channel, the skip to 1, and Δ to between 0.001 and 0.1."""
    layer = answer.Mamba(roomy)
    parameters = {name: p.detach().cpu().double() for name, p in named_parameters(layer)}
    wrong = {name: fault(name, parameter, roomy) for name, parameter in parameters.items()}
    return {
        "starts otherwise": "; ".join(f"{name}: {word}" for name, word in wrong.items() if word)
        or "nothing",
        "parameters": sum(p.numel() for p in parameters.values()),
    }


def fault(name, parameter, config):
    """How a parameter starts wrong. What is drawn is off by so much less than once in 10¹⁰ times."""
    if name == "d":
        return "" if (parameter == 1).all() else "not 1"
    if name == "a_log":
        a, rates = parameter.exp(), parameter.new_ones(parameter.shape).cumsum(dim=-1)
        for wrong, expected in (
            ("", rates),
            ("A = 0, …", rates - 1),
            ("A = −e, −e², …", rates.exp()),
        ):
            if (a - expected).abs().max() < 1e-3:
                return wrong
        return "A is not −1, −2, …, −N"
    if name == "dt_proj.bias":
        steps = F.softplus(parameter)
        if steps.max() - steps.min() < 1e-4:
            return "all steps alike"
        if steps.min() < 0.99e-3 or steps.max() > 0.101:
            return f"steps outside 0.001 to 0.1, {'all' if steps.min() > 0.69 else 'not all'} above 0.69"
        places = (steps / 1e-3).log() / math.log(100)
        even = abs(places.mean() - 0.5) < 0.07 and abs(places.std() - 12**-0.5) < 0.035
        return "" if even else "steps not uniform in their logarithm"
    if name == "dt_proj.weight":
        ends = [end * config.dt_rank**0.5 for end in (-parameter.min(), parameter.max())]
        if all(0.98 < end < 1.0001 for end in ends):
            return ""
        return f"{'wider' if max(ends) > 1.0001 else 'narrower'} than ±R^−½"
    return ""


def start_of(parameter):
    """How what torch starts by itself starts, in words: uniform between ±1/√in, or otherwise."""
    bound = float(parameter[0].numel()) ** -0.5
    largest, mean = float(parameter.abs().max()) / bound, float(parameter.abs().mean()) / bound
    return "" if 0.95 < largest < 1.0001 and 0.43 < mean < 0.57 else "otherwise"


@pytest.mark.watertight(STARTS)
@pytest.mark.constant("matrices that start otherwise", "none")
def test_start_of_the_projections(answer, middling):
    """All other parameters have PyTorch's default initialization."""
    parameters = dict(named_parameters(answer.Mamba(middling)))
    projections = ("in_proj.weight", "conv1d.weight", "x_proj.weight", "out_proj.weight")
    wrong = [name for name in projections if name in parameters and start_of(parameters[name])]
    sizes = sum(p.numel() for p in parameters.values())
    return {"matrices that start otherwise": ", ".join(wrong) or "none", "parameters": sizes}


# --- The layer: a whole text ----------------------------------------------------------------------


def test_layer(answer, build, config, x):
    """The input is projected, convolved, scanned with its own steps, gated, and projected back."""
    return {"output": build(answer.Mamba, config)(x)}


def test_later_tokens_are_invisible(answer, build, config, later):
    """Outputs do not depend on later tokens: convolution and scan are causal."""
    layer = build(answer.Mamba, config)
    return {"output before": layer(later["x"])[:, : later["place"]]}


def test_gradients(answer, build, config, x):
    """Gradients reach the tokens and every parameter."""
    layer = build(answer.Mamba, config)
    inputs = wanting_gradients({"x": x})
    backward(layer(**inputs))
    return {"gradients": gradients(inputs) | gradients(layer)}


# --- The layer: a text in pieces ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["training", pytest.param("evaluation", marks=MODES)])
def test_state(answer, build, config, x, mode):
    """After a text, the state holds the convolution's last inputs, and the state of the scan."""
    layer, state = build(answer.Mamba, config).train(mode == "training"), fresh(config, x)
    output = layer(x, state)
    return {"window": state.window, "h": state.h, "output": output}


@pytest.mark.parametrize("lengths", ["7 1 1 1 1"])
def test_pieces(answer, build, config, pieces, lengths):
    """A single token after a text has the same output as at the end of the full text."""
    return read(build(answer.Mamba, config), config, pieces)


def test_two_texts(answer, build, config, two_texts):
    """The past is stored only in the state, so calls can alternate between texts."""
    layer = build(answer.Mamba, config)
    states = [fresh(config, chunks[0]) for chunks in two_texts]
    observed = {}
    for index, pair in enumerate(zip(*two_texts, strict=True), 1):
        for name, chunk, state in zip(("one", "other"), pair, states, strict=True):
            observed[f"chunk {index} of the {name} text"] = layer(chunk, state)
    return observed | {"without a state": layer(two_texts[0][0])}


# --- The layer, watertight ------------------------------------------------------------------------


@pytest.mark.watertight(EDGES)
@pytest.mark.parametrize(
    "edge", ["B=1", "T=1", "d_model=1", "d_state=1", "d_conv=1", "expand=1", "dt_rank=1"]
)
def test_layer_at_the_edge(answer, build, layer_at_the_edge, edge):
    """The result is right for one row, one token, or a layer with a size of 1."""
    config, x = layer_at_the_edge["config"], layer_at_the_edge["x"]
    return read(build(answer.Mamba, config), config, [x, x])


@pytest.mark.watertight(HISTORY)
@pytest.mark.parametrize("lengths", ["6 5"])
def test_no_history(answer, build, config, pieces, lengths):
    """The state has no computation graph: gradients do not flow from one chunk into an earlier one."""
    layer, state = build(answer.Mamba, config), fresh(config, pieces[0])
    first = wanting_gradients({"an earlier chunk": pieces[0]})
    layer(first["an earlier chunk"], state)
    backward(layer(pieces[1], state))
    return {"gradients": gradients(layer) | gradients(first)}


@pytest.mark.watertight(OWN)
@pytest.mark.constant("written over", "neither tensor is")
def test_the_state_is_new(answer, build, config, x):
    """The state gets new tensors; the old ones, which may be referenced elsewhere, are unchanged."""
    layer, state = build(answer.Mamba, config), fresh(config, x)
    layer(x, state)
    before = {"window": state.window, "h": state.h}
    copies = {name: tensor.clone() for name, tensor in before.items()}
    layer(x.flip(1), state)
    changed = [
        f"{name} before" for name, tensor in before.items() if not tensor.equal(copies[name])
    ]
    return {"window": state.window, "h": state.h, "written over": ", ".join(changed) or "none"}


@pytest.mark.watertight(LOADED)
def test_state_dict(answer, build, config, x):
    """The state dict holds the nine tensors and nothing else, before a call and after it."""
    layer = build(answer.Mamba, config)
    layer(x, fresh(config, x))
    return dict(layer.state_dict())


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_dtype(answer, build, config, layer_of_dtype, dtype):
    """The output has the dtype of the layer and the tokens, even with a float32 state."""
    layer = build(answer.Mamba, config, dtype=dtype)
    observed = read(layer, config, layer_of_dtype)
    return {name: value for name, value in observed.items() if name.startswith("output")}


@pytest.mark.watertight(WIDE)
@pytest.mark.parametrize("dtype", ["bfloat16"])
@pytest.mark.constant("dtype of h", "it is float32")
def test_h_is_float32_at_least(answer, build, config, layer_of_dtype, dtype):
    """In half precision, the state is still stored in float32."""
    text = layer_of_dtype[0]
    layer, state = build(answer.Mamba, config, dtype=dtype), fresh(config, text)
    output = layer(text, state)
    return {"dtype of h": str(state.h.dtype), "output": output}
