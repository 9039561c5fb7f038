"""Day 19 · greedy_decode(model, src, src_mask, max_len, start, end=None)."""

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES
from implementation import make_model

PAD = 0


class Script(nn.Module):
    """A stand-in for a Transformer, which says what a table tells it to.

    `scores[row, position, history]` are the scores of the next token. Which row of the table a source
    asks for is the sum of its real tokens. The history of a position is a number made of what it sees
    of the target in two layers, as in a real decoder. As in a real model, too, the states are not the
    log-probabilities yet: here the generator turns them upside down.
    """

    def __init__(self, scores):
        super().__init__()
        self.scores = scores  # (rows, positions, V, V)
        self.differentiable = 0

    def encode(self, src, src_mask):
        real = torch.ones_like(src).bool() if src_mask is None else src_mask.squeeze(1)
        total = (src * real).sum(-1, keepdim=True)  # (B, 1)
        return (total + ~real).unsqueeze(-1).float()  # (B, S, 1), of no use where it is hidden

    def decode(self, memory, src_mask, tgt, tgt_mask):
        hidden = torch.zeros_like(memory).bool() if src_mask is None else ~src_mask.transpose(1, 2)
        row = memory.masked_fill(hidden, 0.0).amax((1, 2)).long() % len(self.scores)  # (B,)
        position = torch.arange(tgt.size(1), device=tgt.device)
        visible = memory.new_ones(1, len(position), len(position))
        visible = visible if tgt_mask is None else visible * tgt_mask
        first = visible @ tgt.unsqueeze(-1).float()  # (B, t, 1)
        second = visible @ (first * (1 + position % 3).unsqueeze(-1))
        history = (tgt + second.squeeze(-1)).long() % self.scores.size(-1)  # (B, t)
        step = position.clamp(max=self.scores.size(1) - 1)
        return -self.scores[row.unsqueeze(1), step, history]  # (B, t, V)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encode(src, src_mask)
        states = self.decode(memory, src_mask, tgt, tgt_mask)
        return states  # noqa: RET504 - the line without it is an earlier day's answer

    def generator(self, states):
        self.differentiable += states.requires_grad
        return (-states).log_softmax(dim=-1)


# --- Inputs ---------------------------------------------------------------------------------------


def preferences(draw, *shape):
    """Whole scores, no two alike, so that the most likely token is beyond doubt; it is never padding."""
    scores = draw.normal(*shape).argsort(dim=-1).float()
    scores[..., PAD] = -5.0
    return scores


def sources(draw, rows, length):
    """Sources that ask for row 0, row 1, row 2 … of a table of so many rows."""
    src = draw.integers(1, 5, rows, length) * rows
    src[:, 0] += torch.arange(rows)
    return {"src": src, "src_mask": torch.ones(rows, 1, length, dtype=torch.bool)}


def symbols(draw, vocab):
    """A start symbol and an end symbol, neither of them the padding."""
    start, end = draw.sizes(1, vocab - 1, 2)
    return {"start": start, "end": end}


def speech(draw, rows, vocab, max_len, ends):
    """A table and the rest of what a call takes; row i says `end` at place `ends[i]`, or never."""
    scores = preferences(draw, rows, max_len, vocab, vocab)
    how = symbols(draw, vocab)
    scores[..., how["end"]] = -4.0
    for row, position in enumerate(ends):
        if position is not None:
            scores[row, position - 1, :, how["end"]] = 20.0
    return sources(draw, rows, draw.size(2, 4)) | {"max_len": max_len} | how | {"scores": scores}


def endless(draw, rows, vocab, max_len, length):
    """A table and the rest of what a call without an end symbol takes."""
    start = symbols(draw, vocab)["start"]
    scores = preferences(draw, rows, max_len, vocab, vocab)
    return sources(draw, rows, length) | {"max_len": max_len, "start": start, "scores": scores}


def staged(inputs, scores=None):
    """The model of a check, and what else a call takes."""
    call = {name: value for name, value in inputs.items() if name != "scores"}
    return Script(inputs["scores"] if scores is None else scores), call


@pytest.fixture
def no_end(draw):
    """Rows, places and tokens, all unlike in number."""
    rows, vocab, max_len, length = draw.sizes(3, 9, 4)
    return endless(draw, rows, max(vocab, 5), max_len, length)


@pytest.fixture
def start_alone(draw):
    """Room for one token."""
    rows, vocab, length = draw.sizes(3, 9, 3)
    return endless(draw, rows, vocab, 1, length)


@pytest.fixture
def much_from_little(draw):
    """A source much shorter than what is to be said."""
    rows, vocab, max_len = draw.sizes(4, 9, 3)
    return endless(draw, rows, vocab, max_len, 1)


@pytest.fixture
def one_row(draw):
    """A single source, and an end before there is no room left."""
    vocab, max_len = draw.sizes(6, 9, 2)
    return speech(draw, 1, vocab, max_len, [draw.size(2, max_len - 2)])


@pytest.fixture
def ends(draw):
    """Every row ends somewhere else, and the last one before there is no room left."""
    rows, vocab, max_len = *draw.sizes(3, 5, 1), *draw.sizes(7, 9, 2)
    return speech(draw, rows, vocab, max_len, draw.sizes(1, max_len - 2, rows))


@pytest.fixture
def all_at_once(draw):
    """Every row ends at once."""
    rows, vocab, max_len = draw.sizes(3, 9, 3)
    return speech(draw, rows, max(vocab, 5), max_len, [1] * rows)


@pytest.fixture
def some_never_end(draw):
    """One row continues as long as it may; the others end."""
    rows, vocab, max_len = *draw.sizes(3, 5, 1), *draw.sizes(7, 9, 2)
    places = [None, *draw.sizes(1, max_len - 2, rows - 1)]
    return speech(draw, rows, vocab, max_len, places)


@pytest.fixture
def hidden_tokens(draw):
    """Sources in which some tokens do not count, whatever they are."""
    rows, vocab, max_len, length = draw.sizes(4, 9, 4)
    inputs = endless(draw, rows, vocab, max_len, length)
    mask = draw.mask(rows, 1, length)
    mask[..., 0] = True  # it is the one that tells the rows apart
    noise = draw.integers(1, 5 * rows, rows, length)
    shown = mask.squeeze(1)
    return inputs | {"src": inputs["src"] * shown + noise * ~shown, "src_mask": mask}


@pytest.fixture
def short_integers(draw):
    """Sources of another integer dtype."""
    rows, vocab, max_len, length = draw.sizes(3, 9, 4)
    inputs = endless(draw, rows, max(vocab, 5), max_len, length)
    return inputs | {"src": inputs["src"].int()}


@pytest.fixture
def of_dtype(draw, dtype):
    """A table of one dtype."""
    rows, vocab, max_len = *draw.sizes(3, 5, 1), *draw.sizes(7, 9, 2)
    inputs = speech(draw, rows, vocab, max_len, draw.sizes(1, max_len - 1, rows))
    return inputs | {"scores": inputs["scores"].to(getattr(torch, dtype))}


@pytest.fixture
def vocabularies(draw):
    """Of the source and of the target."""
    return draw.sizes(7, 12, 2)


@pytest.fixture
def sentences(draw, vocabularies):
    """Sources with padding at their ends, for a Transformer."""
    rows, length = draw.sizes(3, 6, 2)
    max_len = draw.size(5, 6)
    src = draw.integers(1, vocabularies[0] - 1, rows, length)
    for row in range(1, rows):
        src[row, draw.size(1, length - 1) :] = PAD
    start = draw.size(1, vocabularies[1] - 1)
    return {"src": src, "src_mask": (src != PAD).unsqueeze(1), "max_len": max_len, "start": start}


# --- Without an end -------------------------------------------------------------------------------


def test_likeliest_tokens(answer, no_end):
    """Each row generates the most likely token in every step."""
    model, call = staged(no_end)
    return {"tokens": answer.greedy_decode(model, **call)}


@pytest.mark.watertight("a `max_len` of a single token")
def test_start_alone(answer, start_alone):
    """`max_len` counts the start symbol: with a `max_len` of 1, the result is the start symbol."""
    model, call = staged(start_alone)
    return {"tokens": answer.greedy_decode(model, **call)}


def test_longer_than_the_source(answer, much_from_little):
    """The length of the output does not depend on the length of the source."""
    model, call = staged(much_from_little)
    return {"tokens": answer.greedy_decode(model, **call)}


def test_source_mask(answer, hidden_tokens):
    """Source tokens that the mask hides have no effect on the output."""
    model, call = staged(hidden_tokens)
    return {"tokens": answer.greedy_decode(model, **call)}


@pytest.mark.watertight("ids in a different integer dtype, as a data loader may return them")
def test_whole_numbers(answer, short_integers):
    """Tokens are int64, whatever integer dtype the source has."""
    model, call = staged(short_integers)
    return {"tokens": answer.greedy_decode(model, **call)}


# --- With an end ----------------------------------------------------------------------------------


def test_one_row(answer, one_row):
    """A row stops after `end`, which it keeps."""
    model, call = staged(one_row)
    return {"tokens": answer.greedy_decode(model, **call)}


def test_rows_end_apart(answer, ends):
    """Each row stops at its own `end`, followed by 0; decoding stops when all rows have ended."""
    model, call = staged(ends)
    return {"tokens": answer.greedy_decode(model, **call)}


def test_all_end_at_once(answer, all_at_once):
    """If every row generates `end` first, the result has only start and end."""
    model, call = staged(all_at_once)
    return {"tokens": answer.greedy_decode(model, **call)}


def test_some_never_end(answer, some_never_end):
    """A row that never generates `end` continues to `max_len`, and the others are padded."""
    model, call = staged(some_never_end)
    return {"tokens": answer.greedy_decode(model, **call)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """Tokens are int64 whatever dtype the model computes in."""
    model, call = staged(of_dtype)
    return {"tokens": answer.greedy_decode(model, **call)}


# --- With a model ---------------------------------------------------------------------------------


@pytest.mark.constant("steps that could be differentiated", "none: nobody will")
def test_no_gradient(answer, ends):
    """No gradient is recorded."""
    model, call = staged(ends, nn.Parameter(ends["scores"].clone()))
    tokens = answer.greedy_decode(model, **call)
    return {"steps that could be differentiated": model.differentiable, "tokens": tokens}


def test_transformer(answer, build, vocabularies, sentences):
    """A Transformer is called with a causal mask, as in training."""
    model = build(make_model, *vocabularies, n=2, d_model=8, d_ff=12, h=2, dropout=0.0)
    with torch.no_grad():  # without biases it says many things; it never says padding
        for name, vector in model.named_parameters():
            if vector.dim() == 1:
                vector.fill_(1.0 if name.endswith("gain") else 0.0)
        model.generator.proj.bias[PAD] = -100.0
    return {"tokens": answer.greedy_decode(model, **sentences)}
