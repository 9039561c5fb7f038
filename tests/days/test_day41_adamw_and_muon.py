"""Day 41 · AdamW(params, lr, betas, eps, weight_decay), orthogonalize(matrix, steps), Muon(params, lr, …)."""

import pytest
from torch import nn

from course.checks.authoring import DTYPES, FLOAT64

SHAPES = {"square": (5, 5), "wide": (4, 9), "tall": (9, 4)}
MISSING = ["no gradient", "zeros"]


# --- Optimizers, and where they lead --------------------------------------------------------------


def asking(start):
    """Parameters that start at these numbers."""
    return {name: nn.Parameter(tensor.clone()) for name, tensor in start.items()}


def numbers(parameters):
    """What they are now."""
    return {name: tensor.detach().clone() for name, tensor in parameters.items()}


def go(optimizer, parameters, steps):
    """Where the parameters are after a step along each of these gradients; None is no gradient."""
    for step in steps:
        for name, tensor in parameters.items():
            tensor.grad = None if step[name] is None else step[name].clone()
        optimizer.step()
    return numbers(parameters)


def walked(kind, start, steps, **settings):
    """Where an optimizer of this kind leads, from this start."""
    parameters = asking(start)
    return {"parameters": go(kind(parameters.values(), **settings), parameters, steps)}


def without(steps, name, missing, *places):
    """The same gradients, of which one parameter has none in these steps, or zeros."""
    nothing = None if missing == "no gradient" else 0 * steps[0][name]
    return [step | {name: nothing} if at in places else step for at, step in enumerate(steps)]


def in_groups(kind, start, steps, first, second, **settings):
    """Where it leads with two groups, each with settings of its own."""
    parameters = asking(start)
    tensor, *rest = parameters.values()
    groups = [{"params": [tensor], **first}, {"params": rest, **second}]
    return {"parameters": go(kind(groups, **settings), parameters, steps)}


def rescheduled(kind, start, steps, rates, betas, **settings):
    """Where it leads where each step has a learning rate and betas of its own."""
    parameters = asking(start)
    optimizer = kind(parameters.values(), lr=rates[0], betas=betas, **settings)
    for rate, step in zip(rates, steps, strict=False):
        first, second = betas
        optimizer.param_groups[0] |= {"lr": rate, "betas": (first * (1 - rate / 4), second)}
        go(optimizer, parameters, [step])
    return {"parameters": numbers(parameters)}


def resumed(kind, start, steps, **settings):
    """Where it leads if another optimizer takes over halfway, with the state of the first."""
    half = len(steps) // 2
    parameters = asking(start)
    first = kind(parameters.values(), **settings)
    later = asking(go(first, parameters, steps[:half]))
    second = kind(later.values(), **settings)
    second.load_state_dict(first.state_dict())
    return {"parameters": go(second, later, steps[half:])}


def left_alone(kind, start, steps, **settings):
    """What an old view of each parameter sees, and the gradients after the step."""
    parameters = asking(start)
    views = {name: tensor.detach() for name, tensor in parameters.items()}
    go(kind(iter(parameters.values()), **settings), parameters, steps[:1])
    return {
        "parameters in place": views,
        "gradients": {name: tensor.grad for name, tensor in parameters.items()},
    }


def closed(kind, start, slopes, **settings):
    """What a step with a closure returns, and where it leads."""
    parameters = asking(start)
    optimizer = kind(parameters.values(), **settings)

    def closure():
        loss = sum((tensor * slopes[name]).square().sum() for name, tensor in parameters.items())
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    return {"loss": loss.detach(), "parameters": numbers(parameters)}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def dtype():
    """What numbers are in, unless a check says otherwise."""
    return "float32"


@pytest.fixture
def start(draw, dtype):
    """Where a matrix and a vector start."""
    a, b = draw.sizes(2, 6, 2)
    return {"w": draw.normal(a, b, dtype=dtype), "v": draw.normal(b, dtype=dtype)}


@pytest.fixture
def matrices(draw, dtype):
    """Where a wide and a tall matrix start."""
    a, b, c, d = sorted(draw.sizes(2, 9, 4))
    return {"w": draw.normal(a, c, dtype=dtype), "v": draw.normal(d, b, dtype=dtype)}


def gradients_of(draw, start, dtype):
    """The gradients of each of six steps, those of one parameter a hundred times as small."""
    return [
        {
            name: draw.normal(*tensor.shape, scale=0.01 if name == "v" else 1.0, dtype=dtype)
            for name, tensor in start.items()
        }
        for _ in range(6)
    ]


@pytest.fixture
def steps(draw, start, dtype):
    """The gradients of a matrix and a vector."""
    return gradients_of(draw, start, dtype)


@pytest.fixture
def pushes(draw, matrices, dtype):
    """The gradients of two matrices."""
    return gradients_of(draw, matrices, dtype)


@pytest.fixture
def rates(draw):
    """A learning rate for each step."""
    return [draw.size(2, 40) / 64 for _ in range(6)]


@pytest.fixture
def lr(draw):
    """One learning rate."""
    return draw.size(10, 30) / 64


@pytest.fixture
def betas(draw):
    """Two decay rates that a few steps can tell apart."""
    return draw.size(4, 7) / 8, draw.size(12, 15) / 16


@pytest.fixture
def momentum(draw):
    """How much of the mean a step keeps."""
    return draw.size(4, 7) / 8


@pytest.fixture
def decay(draw):
    """A weight decay that shows."""
    return draw.size(10, 30) / 64


@pytest.fixture
def matrix(draw, shape, dtype):
    """A matrix of one of the shapes, none of whose singular values is tiny."""
    rows, columns = (size + draw.size(0, 3) * (shape != "square") for size in SHAPES[shape])
    return draw.normal(rows, columns, dtype=dtype)


@pytest.fixture
def shape():
    """Which shape, unless a check says otherwise."""
    return "wide"


# --- AdamW ----------------------------------------------------------------------------------------


def test_first_step(answer, start, steps, lr, betas):
    """In the first step, the corrected means reduce to the gradient, divided by its own size."""
    return walked(answer.AdamW, start, steps[:1], lr=lr, betas=betas, weight_decay=0.0)


@pytest.mark.parametrize("dtype", [FLOAT64, "float32"])
def test_later_steps(answer, start, steps, lr, betas, dtype):
    """Two running means are stored from step to step, each corrected for the number of steps."""
    return walked(answer.AdamW, start, steps, lr=lr, betas=betas, weight_decay=0.0)


def test_decay(answer, start, steps, lr, betas, decay):
    """The weights decay by the factor 1 − η·λ directly; the running means do not contain the decay."""
    return walked(answer.AdamW, start, steps[:3], lr=lr, betas=betas, weight_decay=decay)


@pytest.mark.watertight("an ε as large as the gradients")
def test_epsilon(answer, start, steps, lr, betas):
    """ε is added to the root of the corrected second moment."""
    return walked(answer.AdamW, start, steps[:3], lr=lr, betas=betas, eps=0.25, weight_decay=0.0)


@pytest.mark.parametrize("missing", MISSING)
def test_without_a_gradient(answer, start, steps, missing):
    """Without a gradient, a parameter and its count of steps do not change; a gradient of zeros counts.
    All settings have defaults."""
    return walked(answer.AdamW, start, without(steps[:4], "v", missing, 0, 1))


def test_groups(answer, start, steps, rates, betas, decay):
    """Each group has its own settings."""
    first = {"lr": rates[0], "betas": betas, "weight_decay": decay}
    second = {"lr": rates[0] / 8, "eps": 0.125}
    return in_groups(answer.AdamW, start, steps[:3], first, second, weight_decay=0.0)


def test_schedule(answer, start, steps, rates, betas, decay):
    """Each step and its decay use the learning rate and the betas that the group has at that time."""
    return rescheduled(answer.AdamW, start, steps, rates, betas=betas, weight_decay=decay)


def test_resumed(answer, start, steps, lr, betas, decay):
    """An optimizer that loads a saved state continues where the old optimizer stopped."""
    return resumed(answer.AdamW, start, steps, lr=lr, betas=betas, weight_decay=decay)


def test_in_place(answer, start, steps, lr, decay):
    """Parameters are changed in place, and gradients do not change."""
    return left_alone(answer.AdamW, start, steps, lr=lr, weight_decay=decay)


@pytest.mark.watertight("a closure, which few optimizers need")
def test_closure(answer, start, steps, lr):
    """A closure is called with gradients enabled, and its loss is returned."""
    return closed(answer.AdamW, start, steps[0], lr=lr)


# --- orthogonalize --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", list(SHAPES))
def test_shapes(answer, matrix, shape):
    """Square, wide and tall matrices keep their shape and their singular vectors."""
    return {"result": answer.orthogonalize(matrix)}


NO_STEP = pytest.param(0, marks=pytest.mark.watertight("no steps at all"))


@pytest.mark.parametrize("steps", [NO_STEP, 1, 2, 8])
def test_steps(answer, matrix, steps):
    """The polynomial is applied `steps` times; with 0 steps, the result is the matrix divided by its
    norm."""
    return {"result": answer.orthogonalize(matrix, steps)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_precision(answer, matrix, dtype):
    """The result is computed at least in float32, and has the dtype of the matrix."""
    return {"result": answer.orthogonalize(matrix)}


ZERO = pytest.param(0.0, marks=pytest.mark.watertight("a gradient of zeros"))


@pytest.mark.parametrize("factor", [1e-4, 1e4, ZERO])
def test_scale(answer, matrix, factor):
    """The scale of the matrix makes no difference, zeros stay zeros, and the matrix is not changed."""
    given = factor * matrix
    return {"result": answer.orthogonalize(given), "matrix": given}


# --- Muon -----------------------------------------------------------------------------------------


def test_muon_first_step(answer, matrices, pushes, lr, momentum):
    """The first step is the orthogonalized gradient times η and 0.2·√max(m, n); the gradient does not
    change."""
    return left_alone(answer.Muon, matrices, pushes, lr=lr, momentum=momentum, weight_decay=0.0)


@pytest.mark.parametrize("dtype", [FLOAT64, "float32"])
def test_muon_later_steps(answer, matrices, pushes, lr, momentum, dtype):
    """A running mean of the gradients is stored, and each step looks ahead from it."""
    return walked(answer.Muon, matrices, pushes[:4], lr=lr, momentum=momentum, weight_decay=0.0)


def test_muon_decay(answer, matrices, pushes, lr, momentum, decay):
    """The weights decay by the factor 1 − η·λ, without the factor of the shape."""
    settings = {"lr": lr, "momentum": momentum, "weight_decay": decay}
    return walked(answer.Muon, matrices, pushes[:2], **settings)


@pytest.mark.parametrize("missing", MISSING)
def test_muon_without_a_gradient(answer, matrices, pushes, missing):
    """A matrix without a gradient does not change; a gradient of zeros counts. All settings have
    defaults."""
    return walked(answer.Muon, matrices, without(pushes[:4], "v", missing, 0, 2))


def test_muon_groups(answer, matrices, pushes, rates, momentum, decay):
    """Each group has its own settings."""
    first = {"lr": rates[0], "momentum": momentum, "weight_decay": decay}
    second = {"lr": rates[0] / 8, "momentum": momentum / 2}
    return in_groups(answer.Muon, matrices, pushes[:3], first, second, weight_decay=0.0)


@pytest.mark.watertight("a closure, which few optimizers need")
def test_muon_closure(answer, matrices, pushes, lr):
    """A closure is called with gradients enabled, and its loss is returned."""
    return closed(answer.Muon, matrices, pushes[0], lr=lr)


def test_muon_resumed(answer, matrices, pushes, lr, momentum, decay):
    """An optimizer that loads a saved state continues where the old optimizer stopped."""
    settings = {"lr": lr, "momentum": momentum, "weight_decay": decay}
    return resumed(answer.Muon, matrices, pushes, **settings)
