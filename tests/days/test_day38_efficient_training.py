"""Day 38 · clip_gradients(parameters, max_norm), LossScaler, checkpoint(function, *inputs), train_step(…)."""

import itertools
import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course.checks.authoring import DTYPES, FLOAT64, HALVES, backward, gradients, wanting_gradients

IGNORED = -100
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
DATA = pytest.mark.watertight("the first layer of a model, whose inputs are data")
LITTLE, PLENTY = 0.5, 70.0  # norms that gradients exceed, and never reach


# --- Parameters, and what their gradients are -----------------------------------------------------


def holding(pieces, times=1.0):
    """Parameters of 0 with so many times these gradients, by name."""
    parameters = {name: nn.Parameter(torch.zeros_like(tensor)) for name, tensor in pieces.items()}
    for name, tensor in pieces.items():
        parameters[name].grad = times * tensor
    return parameters


def clipped(clip_gradients, parameters, max_norm):
    """The gradients that are left, and the norm that is returned."""
    norm = clip_gradients(list(parameters.values()), max_norm)
    return {"gradients": gradients(parameters), "norm": norm}


def apart(parameters):
    """An optimizer with two groups and a memory."""
    first, *rest = parameters.values()
    groups = [{"params": [first]}, {"params": rest, "lr": 0.25}]
    return torch.optim.SGD(groups, lr=0.5, momentum=0.75)


def asking(start):
    """Parameters that start at these numbers."""
    return {name: nn.Parameter(tensor.clone()) for name, tensor in start.items()}


def go(scaler, parameters, optimizer, slopes, explicitly=False):
    """One step, of a loss whose gradients are these slopes."""
    optimizer.zero_grad()
    loss = sum((parameters[name] * tensor).sum() for name, tensor in slopes.items())
    scaler.scale(loss).backward()
    if explicitly:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


def numbers(parameters):
    """What they are now."""
    return {name: tensor.detach() for name, tensor in parameters.items()}


def stepped(scaler, start, steps, explicitly=False):
    """Where parameters are after these steps, and the scale after each."""
    parameters = asking(start)
    optimizer = apart(parameters)
    scales = [go(scaler, parameters, optimizer, slopes, explicitly) for slopes in steps]
    return {"parameters": numbers(parameters), "scales": start["bias"].new_tensor(scales)}


# --- Functions to compute again -------------------------------------------------------------------


class Part(nn.Module):
    """Two layers that count their calls, and note what was dropped between them and in which dtype."""

    def __init__(self, d, hidden, p=0.0):
        super().__init__()
        self.one, self.two = nn.Linear(d, hidden), nn.Linear(hidden, d)
        self.dropout = nn.Dropout(p)
        self.calls, self.zeros, self.dtypes = 0, [], []

    def forward(self, x, times=None, word="", gate=None):
        self.calls += 1
        hidden = self.one(x)
        self.dtypes.append(str(hidden.dtype).removeprefix("torch."))
        hidden = self.dropout(hidden.tanh())
        self.zeros.append(hidden.detach() == 0)
        hidden = hidden if times is None else hidden * times
        hidden = hidden if word != "twice" else hidden + hidden
        return self.two(hidden if gate is None else hidden * gate)


def alike(tensor, other):
    """The share of entries that agree."""
    return (tensor == other).double().mean().item()


def both(x, y):
    """Two results, of each of which both inputs are a part."""
    return x.sin() * y, x * y.exp()


TUPLES = {"and indices": lambda x: (x.sin() * x, x.argsort()), "alone": lambda x: (x.sin() * x,)}


class Saving:
    """Counts the real numbers that autograd saves, other than those that are there anyway."""

    def __init__(self, *tensors):
        self.storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        self.count = 0

    def note(self, tensor):
        if tensor.is_floating_point() and tensor.untyped_storage().data_ptr() not in self.storages:
            self.count += tensor.numel()
        return tensor

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.note, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *how):
        self.hooks.__exit__(*how)


def random_state(device):
    """Where the device's random numbers come from next."""
    return torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()


# --- A model, a loss, a scaler --------------------------------------------------------------------


class Speaker(nn.Module):
    """From vectors to logits; notes in which dtype, and whether it is in training mode."""

    def __init__(self, d, vocab):
        super().__init__()
        self.one, self.two = nn.Linear(d, 5), nn.Linear(5, vocab)
        self.dtypes, self.modes = [], []

    def forward(self, x):
        logits = self.two(self.one(x).tanh())
        self.dtypes.append(str(logits.dtype).removeprefix("torch."))
        self.modes.append(self.training)
        return logits


def summed(logits, targets):
    """The loss of all targets that are some, added up."""
    return F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")


class Witness:
    """The same loss, perhaps much smaller, which notes what it is given."""

    def __init__(self, times=1.0):
        self.times, self.logits, self.targets, self.dtypes = times, [], [], []

    def __call__(self, logits, targets):
        self.logits.append(logits.detach())
        self.targets.append(targets)
        self.dtypes.append(str(logits.dtype).removeprefix("torch."))
        return self.times * summed(logits, targets)


class FixedScale:
    """A scaler whose scale stays, and which notes how it is called. It may refuse to step."""

    def __init__(self, factor, refuses=False):
        self.factor, self.refuses, self.calls = factor, refuses, []

    def scale(self, loss):
        self.calls.append("scale")
        return loss * self.factor

    def unscale_(self, optimizer):
        self.calls.append("unscale_")
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    tensor.grad.div_(self.factor)

    def step(self, optimizer):
        self.calls.append("step")
        if not self.refuses:
            optimizer.step()

    def update(self):
        self.calls.append("update")

    @property
    def order(self):
        """Its calls, those in a row of the same method as one."""
        return [name for name, _ in itertools.groupby(self.calls)]


def plain(model, lr=0.5, **options):
    """An optimizer whose step is the gradient's."""
    return torch.optim.SGD(model.parameters(), lr, **options)


def trained(train_step, model, batches, scaler, max_norm=PLENTY, loss=summed, **how):
    """What a step returns, and where it leaves the parameters."""
    result = train_step(model, batches, loss, plain(model), scaler, max_norm, **how)
    return {**told(result, model), "parameters": numbers(dict(model.named_parameters()))}


def told(result, model):
    """What was returned by name, in the model's dtype: a float's further digits are only its rounding."""
    if not isinstance(result, tuple) or len(result) != 2:
        return {"result": result}
    weight = next(model.parameters())
    mean, norm = (
        weight.new_tensor(number) if isinstance(number, float) else number for number in result
    )
    return {"mean loss": mean, "norm": norm}


# --- Inputs ---------------------------------------------------------------------------------------


def some_pieces(draw, **how):
    """Gradients of three shapes."""
    a, b, c = draw.sizes(3, 8, 3)
    return {
        "weight": draw.normal(a, b, **how),
        "bias": draw.normal(a, **how),
        "table": draw.normal(1, c, 2, **how),
    }


@pytest.fixture
def pieces(draw):
    """Gradients with a norm of some units."""
    return some_pieces(draw)


@pytest.fixture
def large(draw, dtype):
    """Gradients of some 10⁴, whose squares no half can hold, nor their norm float16."""
    return some_pieces(draw, scale=6e3, mean=1e4, dtype=dtype)


@pytest.fixture
def init(draw):
    """A scale to start with, a power of two."""
    return 2.0 ** draw.size(4, 9)


@pytest.fixture
def interval(draw):
    """How many good steps it takes."""
    return draw.size(2, 4)


@pytest.fixture
def a_loss(draw, dtype):
    """A loss, 0-d."""
    return draw.normal(mean=3.0, dtype=dtype)


@pytest.fixture
def slopes(draw, pieces):
    """The gradients of each of several steps, those of the start's shapes."""
    return [
        {name: draw.normal(*tensor.shape) for name, tensor in pieces.items()} for _ in range(12)
    ]


@pytest.fixture
def bad(draw, slopes):
    """Three steps: a good one, one in which a single number is none, another good one; for each kind."""
    return {kind: spoil(draw, slopes[:3], {1}, value) for kind, value in NOT_FINITE.items()}


@pytest.fixture
def story(draw, slopes, interval):
    """Good steps, but not enough; a bad one; more good ones than enough; two bad ones; a good one."""
    good = interval - 1
    return spoil(draw, slopes[: 2 * interval + 4], {good, 2 * interval + 1, 2 * interval + 2})


def spoil(draw, slopes, which, value=math.inf):
    """The same slopes, of which some have a number that is none."""
    slopes = [{name: tensor.clone() for name, tensor in step.items()} for step in slopes]
    for index in which:
        numbers = slopes[index][draw.choice(sorted(slopes[index]))].view(-1)
        numbers[draw.size(0, len(numbers) - 1)] = value
    return slopes


@pytest.fixture
def sizes(draw):
    """Of a part: rows, width, hidden width."""
    rows, d, hidden = draw.sizes(3, 8, 3)
    return {"rows": rows, "d": d, "hidden": hidden}


@pytest.fixture
def x(draw, sizes):
    """What goes into a part."""
    return draw.normal(sizes["rows"], sizes["d"])


@pytest.fixture
def gate(draw, sizes):
    """Another input of it."""
    return draw.normal(sizes["hidden"])


@pytest.fixture
def times(draw):
    """A number that goes in."""
    return float(draw.uniform(1.5, 3.0))


@pytest.fixture
def two(draw):
    """Two inputs of one shape."""
    a, b = draw.sizes(2, 7, 2)
    return {"x": draw.normal(a, b), "y": draw.normal(a, b)}


@pytest.fixture
def many(draw):
    """Enough numbers that no two draws of half of them agree by accident."""
    return draw.normal(draw.size(90, 150), draw.size(3, 6), mean=4.0)


def a_group(draw, count, d, vocab, ignored):
    """Batches of unlike sizes; in some, targets that are none."""
    batches = []
    for rows, t in (draw.sizes(2, 6, 2) for _ in range(count)):
        targets = draw.integers(0, vocab - 1, rows, t)
        if ignored:
            targets[draw.mask(rows, t, keep=0.5)] = IGNORED
            targets[0, draw.size(0, t - 1)] = draw.size(0, vocab - 1)
        batches.append((draw.normal(rows, t, d), targets))
    return batches


@pytest.fixture
def widths(draw):
    """Of a speaker: width, vocabulary."""
    return draw.sizes(3, 9, 2)


@pytest.fixture
def batch(draw, widths):
    """A group of one batch."""
    return a_group(draw, 1, *widths, ignored=False)


@pytest.fixture
def group(draw, widths):
    """Three batches, of unlike sizes and gaps."""
    return a_group(draw, 3, *widths, ignored=True)


@pytest.fixture
def broken(draw, widths):
    """A group with an infinite number in it."""
    group = a_group(draw, 2, *widths, ignored=False)
    group[draw.size(0, 1)][0][0, 0, draw.size(0, widths[0] - 1)] = math.inf
    return group


@pytest.fixture
def factor(draw):
    """A fixed scale."""
    return 2.0 ** draw.size(3, 6)


# --- clip_gradients -------------------------------------------------------------------------------


def test_norm(answer, pieces):
    """The result is the norm of all gradients together, before clipping, as a 0-d tensor."""
    return {"norm": answer.clip_gradients(list(holding(pieces).values()), LITTLE)}


@pytest.mark.parametrize("max_norm", [LITTLE, PLENTY, math.inf])
def test_length(answer, pieces, max_norm):
    """A gradient that is too long is scaled to the allowed length, with one factor for all parts; a
    short gradient does not change."""
    return clipped(answer.clip_gradients, holding(pieces), max_norm)


def test_without_a_gradient(answer, pieces):
    """Parameters without a gradient are left out, and get no gradient."""
    parameters = holding(pieces)
    parameters["bias"].grad = None
    return clipped(answer.clip_gradients, parameters, LITTLE)


def test_generator(answer, pieces):
    """Parameters may come from a generator, which can be read only once."""
    parameters = holding(pieces)
    norm = answer.clip_gradients((tensor for tensor in parameters.values()), LITTLE)
    return {"norm": norm, "gradients": gradients(parameters)}


@pytest.mark.watertight("gradients so short that the 10⁻⁶ of the formula counts")
def test_tiny_gradients(answer, pieces):
    """10⁻⁶ is added to the norm before the division."""
    parameters = holding(pieces, times=8e-8)
    answer.clip_gradients(list(parameters.values()), 1e-7)
    return {"gradients": gradients(parameters)}


@pytest.mark.watertight("gradients that are infinite or NaN, as torch treats them")
@pytest.mark.parametrize("wrong", list(NOT_FINITE))
def test_not_finite(answer, bad, wrong):
    """The formula also applies to norms that are not finite: an infinite norm turns finite gradients
    into 0."""
    parameters = holding(bad[wrong][1])
    answer.clip_gradients(list(parameters.values()), LITTLE)
    return {"gradients": gradients(parameters)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_gradients(answer, large, dtype):
    """Norm and factor are computed at least in float32, and each gradient keeps its dtype."""
    return clipped(answer.clip_gradients, holding(large), 0.00125)


@pytest.mark.watertight("a model with some parts in a different precision")
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.constant("dtype of the norm", "it is the widest, float32 at least")
def test_mixed_gradients(answer, pieces, dtype):
    """For gradients in different dtypes, the norm has the widest dtype, and each gradient keeps its own."""
    parameters = holding(pieces | {"bias": pieces["bias"].to(getattr(torch, dtype))})
    results = clipped(answer.clip_gradients, parameters, LITTLE)
    norm = results.pop("norm")
    return {
        "dtype of the norm": str(norm.dtype).removeprefix("torch."),
        "norm": norm.float(),
    } | results


@pytest.mark.watertight("a limit of 0, which is easily taken for no limit")
@pytest.mark.constant("largest gradient", "nothing is left")
def test_nothing_allowed(answer, pieces):
    """With a `max_norm` of 0, all gradients become 0, and the norm before clipping is returned."""
    parameters = holding(pieces)
    norm = answer.clip_gradients(list(parameters.values()), 0.0)
    largest = max(float(tensor.abs().max()) for tensor in gradients(parameters).values())
    return {"norm": norm, "largest gradient": largest}


@pytest.mark.watertight("a model in which nothing has a gradient yet")
@pytest.mark.constant("norm", "there is nothing to measure")
def test_nothing_to_clip(answer, pieces):
    """Without any gradient, the norm is 0."""
    parameters = asking(pieces)
    norm = answer.clip_gradients(list(parameters.values()), LITTLE)
    return {"norm": norm, "parameters": numbers(parameters)}


# --- LossScaler -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", FLOAT64])
def test_scale(answer, a_loss, init, dtype):
    """The loss is multiplied by the scale."""
    return {"scaled loss": answer.LossScaler(init).scale(a_loss)}


@pytest.mark.parametrize("dtype", ["float32", *HALVES[:1]])
def test_usual_scale(answer, a_loss, dtype):
    """The initial scale is 65536 by default; a float16 loss, which cannot represent this number, is
    upcast."""
    return {"scaled loss": answer.LossScaler().scale(a_loss)}


@pytest.mark.watertight("a gradient that is inspected after a skipped step")
def test_unscale_what_is_not_finite(answer, pieces, bad, init):
    """Gradients are divided even if some of them are infinite."""
    parameters = asking(pieces)
    scaler = answer.LossScaler(init)
    loss = sum((parameters[name] * tensor).sum() for name, tensor in bad["inf"][1].items())
    scaler.scale(loss).backward()
    scaler.unscale_(apart(parameters))
    return {"gradients": gradients(parameters)}


def test_unscale_without_a_gradient(answer, pieces, slopes, init):
    """Parameters without a gradient are skipped."""
    slope = {name: tensor for name, tensor in slopes[0].items() if name != "bias"}
    return stepped(answer.LossScaler(init), pieces, [slope])


@pytest.mark.parametrize("unscaled", ["by step", "before step"])
def test_good_step(answer, pieces, slopes, init, unscaled):
    """The optimizer steps with gradients that were unscaled exactly once."""
    return stepped(answer.LossScaler(init), pieces, slopes[:1], unscaled == "before step")


@pytest.mark.parametrize("unscaled", ["by step", "before step"])
@pytest.mark.parametrize("wrong", list(NOT_FINITE))
def test_bad_step(answer, pieces, bad, init, wrong, unscaled):
    """If any gradient is not finite, the optimizer does not step, and the scale is halved; the next
    step is normal again."""
    return stepped(answer.LossScaler(init), pieces, bad[wrong], unscaled == "before step")


def test_growth(answer, pieces, slopes, init, interval):
    """After enough good steps, the scale doubles, and the count restarts."""
    scaler = answer.LossScaler(init, growth_interval=interval)
    return {"scales": stepped(scaler, pieces, slopes[: 2 * interval + 1])["scales"]}


def test_a_bad_step_interrupts(answer, pieces, story, init, interval):
    """Only good steps in a row count: a bad step restarts the count."""
    return stepped(answer.LossScaler(init, growth_interval=interval), pieces, story)


@pytest.mark.watertight("scales below 1 and above the first one")
@pytest.mark.constant("scales below 1", "scales above the first", "the scale has no bounds")
def test_no_bounds(answer, pieces, slopes, bad):
    """The scale can fall below 1 and rise above 65536."""
    low = stepped(answer.LossScaler(1.0), pieces, 2 * bad["inf"][1:2])
    high = stepped(answer.LossScaler(growth_interval=1), pieces, slopes[:2])
    scales = {"scales below 1": low["scales"], "scales above the first": high["scales"]}
    return scales | {"parameters": high["parameters"]}


@pytest.mark.watertight("gradients that the caller changes after they were unscaled")
def test_what_unscale_has_seen(answer, pieces, bad, init):
    """Only what `unscale_` found decides about the step, whatever happens to the gradients afterward."""
    parameters = asking(pieces)
    scaler, optimizer = answer.LossScaler(init), apart(parameters)
    loss = sum((parameters[name] * tensor).sum() for name, tensor in bad["inf"][1].items())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for tensor in parameters.values():
        tensor.grad.nan_to_num_(1.0, 1.0, 1.0)
    scaler.step(optimizer)
    scaler.update()
    return {"parameters": numbers(parameters), "scale afterwards": scaler.get_scale()}


# --- checkpoint -----------------------------------------------------------------------------------


def test_output(answer, build, sizes, x):
    """`checkpoint` returns what the function returns."""
    return {"output": answer.checkpoint(build(Part, sizes["d"], sizes["hidden"]), x)}


def test_gradients_of_inputs(answer, two):
    """Inputs get the same gradients as without a checkpoint."""
    inputs = wanting_gradients(two)
    backward(answer.checkpoint(lambda x, y: x.sin() * y.exp(), *inputs.values()))
    return {"gradients": gradients(inputs)}


def test_no_input_wants_a_gradient(answer, build, sizes, x):
    """Parameters get their gradients even if no input requires a gradient."""
    part = build(Part, sizes["d"], sizes["hidden"])
    backward(answer.checkpoint(part, x))
    return {"gradients": gradients(part), "gradient of x": x.grad}


@pytest.mark.constant("calls", "one for each pass")
def test_calls(answer, build, sizes, x):
    """The function is called once in the forward pass, and once more in the backward pass."""
    part, x = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(x)
    output = answer.checkpoint(part, x)
    forward = part.calls
    backward(output)
    calls = {"forward": forward, "backward": part.calls - forward}
    return {"calls": f"{calls['forward']} forward, {calls['backward']} backward", "output": output}


@pytest.mark.constant("numbers kept beside the inputs", "none")
def test_nothing_is_kept(answer, build, sizes, x):
    """Only the inputs are stored for the backward pass, no intermediate values."""
    part, x = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(x)
    with Saving(x, *part.parameters()) as saving:
        output = answer.checkpoint(part, x)
    return {"numbers kept beside the inputs": saving.count, "output": output}


def test_one_after_the_other(answer, build, sizes, x):
    """Checkpoints can be stacked, as in a stack of layers."""
    parts = [build(Part, sizes["d"], sizes["hidden"]) for _ in range(2)]
    x = wanting_gradients(x)
    backward(answer.checkpoint(parts[1], answer.checkpoint(parts[0], x).tanh()))
    by_part = {f"part {i}": gradients(part) for i, part in enumerate(parts)}
    return {"gradients": {"x": x.grad, **by_part}}


@pytest.mark.parametrize("inputs", ["activations", pytest.param("data", marks=DATA)])
@pytest.mark.constant("share dropped alike", "all of it")
def test_dropout(answer, many, inputs):
    """The second call uses the same dropout masks as the first, even if no input requires a gradient."""
    part, x = Part(many.size(1), 7, p=0.5).to(many), many
    output = answer.checkpoint(part, x if inputs == "data" else wanting_gradients(x))
    torch.rand_like(x)  # somebody else draws, too
    backward(output)
    same = alike(*part.zeros) if len(part.zeros) == 2 else f"{len(part.zeros)} calls"
    return {"share dropped alike": same, "numbers": x.numel()}


@pytest.mark.constant("share of the random state that was put back", "all of it")
def test_random_state_afterwards(answer, many, device):
    """After the backward pass, random numbers continue as if nothing had been recomputed."""
    x = wanting_gradients(many)
    output = answer.checkpoint(nn.Dropout(0.5), x)
    torch.rand_like(x)
    before = random_state(device)
    backward(output)
    share = alike(random_state(device), before)
    return {"share of the random state that was put back": share, "n": x.numel()}


@pytest.mark.constant("share of the random state as after a plain call", "all of it")
def test_random_state_after_the_first_call(answer, many, device):
    """The first call advances the random state, so that the next call draws different numbers."""
    before = random_state(device)
    nn.Dropout(0.5)(many)
    plainly = random_state(device)
    if device == "cuda":
        torch.cuda.set_rng_state(before)
    else:
        torch.set_rng_state(before)
    answer.checkpoint(nn.Dropout(0.5), wanting_gradients(many))
    share = alike(random_state(device), plainly)
    return {"share of the random state as after a plain call": share, "n": many.numel()}


@pytest.mark.real_devices("the autocast that is asked for is that of the CPU and of CUDA")
@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.constant("dtypes", "both are the first call's")
def test_autocast(answer, build, sizes, x, device, where):
    """The second call uses the autocast settings of the first, not those at the call of `backward`."""
    part, x = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(x)
    half = torch.autocast(device, torch.float16)
    with half if where == "forward" else nullcontext():
        output = answer.checkpoint(part, x)
    with half if where == "backward" else nullcontext():
        backward(output)
    return {"dtypes": ", then ".join(part.dtypes), "gradients": {"x": x.grad} | gradients(part)}


@pytest.mark.constant("calls", "asks for a gradient", "there is nothing to differentiate")
def test_without_gradients(answer, build, sizes, x):
    """If gradients are disabled, the function is simply called."""
    part, x = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(x)
    with torch.no_grad():
        output = answer.checkpoint(part, x)
    asks = "yes" if output.requires_grad else "no"
    return {"output": output, "asks for a gradient": asks, "calls": part.calls}


def test_inputs_of_all_kinds(answer, build, sizes, x, times, gate):
    """Numbers, strings, None and tensors without a gradient are passed on unchanged."""
    part, gate = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(gate)
    output = answer.checkpoint(part, x, times, "twice", gate)
    without = answer.checkpoint(part, x, None, "once")
    backward(output, without)
    named_gradients = {"gate": gate.grad, "x": x.grad} | gradients(part)
    return {"output": output, "output with None": without, "gradients": named_gradients}


@pytest.mark.parametrize("used", ["both", "first", "second"])
def test_two_outputs(answer, two, used):
    """A tuple is returned as a tuple, and its parts do not all have to be in the loss."""
    inputs = wanting_gradients(two)
    outputs = answer.checkpoint(both, *inputs.values())
    if isinstance(outputs, tuple | list):
        backward(*{"both": outputs, "first": outputs[:1], "second": outputs[1:]}[used])
    return {"outputs": outputs, "gradients": gradients(inputs)}


@pytest.mark.watertight("a floating-point result next to an integer one, or alone in a tuple")
@pytest.mark.parametrize("outputs", list(TUPLES))
def test_outputs_in_a_tuple(answer, two, outputs):
    """A tuple of one is returned as such; outputs that are not floating-point numbers pass through
    without gradients."""
    x = wanting_gradients(two["x"])
    results = answer.checkpoint(TUPLES[outputs], x)
    backward(results[0])
    return {"outputs": results, "gradient of x": x.grad}


@pytest.mark.watertight("a graph that is kept for a second backward pass")
@pytest.mark.constant("calls", "one for each pass")
def test_second_backward(answer, build, sizes, x):
    """A second backward pass through the same graph recomputes, and adds the same gradients again."""
    part, x = build(Part, sizes["d"], sizes["hidden"]), wanting_gradients(x)
    total = answer.checkpoint(part, x).square().sum()
    total.backward(retain_graph=True)
    total.backward()
    return {"calls": part.calls, "gradients": {"x": x.grad} | gradients(part)}


# --- train_step -----------------------------------------------------------------------------------


@pytest.mark.constant("kinds of the results", "floats, whatever is in them")
def test_results(answer, build, widths, batch, factor):
    """The result is the mean loss of all targets and the norm of its gradient, as two floats."""
    model = build(Speaker, *widths)
    result = answer.train_step(model, batch, summed, plain(model), FixedScale(factor), PLENTY)
    kinds = (
        " and ".join(type(number).__name__ for number in result)
        if type(result) is tuple
        else "none"
    )
    return {**told(result, model), "kinds of the results": kinds}


@pytest.mark.parametrize("given", ["one with gaps", "three", "a generator"])
def test_batches(answer, build, widths, group, factor, given):
    """Several batches have the same result as one batch of all their rows; targets of −100 do not count."""
    batches = {"one with gaps": group[:1], "three": group, "a generator": iter(group)}[given]
    return trained(answer.train_step, build(Speaker, *widths), batches, FixedScale(factor))


def test_what_the_loss_is_given(answer, build, widths, group, factor):
    """The loss gets logits `(N, V)` and targets `(N,)`."""
    loss = Witness()
    trained(answer.train_step, build(Speaker, *widths), group, FixedScale(factor), loss=loss)
    return {"logits": loss.logits, "targets": loss.targets}


def test_clipping(answer, build, widths, group, factor):
    """The unscaled gradient of the entire group is clipped, and the norm before clipping is returned."""
    return trained(answer.train_step, build(Speaker, *widths), group, FixedScale(factor), 0.03)


@pytest.mark.constant("order of the scaler's calls", "whatever is trained")
def test_order(answer, build, widths, group, factor):
    """The scaler scales, unscales, steps and is updated in this order, once for each group."""
    scaler = FixedScale(factor)
    results = trained(answer.train_step, build(Speaker, *widths), group, scaler)
    return {"order of the scaler's calls": ", ".join(scaler.order)} | results


def test_the_scaler_decides(answer, build, widths, batch, factor):
    """The scaler decides whether the optimizer steps."""
    scaler = FixedScale(factor, refuses=True)
    return trained(answer.train_step, build(Speaker, *widths), batch, scaler)


def test_gradients_from_before(answer, build, widths, batch, factor):
    """Gradients from before the call do not influence the step."""
    model = build(Speaker, *widths)
    for tensor in model.parameters():
        tensor.grad = tensor.detach().clone()
    return trained(answer.train_step, model, batch, FixedScale(factor))


@pytest.mark.constant("parameters with a gradient left", "none")
def test_no_gradient_is_left(answer, build, widths, batch, factor):
    """After the call, there are no gradients."""
    model = build(Speaker, *widths)
    results = trained(answer.train_step, model, batch, FixedScale(factor))
    remaining = sum(
        tensor.grad is not None and bool(tensor.grad.any()) for tensor in model.parameters()
    )
    return {"parameters with a gradient left": remaining} | results


@pytest.mark.parametrize("half", ["none", "bfloat16", "float16"])
@pytest.mark.constant("the model's logits are in", "the loss is given", "the dtype asked for")
def test_mixed_precision(answer, build, widths, group, factor, half):
    """The model computes in the given dtype; the loss gets float32."""
    model, loss, dtype = build(Speaker, *widths), Witness(), getattr(torch, half, None)
    scaler = FixedScale(factor)
    results = trained(answer.train_step, model, group, scaler, loss=loss, dtype=dtype)
    return {
        "the model's logits are in": ", ".join(sorted(set(model.dtypes))),
        "the loss is given": ", ".join(sorted(set(loss.dtypes))),
        **results,
    }


def test_small_gradients_survive(answer, build, widths, batch):
    """Gradients that are too small for float16 are not lost, thanks to the scale."""
    model, how = build(Speaker, *widths), {"loss": Witness(times=2.0**-22), "dtype": torch.float16}
    results = trained(answer.train_step, model, batch, FixedScale(2.0**16), **how)
    return {"norm": results.get("norm", results)}


@pytest.mark.watertight("a step that was skipped, which only the norm shows")
@pytest.mark.constant("the norm is finite", "the scaler's calls", "it is not, and all are made")
def test_norm_of_a_skipped_step(answer, build, widths, broken, factor):
    """The norm of a skipped step is infinite or NaN, and the scaler is used as in every step."""
    model, scaler = build(Speaker, *widths), FixedScale(factor, refuses=True)
    _, norm = answer.train_step(model, broken, summed, plain(model), scaler, PLENTY)
    return {
        "the norm is finite": math.isfinite(norm),
        "the scaler's calls": ", ".join(scaler.order),
        "parameters": numbers(dict(model.named_parameters())),
    }


@pytest.mark.watertight("a loss within autocast, where its own products would be in half precision")
@pytest.mark.constant("autocast within the loss", "there is none")
def test_loss_outside_autocast(answer, build, widths, group, factor, device):
    """The loss is computed outside autocast."""
    model, within = build(Speaker, *widths), []

    def loss(logits, targets):
        within.append(torch.is_autocast_enabled(device))
        return summed(logits, targets)

    how = {"loss": loss, "dtype": torch.bfloat16}
    results = trained(answer.train_step, model, group, FixedScale(factor), **how)
    return {"autocast within the loss": any(within)} | results


@pytest.mark.parametrize("mode", ["training", "evaluation"])
@pytest.mark.watertight("a model trained in evaluation mode, such as one with frozen statistics")
@pytest.mark.constant("modes", "as the caller has set them")
def test_mode(answer, build, widths, batch, factor, mode):
    """The model's mode does not change, during the step or after it."""
    model = build(Speaker, *widths).train(mode == "training")
    results = trained(answer.train_step, model, batch, FixedScale(factor))
    return {"modes": str([*model.modes, model.training])} | results


@pytest.mark.parametrize("dtype", [FLOAT64])
def test_float64(answer, build, widths, group, factor, dtype):
    """A model in float64 is trained in float64."""
    model, loss = build(Speaker, *widths, dtype=dtype), Witness()
    doubled = [(x.double(), targets) for x, targets in group]
    return trained(answer.train_step, model, doubled, FixedScale(factor), loss=loss)
