"""Day 18 · run_epoch(batches, model, loss, optimizer=None, scheduler=None, accumulate=1)."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course.checks.authoring import DTYPES, gradients
from implementation import Batch, EncoderDecoder, Generator, LabelSmoothing, make_model

PAD = 0


# --- The smallest model, loss and optimizer -------------------------------------------------------


class Reader(nn.Module):
    """An encoder of one layer that heeds its mask."""

    def __init__(self, d_model):
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        return self.mix(x).tanh() * shown(mask, x).transpose(1, 2)


class Writer(nn.Module):
    """A decoder without weights that heeds both of its masks, and drops."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        past = shown(tgt_mask, x) @ x / x.size(1)
        source = shown(src_mask, memory) @ memory / memory.size(1)
        return self.dropout((past + source).tanh())


def shown(mask, x):
    """A mask as numbers; without one everything is shown."""
    return x.new_ones(1, 1, x.size(1)) if mask is None else mask.to(x.dtype)


def tiny(sizes, dropout=0.0):
    """An encoder-decoder that takes next to no time."""
    vocab, d_model = sizes["vocab"], sizes["d_model"]
    embeddings = nn.Embedding(vocab, d_model), nn.Embedding(vocab, d_model)
    return EncoderDecoder(Reader(d_model), Writer(dropout), *embeddings, Generator(d_model, vocab))


def summed(log_probs, target):
    """The loss of all tokens that are no padding, added up."""
    return F.nll_loss(log_probs, target, ignore_index=PAD, reduction="sum")


class Witness:
    """The same loss, which notes how it is called."""

    def __init__(self, model):
        self.model = model
        self.given = []
        self.training = self.differentiable = 0

    def __call__(self, log_probs, target):
        self.given.append({"log_probs": log_probs.detach(), "target": target})
        self.training += self.model.training
        self.differentiable += log_probs.requires_grad
        return summed(log_probs, target)


class Counting(torch.optim.SGD):
    """An optimizer that counts its steps."""

    steps = 0

    def step(self, *arguments, **options):
        self.steps += 1
        return super().step(*arguments, **options)


def made(pairs):
    """The batches of a check."""
    return [Batch(**pair) for pair in pairs]


def trained(model):
    """What training has made of the parameters."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def in_its_digits(mean, model):
    """The mean in the model's dtype: the further digits of a Python float are only its rounding."""
    weight = next(model.parameters())
    return weight.new_tensor(mean) if isinstance(mean, float) else mean


# --- Inputs ---------------------------------------------------------------------------------------


def padded(draw, rows, length, vocab):
    """Token ids. Every row but the first ends in padding, where there is room for it."""
    tokens = draw.integers(1, vocab - 1, rows, length)
    for row in range(1, rows):
        tokens[row, draw.size(2, length) :] = PAD
    return tokens


def unlike(draw, count, vocab):
    """What batches are made of: each of other sizes, and with another share of padding."""
    return [
        {"src": padded(draw, rows, s, vocab), "tgt": padded(draw, rows, t, vocab)}
        for rows, s, t in (draw.sizes(2, 7, 3) for _ in range(count))
    ]


@pytest.fixture
def sizes(draw):
    """A vocabulary and a width, unlike each other."""
    vocab, d_model = draw.sizes(5, 9, 2)
    return {"vocab": vocab, "d_model": d_model}


@pytest.fixture
def one_pair(draw, sizes):
    """A single batch."""
    return unlike(draw, 1, sizes["vocab"])


@pytest.fixture
def pairs(draw, sizes):
    """Some batches."""
    return unlike(draw, draw.size(2, 3), sizes["vocab"])


@pytest.fixture
def two_pairs(draw, sizes):
    """One group of two."""
    return unlike(draw, 2, sizes["vocab"])


@pytest.fixture
def three_pairs(draw, sizes):
    """One group of three."""
    return unlike(draw, 3, sizes["vocab"])


@pytest.fixture
def four_pairs(draw, sizes):
    """Two groups of two."""
    return unlike(draw, 4, sizes["vocab"])


@pytest.fixture
def one_too_few(draw, sizes, accumulate):
    """Two groups, in the second of which there is one batch only."""
    return unlike(draw, accumulate + 1, sizes["vocab"])


@pytest.fixture
def with_an_empty_one(draw, sizes):
    """In the second batch there is nothing to predict but padding."""
    pairs = unlike(draw, 2, sizes["vocab"])
    pairs[1]["tgt"][:, 1:] = PAD
    return pairs


@pytest.fixture
def one_token(draw, sizes):
    """A batch with one token to predict."""
    tokens = [draw.integers(1, sizes["vocab"] - 1, 1, t) for t in (draw.size(2, 6), 2)]
    return [dict(zip(["src", "tgt"], tokens, strict=True))]


@pytest.fixture
def full_pairs(draw, sizes):
    """Four batches of equal size without padding."""
    rows, s, t = draw.sizes(3, 6, 3)
    last = sizes["vocab"] - 1
    return [
        {"src": draw.integers(1, last, rows, s), "tgt": draw.integers(1, last, rows, t + 1)}
        for _ in range(4)
    ]


@pytest.fixture
def lr(draw):
    """Large, so that a step shows."""
    return float(draw.uniform(0.5, 1.0))


# --- Measuring ------------------------------------------------------------------------------------


@pytest.mark.constant("kind of the result", "a float, whatever is in it")
def test_one_batch(answer, build, sizes, one_pair):
    """Without an optimizer, the result is a float: the summed loss divided by the number of real target
    tokens."""
    model = build(tiny, sizes)
    mean = answer.run_epoch(made(one_pair), model, summed)
    return {
        "mean loss per token": in_its_digits(mean, model),
        "kind of the result": "float" if isinstance(mean, float) else type(mean).__name__,
    }


def test_uneven_batches(answer, build, sizes, pairs):
    """The mean is over tokens, so a batch with more tokens has more weight."""
    model = build(tiny, sizes)
    mean = answer.run_epoch(made(pairs), model, summed)
    return {"mean loss per token": in_its_digits(mean, model)}


def test_what_the_loss_is_given(answer, build, sizes, pairs):
    """The loss gets log-probabilities `(B·T, V)` and targets `(B·T,)` for each batch."""
    model = build(tiny, sizes)
    witness = Witness(model)
    answer.run_epoch(made(pairs), model, witness)
    return {"given to loss": witness.given}


@pytest.mark.constant("batches in training mode", "none: this is evaluation")
def test_evaluation_mode(answer, build, sizes, pairs):
    """Without an optimizer, the model is in evaluation mode, so dropout is inactive."""
    model = build(tiny, sizes, dropout=1.0)
    witness = Witness(model)
    mean = answer.run_epoch(made(pairs), model, witness)
    return {
        "batches in training mode": witness.training,
        "mean loss per token": in_its_digits(mean, model),
    }


@pytest.mark.constant("losses that could be differentiated", "none: nobody will")
def test_measuring_alone(answer, build, sizes, pairs):
    """Without an optimizer, no gradient is computed, and the parameters do not change."""
    model = build(tiny, sizes)
    witness = Witness(model)
    answer.run_epoch(made(pairs), model, witness)
    return {
        "losses that could be differentiated": witness.differentiable,
        "gradients": gradients(model),
        "parameters": trained(model),
    }


@pytest.mark.watertight("batches without a single real target")
def test_batch_without_a_token(answer, build, sizes, with_an_empty_one):
    """A batch whose targets are all padding adds nothing to the loss or to the number of tokens."""
    model = build(tiny, sizes)
    mean = answer.run_epoch(made(with_an_empty_one), model, summed)
    return {"mean loss per token": in_its_digits(mean, model)}


# --- Training -------------------------------------------------------------------------------------


def test_one_step(answer, build, sizes, one_pair, lr):
    """With an optimizer, a step uses the gradient of the batch's mean loss per token."""
    model = build(tiny, sizes)
    answer.run_epoch(made(one_pair), model, summed, torch.optim.SGD(model.parameters(), lr))
    return {"parameters": trained(model)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_one_token(answer, build, sizes, one_token, lr):
    """A batch with a single token to predict trains like any other batch."""
    model = build(tiny, sizes)
    answer.run_epoch(made(one_token), model, summed, torch.optim.SGD(model.parameters(), lr))
    return {"parameters": trained(model)}


@pytest.mark.parametrize("before", ["evaluation", "training"])
def test_training_mode(answer, build, sizes, pairs, lr, before):
    """With an optimizer, the model is in training mode, whatever its mode was before."""
    model = build(tiny, sizes, dropout=1.0).train(before == "training")
    witness = Witness(model)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    mean = answer.run_epoch(made(pairs), model, witness, optimizer)
    return {
        "batches in training mode": witness.training,
        "mean loss per token": in_its_digits(mean, model),
        "parameters": trained(model),
    }


def test_a_step_for_each_batch(answer, build, sizes, pairs, lr):
    """Each batch has its own step, with its own gradient."""
    model = build(tiny, sizes)
    optimizer = Counting(model.parameters(), lr)
    mean = answer.run_epoch(made(pairs), model, summed, optimizer)
    return {
        "steps of the optimizer": optimizer.steps,
        "parameters": trained(model),
        "mean loss per token": in_its_digits(mean, model),
    }


@pytest.mark.watertight("gradients that an earlier `backward` has left")
def test_gradients_from_before(answer, build, sizes, one_pair, lr):
    """Gradients from before the call do not influence the first step."""
    model = build(tiny, sizes)
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    answer.run_epoch(made(one_pair), model, summed, torch.optim.SGD(model.parameters(), lr))
    return {"parameters": trained(model)}


@pytest.mark.watertight("batches without a single real target")
def test_group_without_a_token(answer, build, sizes, with_an_empty_one, lr):
    """If all targets are padding, the gradient is 0, and earlier steps keep their effect."""
    model = build(tiny, sizes)
    loss = LabelSmoothing(sizes["vocab"], PAD, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    mean = answer.run_epoch(made(with_an_empty_one), model, loss, optimizer)
    return {"parameters": trained(model), "mean loss per token": in_its_digits(mean, model)}


# --- Accumulating ---------------------------------------------------------------------------------


def test_one_group(answer, build, sizes, three_pairs, lr):
    """Accumulating batches has the same result as one batch of all their sequences."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    mean = answer.run_epoch(made(three_pairs), model, summed, optimizer, accumulate=3)
    return {"parameters": trained(model), "mean loss per token": in_its_digits(mean, model)}


@pytest.mark.constant("steps of the optimizer", "two groups, whatever is in them")
def test_two_groups(answer, build, sizes, lr, four_pairs):
    """A step follows each group; the next group begins without gradients."""
    model = build(tiny, sizes)
    optimizer = Counting(model.parameters(), lr)
    mean = answer.run_epoch(made(four_pairs), model, summed, optimizer, accumulate=2)
    return {
        "steps of the optimizer": optimizer.steps,
        "parameters": trained(model),
        "mean loss per token": in_its_digits(mean, model),
    }


@pytest.mark.parametrize("accumulate", [2, 3])
@pytest.mark.constant("steps of the optimizer", "two groups, the second one smaller")
def test_last_group(answer, build, sizes, one_too_few, lr, accumulate):
    """The last group has its step, too, even if it is smaller than the others."""
    model = build(tiny, sizes)
    optimizer = Counting(model.parameters(), lr)
    mean = answer.run_epoch(made(one_too_few), model, summed, optimizer, accumulate=accumulate)
    return {
        "steps of the optimizer": optimizer.steps,
        "parameters": trained(model),
        "mean loss per token": in_its_digits(mean, model),
    }


def test_fewer_than_a_group(answer, build, sizes, pairs, lr):
    """Fewer batches than `accumulate` form one group, whose loss is divided by its tokens."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    mean = answer.run_epoch(made(pairs), model, summed, optimizer, accumulate=2 * len(pairs))
    return {"parameters": trained(model), "mean loss per token": in_its_digits(mean, model)}


@pytest.mark.watertight("batches without a single real target")
def test_group_with_an_empty_batch(answer, build, sizes, with_an_empty_one, lr):
    """A batch that is all padding adds nothing to its group."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    mean = answer.run_epoch(made(with_an_empty_one), model, summed, optimizer, accumulate=2)
    return {"parameters": trained(model), "mean loss per token": in_its_digits(mean, model)}


@pytest.mark.constant("steps of the optimizer", "two groups, the second one smaller")
def test_momentum(answer, build, sizes, three_pairs, lr):
    """An optimizer with running means gets each group's gradient exactly once."""
    model = build(tiny, sizes)
    optimizer = Counting(model.parameters(), lr / 4, momentum=0.9, weight_decay=0.1)
    answer.run_epoch(made(three_pairs), model, summed, optimizer, accumulate=2)
    return {"steps of the optimizer": optimizer.steps, "parameters": trained(model)}


def test_one_pass(answer, build, sizes, pairs, lr):
    """Batches may come from a generator, which has no length and can be read only once."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    stream = (batch for batch in made(pairs))
    mean = answer.run_epoch(stream, model, summed, optimizer, accumulate=2)
    return {"mean loss per token": in_its_digits(mean, model), "parameters": trained(model)}


# --- The schedule ---------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [1, 2])
def test_scheduler(answer, build, sizes, pairs, lr, accumulate):
    """The schedule advances by one after each step of the optimizer."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    answer.run_epoch(made(pairs), model, summed, optimizer, scheduler, accumulate)
    return {"steps of the schedule": scheduler.last_epoch, "parameters": trained(model)}


# --- As in use ------------------------------------------------------------------------------------


def test_epochs(answer, build, sizes, pairs, lr):
    """Alternating training and evaluation changes nothing except the parameters."""
    model = build(tiny, sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    means = []
    for _ in range(2):
        means.append(answer.run_epoch(made(pairs), model, summed, optimizer, accumulate=2))
        means.append(answer.run_epoch(made(pairs), model, summed))
    return {"means": [in_its_digits(mean, model) for mean in means], "parameters": trained(model)}


def test_transformer(answer, build, sizes, two_pairs, lr):
    """A small Transformer trains with smoothed labels."""
    vocab = sizes["vocab"]
    model = build(make_model, vocab, vocab, n=1, d_model=4, d_ff=6, h=2, dropout=0.0)
    loss = LabelSmoothing(vocab, PAD, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr / 4)
    mean = answer.run_epoch(made(two_pairs), model, loss, optimizer, accumulate=2)
    return {"mean loss per token": in_its_digits(mean, model), "parameters": trained(model)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, sizes, one_pair, lr, dtype):
    """Parameters keep their dtype; a step in half precision is the float32 step, rounded."""
    model = build(tiny, sizes, dtype=dtype)
    answer.run_epoch(made(one_pair), model, summed, torch.optim.SGD(model.parameters(), lr))
    return {"parameters": trained(model)}


@pytest.mark.watertight("half precision, in which sums overflow soon")
def test_total_of_halves(answer, build, sizes, full_pairs):
    """Losses in float16 may add up to more than its maximum, 65504."""
    model = build(tiny, sizes, dtype="float16")
    each = 17_500 / full_pairs[0]["tgt"][:, 1:].numel()  # so that a batch comes to about 35 000

    def loud(log_probs, target):
        return each * summed(log_probs, target)

    mean = answer.run_epoch(made(full_pairs), model, loud)
    return {"mean loss per token": in_its_digits(mean, model)}
