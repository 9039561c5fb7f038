"""Day 16 · LabelSmoothing(size, padding_idx, smoothing=0.0)."""

import pytest
import torch

from course.checks.authoring import HALVES, backward, gradients, wanting_gradients


def options(draw, size, **given):
    """What the loss is made with: the padding anywhere but at 0, where it is usually looked for."""
    settings = {"padding_idx": draw.size(1, size - 1), "smoothing": float(draw.uniform(0.1, 0.4))}
    return {"size": size} | settings | given


def batch(draw, rows, size, padding_idx, scale=1.5, dtype="float32", **_):
    """Log-probabilities of every class, and the right class of each row, which is never the padding."""
    logits = draw.normal(rows, size, scale=scale, dtype="float64")
    wrong = draw.integers(0, size - 2, rows)
    return {
        "log_probs": logits.log_softmax(-1).to(getattr(torch, dtype)),
        "target": wrong + (wrong >= padding_idx),
    }


def padded(inputs, padding_idx, every):
    """The same batch with padding as the target of every second row, third row …"""
    target = inputs["target"].clone()
    target[::every] = padding_idx
    return inputs | {"target": target}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def made(draw):
    """How the loss is made."""
    return options(draw, draw.size(5, 7))


@pytest.fixture
def rows(draw, made):
    """Rows that are all real, fewer or more than there are classes."""
    return batch(draw, draw.choice([3, 4, 8, 9]), **made)


@pytest.fixture
def some_padding(draw, made):
    """Rows of which some are padding, and some have the class 0 as their target."""
    inputs = padded(batch(draw, draw.choice([4, 8, 9]), **made), made["padding_idx"], 3)
    inputs["target"][1] = 0
    return inputs


@pytest.fixture
def only_padding(draw, made):
    """Rows that are all padding."""
    return padded(batch(draw, draw.choice([3, 4, 8, 9]), **made), made["padding_idx"], 1)


@pytest.fixture
def next_rows(draw, made):
    """Another batch, of a different length."""
    return padded(batch(draw, draw.choice([2, 10]), **made), made["padding_idx"], 2)


@pytest.fixture
def certain(draw, made):
    """The model is all but certain, and usually wrong: exp of its log-probabilities is often 0."""
    return batch(draw, draw.choice([4, 8, 9]), **made, scale=400.0)


@pytest.fixture
def made_at(draw, place):
    """The padding is the first class, the last, or one between."""
    size = draw.size(5, 7)
    index = {"first": 0, "last": size - 1, "between": draw.size(1, size - 2)}[place]
    return options(draw, size, padding_idx=index)


@pytest.fixture
def rows_at(draw, made_at):
    """Rows for it, some of them padding."""
    return padded(batch(draw, draw.choice([4, 8, 9]), **made_at), made_at["padding_idx"], 3)


@pytest.fixture
def of_three(draw):
    """The fewest classes that there can be: the right one, the padding, and one more."""
    return options(draw, 3)


@pytest.fixture
def rows_of_three(draw, of_three):
    """Rows for it, some of them padding."""
    return padded(batch(draw, draw.size(5, 8), **of_three), of_three["padding_idx"], 3)


@pytest.fixture
def one_row(draw, made):
    """A batch of one row."""
    return batch(draw, 1, **made)


@pytest.fixture
def by_columns(draw, made):
    """Tensors that lie in memory otherwise: by columns, and every second number of another."""
    inputs = padded(batch(draw, draw.choice([4, 8, 9]), **made), made["padding_idx"], 3)
    return {
        "log_probs": inputs["log_probs"].t().contiguous().t(),
        "target": inputs["target"].repeat_interleave(2)[::2],
    }


@pytest.fixture
def logits_and_target(draw, made):
    """What comes out of a projection, before it is made log-probabilities; some rows are padding."""
    inputs = padded(batch(draw, draw.choice([4, 8, 9]), **made), made["padding_idx"], 3)
    n, size = inputs["log_probs"].shape
    return {"logits": draw.normal(n, size, scale=1.5), "target": inputs["target"]}


@pytest.fixture
def of_dtype(draw, made, dtype):
    """Log-probabilities of this dtype, some rows padding."""
    rows = batch(draw, draw.choice([4, 8, 9]), **made, dtype=dtype)
    return padded(rows, made["padding_idx"], 3)


@pytest.fixture
def made_large(draw):
    """The paper's ε and a vocabulary nearly as large as its own: a class's share is about 3e-6."""
    steps = draw.size(54, 60) + 0.5  # of float16, which has no half ones
    return options(draw, round(0.1 * 2**24 / steps) + 2, smoothing=0.1)


@pytest.fixture
def large_row(draw, made_large, dtype):
    """A row that is somewhat surer of the right class than it was taught to be."""
    target = draw.integers(0, made_large["padding_idx"] - 1, 1)
    logits = draw.normal(1, made_large["size"], scale=0.5, dtype="float64")
    logits[0, target] += draw.uniform(14.5, 16.0, 1, dtype="float64")
    return {"log_probs": logits.log_softmax(-1).to(getattr(torch, dtype)), "target": target}


# --- Checks ---------------------------------------------------------------------------------------


def test_without_smoothing(answer, build, made, rows):
    """Without smoothing, the loss is the negative log-probability of each correct class, summed."""
    loss = build(answer.LabelSmoothing, made["size"], made["padding_idx"])
    return {"loss": loss(rows["log_probs"], rows["target"])}


def test_label_smoothing(answer, build, made, rows):
    """The correct class gets 1 − ε, and the other classes share ε; the padding gets nothing."""
    loss = build(answer.LabelSmoothing, **made)
    return {"loss": loss(rows["log_probs"], rows["target"])}


def test_rows_of_padding(answer, build, made, some_padding):
    """A row whose target is padding adds nothing to the loss."""
    loss = build(answer.LabelSmoothing, **made)
    return {"loss": loss(some_padding["log_probs"], some_padding["target"])}


def test_rows_of_padding_without_smoothing(answer, build, made, some_padding):
    """A row whose target is padding adds nothing to the loss, with or without smoothing."""
    loss = build(answer.LabelSmoothing, made["size"], made["padding_idx"], 0.0)
    return {"loss": loss(some_padding["log_probs"], some_padding["target"])}


@pytest.mark.parametrize("place", ["first", "last", "between"])
def test_padding_anywhere(answer, build, made_at, rows_at, place):
    """Any class may be the padding, as given by `padding_idx`."""
    loss = build(answer.LabelSmoothing, **made_at)
    return {"loss": loss(rows_at["log_probs"], rows_at["target"])}


@pytest.mark.watertight("the fewest classes that there can be")
def test_three_classes(answer, build, of_three, rows_of_three):
    """With three classes, the class that is neither correct nor padding gets all of ε."""
    loss = build(answer.LabelSmoothing, **of_three)
    return {"loss": loss(rows_of_three["log_probs"], rows_of_three["target"])}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_one_row(answer, build, made, one_row):
    """The batch may have a single row."""
    loss = build(answer.LabelSmoothing, **made)
    return {"loss": loss(one_row["log_probs"], one_row["target"])}


@pytest.mark.watertight("an ε of 1, where 0 · log 0 occurs")
def test_everything_spread(answer, build, made, rows):
    """With ε = 1, the correct class gets nothing, and 0 · log 0 is 0."""
    loss = build(answer.LabelSmoothing, made["size"], made["padding_idx"], 1.0)
    return {"loss": loss(rows["log_probs"], rows["target"])}


@pytest.mark.watertight("log-probabilities of −1000, whose exponential is 0")
def test_certain(answer, build, made, certain):
    """Log-probabilities of −1000 give a finite loss, which does not need the probabilities themselves."""
    loss = build(answer.LabelSmoothing, **made)
    return {"loss": loss(certain["log_probs"], certain["target"])}


@pytest.mark.watertight("tensors with a different memory layout, as after a transposition")
def test_memory_by_columns(answer, build, made, by_columns):
    """Tensors that are not contiguous, as after a transposition, give the same result."""
    loss = build(answer.LabelSmoothing, **made)
    return {"loss": loss(by_columns["log_probs"], by_columns["target"])}


def test_one_batch_after_another(answer, build, made, some_padding, next_rows):
    """Each call returns the sum of its own batch, of any length."""
    loss = build(answer.LabelSmoothing, **made)
    first = loss(some_padding["log_probs"], some_padding["target"])
    return {"first": first, "second": loss(next_rows["log_probs"], next_rows["target"])}


def test_evaluation_mode(answer, build, made, some_padding):
    """The loss is the same in evaluation mode."""
    loss = build(answer.LabelSmoothing, **made).eval()
    return {"loss": loss(some_padding["log_probs"], some_padding["target"])}


# --- Gradients ------------------------------------------------------------------------------------


def test_gradients_of_logits(answer, build, made, logits_and_target):
    """Gradients reach the logits, through the log-softmax."""
    loss = build(answer.LabelSmoothing, **made)
    inputs = wanting_gradients(logits_and_target)
    backward(loss(inputs["logits"].log_softmax(-1), inputs["target"]))
    return {"gradients": gradients(inputs)}


def test_gradients(answer, build, made, some_padding):
    """The gradient of a log-probability is minus the share of its class in the target distribution."""
    loss = build(answer.LabelSmoothing, **made)
    inputs = wanting_gradients(some_padding)
    backward(loss(inputs["log_probs"], inputs["target"]))
    return {"gradients": gradients(inputs)}


@pytest.mark.watertight("batches without a single real target, on which `backward` must not fail")
@pytest.mark.constant("loss", "nothing is counted")
def test_nothing_but_padding(answer, build, made, only_padding):
    """If every target is padding, the loss and all gradients are 0."""
    loss = build(answer.LabelSmoothing, **made)
    inputs = wanting_gradients(only_padding)
    output = loss(inputs["log_probs"], inputs["target"])
    backward(output)
    return {"loss": output, "gradients": gradients(inputs)}


# --- Dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_dtype(answer, build, made, of_dtype, dtype):
    """Loss and gradients have the inputs' dtype; in half precision they are the float32 results,
    rounded."""
    loss = build(answer.LabelSmoothing, **made)
    inputs = wanting_gradients(of_dtype)
    output = loss(inputs["log_probs"], inputs["target"])
    backward(output)
    return {"loss": output, "gradients": gradients(inputs)}


@pytest.mark.watertight("float64, which should not lose half of its digits")
@pytest.mark.parametrize("dtype", ["float64"])
def test_double(answer, build, made, of_dtype, dtype):
    """In float64, the loss is computed in float64."""
    loss = build(answer.LabelSmoothing, **made, dtype=dtype)
    return {"loss": loss(of_dtype["log_probs"], of_dtype["target"])}


@pytest.mark.parametrize("dtype", HALVES[:1])
def test_large_vocabulary(answer, build, made_large, large_row, dtype):
    """A class's share in a vocabulary of 30,000 is too small for float16, but is not rounded to 0."""
    loss = build(answer.LabelSmoothing, **made_large)
    return {"loss": loss(large_row["log_probs"], large_row["target"])}
