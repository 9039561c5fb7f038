"""Day 24 · distribution, sample, generate."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES, FLOAT64, HALVES
from variants.gpt import GPT, GPTConfig

# How likely tokens are, from the most likely on: with p from 0.52 to 0.6 the nucleus has 2, 1 or 3 of them.
PROFILES = (
    (0.40, 0.27, 0.18, 0.10, 0.05),
    (0.72, 0.12, 0.08, 0.05, 0.03),
    (0.25, 0.22, 0.20, 0.18, 0.15),
)
DRAWS = 6000  # a share misses the nearer tenth by 0.05, 7 standard deviations: less than once in 10⁹ runs

SLIDER = "a slider has ends, and somebody will move it there"
EMPTY = "the last batch of a stream may be empty"
FORBIDDEN = "where a grammar or a filter forbids tokens, their logits are −∞"
RANKS = "published samplers take `(batch, vocab)`, and a row alone or more axes are an extra"
AXES = [
    pytest.param(0, marks=pytest.mark.watertight(RANKS)),
    1,
    pytest.param(3, marks=pytest.mark.watertight(RANKS)),
]
MODE = "published samplers leave the mode to the caller, and one who forgets it gets dropout"
EQUALS = (
    "in half precision equal logits are common, and which of them stays must not be an accident"
)


# --- Inputs ---------------------------------------------------------------------------------------


def scores(draw, *profiles, tail=0, dtype="float32"):
    """Logits of a row for each profile, up to small changes, each row's tokens in an order of its own;
    `tail` further tokens are rare."""
    shares = torch.tensor([[*profile, *[0.01] * tail] for profile in profiles], dtype=torch.float64)
    moved = draw.uniform(-0.03, 0.03, *shares.shape, dtype="float64")
    logits = shares.log() + moved + draw.uniform(-1.0, 1.0, len(profiles), 1, dtype="float64")
    order = draw.normal(*shares.shape).argsort(dim=-1)
    return logits.gather(1, order).to(getattr(torch, dtype))


def drawn_rows(draw, count):
    """The three profiles, and some of them again."""
    return [*PROFILES, *(draw.choice(PROFILES) for _ in range(count - 3))]


@pytest.fixture
def given(draw):
    """Logits, and temperatures below and above 1."""
    return {
        "logits": draw.normal(*draw.sizes(3, 9, 2), scale=2.0),
        "cold": draw.uniform(0.3, 0.7).item(),
        "warm": draw.uniform(1.5, 3.0).item(),
    }


@pytest.fixture
def sure(draw):
    """Rows with a token that is likelier than all others."""
    return scores(draw, *drawn_rows(draw, draw.size(3, 4)), tail=draw.size(1, 3))


@pytest.fixture
def some_of_many(draw):
    """Logits, and a k below their number."""
    rows, vocab = draw.sizes(5, 9, 2)
    return {"logits": draw.normal(rows, vocab), "top_k": draw.size(2, 4)}


@pytest.fixture
def wide_rows(draw):
    """Rows whose nuclei have different sizes, with a p that none of them misses by little."""
    logits = scores(draw, *drawn_rows(draw, draw.size(3, 4)), tail=draw.size(0, 3))
    return {"logits": logits, "top_p": draw.uniform(0.52, 0.6).item()}


@pytest.fixture
def sharpened(draw):
    """At τ = ½ two of these add up to p; as they are, it takes three."""
    logits = scores(draw, *[(0.4, 0.3, 0.2, 0.1)] * draw.size(2, 3), tail=draw.size(1, 2))
    return {"logits": logits, "temperature": 0.5, "top_p": draw.uniform(0.72, 0.75).item()}


@pytest.fixture
def cut_twice(draw):
    """Of the three most likely tokens two add up to p; of all, it takes four."""
    shares = (0.34, 0.28, 0.12, 0.11, 0.10)
    logits = scores(draw, *[shares] * draw.size(2, 3), tail=draw.size(1, 2))
    return {"logits": logits, "top_k": 3, "top_p": draw.uniform(0.79, 0.81).item()}


def with_everything(draw, *leading, dtype="float32"):
    """Logits with these axes in front, and a limit of each kind, each of which changes something."""
    rows = math.prod(leading)
    tail = draw.size(1, 2)
    shares = [draw.choice(((0.4, 0.3, 0.2, 0.1), (0.34, 0.31, 0.21, 0.14))) for _ in range(rows)]
    logits = scores(draw, *shares, tail=tail, dtype=dtype)
    limits = {"temperature": 0.5, "top_k": 3, "top_p": draw.uniform(0.78, 0.8).item()}
    return {"logits": logits.reshape(*leading, 4 + tail)} | limits


@pytest.fixture
def all_three(draw):
    """A limit of each kind."""
    return with_everything(draw, draw.size(2, 4))


@pytest.fixture
def leading(draw, axes):
    """So many axes in front, no two alike."""
    return with_everything(draw, *draw.sizes(2, 4, axes))


@pytest.fixture
def of_dtype(draw, dtype):
    """A limit of each kind, in a dtype."""
    return with_everything(draw, draw.size(2, 4), dtype=dtype)


@pytest.fixture
def ties(draw):
    """Whole logits: one token ahead of several equals, and one or two behind; k is among the equals."""
    equals = draw.size(3, 4)
    row = torch.tensor([9, *[7] * equals, *draw.sizes(2, 5, draw.size(1, 2))])
    orders = draw.normal(draw.size(2, 3), len(row)).argsort(dim=-1)
    return {"logits": row[orders], "top_k": draw.size(2, equals)}


@pytest.fixture
def all_equal(draw):
    """Whole logits of tokens that are all equally likely, and a p that some of them reach."""
    rows, vocab = draw.sizes(5, 9, 2)
    logits = draw.integers(-3, 3, rows, 1).expand(rows, vocab).clone()
    return {"logits": logits, "top_p": (draw.size(2, vocab - 1) - 0.5) / vocab}


@pytest.fixture
def exact(draw):
    """Whole logits of 4 or 8 tokens, all equally likely, and a p that some of them sum to exactly."""
    rows, vocab = draw.size(2, 5), draw.choice([4, 8])
    logits = draw.integers(-3, 3, rows, 1).expand(rows, vocab).clone()
    return {"logits": logits, "top_p": draw.size(1, vocab - 1) / vocab}


@pytest.fixture
def equally_likeliest(draw):
    """Whole logits: two or three tokens are equally likely, the rest less so."""
    row = torch.tensor([*[7] * draw.size(2, 3), *draw.sizes(0, 5, draw.size(2, 3))])
    return row[draw.normal(4, len(row)).argsort(dim=-1)]


@pytest.fixture
def rare(draw):
    """Rows with tokens so rare that float32 sums to 1 without them."""
    rows = draw.size(20, 30)
    logits = scores(draw, *drawn_rows(draw, rows))
    least = logits.amin(dim=1, keepdim=True)
    return torch.cat([logits, least - draw.uniform(17, 20, rows, 4)], dim=1)


@pytest.fixture
def forbidding(draw):
    """Three to five tokens that may come, and others that never do."""
    logits = draw.normal(*draw.sizes(3, 5, 2))
    never = torch.full((len(logits), draw.size(2, 3)), -math.inf)
    mixed = torch.cat([logits, never], dim=1)
    order = draw.normal(*mixed.shape).argsort(dim=-1)
    return {"logits": mixed.gather(1, order), "top_k": logits.size(1) + 1}


@pytest.fixture
def large(draw):
    """Logits of ten thousand, above or below 0."""
    logits = scores(draw, *drawn_rows(draw, 3), tail=draw.size(0, 3), dtype="float64")
    return {"logits": (logits + draw.choice((-1e4, 1e4))).float(), "temperature": 0.5}


@pytest.fixture
def far_apart(draw):
    """Whole logits of some hundred, and a temperature at which that is too much for float16."""
    row = torch.tensor([draw.size(340, 400), *draw.sizes(-300, 300, draw.size(3, 6))])
    logits = row[draw.normal(draw.size(2, 4), len(row)).argsort(dim=-1)]
    return {"logits": logits.half(), "temperature": draw.uniform(0.002, 0.005).item()}


@pytest.fixture
def one_token(draw):
    """A vocabulary of a single token."""
    return draw.normal(draw.size(2, 9), 1)


@pytest.fixture
def no_rows(draw):
    """A batch of nothing."""
    return draw.normal(0, draw.size(3, 9))


@pytest.fixture
def vocabulary(draw):
    """Whole logits of a thousand and more tokens, and values of p that lie between two sums."""
    logits = draw.integers(0, 40, draw.size(1200, 1500))
    shares = (logits.double() / 8).softmax(dim=-1).sort(descending=True).values.cumsum(dim=0)
    values = []
    near_the_end = draw.uniform(0.93, 0.95, 6).tolist()  # where float16 rounds over whole tokens
    for p in [*draw.uniform(0.5, 0.93, 3).tolist(), *near_the_end]:
        index = int((shares < p).sum())
        values.append((shares[index] + shares[index - 1]).item() / 2)
    return {"logits": logits, "top_p": values}


@pytest.fixture
def tenths(draw):
    """Logits whose probabilities are 4, 3, 2 and 1 tenths, among tokens that never come."""
    shares = torch.tensor([0.4, 0.3, 0.2, 0.1, *[0.0] * draw.size(1, 2)], dtype=torch.float64)
    order = draw.normal(len(shares)).argsort()
    return (shares.log()[order] + draw.uniform(-2.0, 2.0)).float()


@pytest.fixture
def tenths_of_dtype(tenths, dtype):
    """The same in a dtype."""
    return tenths.to(getattr(torch, dtype))


@pytest.fixture
def limited(draw, limit):
    """Logits that have such probabilities under one limit, and that limit."""
    shares, value = {
        "temperature": ((16.0, 9.0, 4.0, 1.0), 2.0),
        "top_k": ((6.0, 3.0, 1.0, 0.9, 0.8, 0.7), 3),
        "top_p": ((4.2, 1.8, 1.0, 0.9, 0.8, 0.7), 0.55),
    }[limit]
    logits = torch.tensor(shares, dtype=torch.float64).log()[draw.normal(len(shares)).argsort()]
    return {"logits": logits.float() + draw.uniform(-2.0, 2.0).float(), limit: value}


@pytest.fixture
def permitted(draw, axes):
    """One token that may come in each row, with so many axes in front of the vocabulary."""
    shape = draw.sizes(2, 5, axes)
    vocab = draw.size(6, 40)
    return one_hot(draw.integers(0, vocab - 1, *shape), vocab)


@pytest.fixture
def permitted_alone(draw):
    """A single row, in which one token may come."""
    return one_hot(draw.integers(0, 39, 1), 40)


@pytest.fixture
def state(draw):
    """Where a generator begins."""
    return draw.size(0, 10**6)


def one_hot(tokens, vocab):
    """Logits that permit these tokens and no others."""
    never = torch.full((*tokens.shape, vocab), -math.inf)
    return never.scatter(-1, tokens.unsqueeze(-1), 0.0)


# --- Models ---------------------------------------------------------------------------------------


class Interrupted(Exception):
    """Raised by a stand-in in the middle of a text."""


class Sums(nn.Module):
    """A stand-in for a language model: after each position it permits a single token.

    Which one depends on all tokens that it sees up to there, and on their places.
    """

    def __init__(self, vocab, context, breaks_at=None):
        super().__init__()
        self.config = SimpleNamespace(vocab=vocab, context=context)
        self.weight = nn.Parameter(torch.zeros(()))
        self.parts = nn.ModuleList(nn.Dropout(1.0) for _ in range(4))
        self.breaks_at = breaks_at
        self.calls = self.in_training = self.differentiable = 0

    def forward(self, tokens):
        self.calls += 1
        self.in_training += any(module.training for module in self.modules())
        if self.calls == self.breaks_at:
            raise Interrupted
        places = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
        values = tokens
        for part in self.parts:
            values = part(values.float())
        following = ((values * places).cumsum(dim=1).long() + places) % self.config.vocab
        never = torch.full((*tokens.shape, self.config.vocab), -math.inf, device=tokens.device)
        logits = never.scatter(2, following.unsqueeze(2), 0.0) + self.weight
        self.differentiable += logits.requires_grad
        return logits


class Same(nn.Module):
    """A stand-in that has the same logits after every token."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits
        self.config = SimpleNamespace(vocab=len(logits), context=5)

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1).clone()


def told(draw, rows, length, context, new):
    """A stand-in's sizes, prompts for it, and how much is to follow."""
    vocab = draw.size(11, 29)
    return {
        "vocab": vocab,
        "context": context,
        "tokens": draw.integers(0, vocab - 1, rows, length),
        "max_new_tokens": new,
    }


@pytest.fixture
def within(draw):
    """Prompt and continuation fit into the context."""
    rows, length, new = draw.sizes(3, 6, 3)
    return told(draw, rows, length, length + new + draw.size(0, 2), new)


@pytest.fixture
def beyond(draw, prompt):
    """The text outgrows the context: on the way, or before the first token is added."""
    rows, context, new = draw.sizes(3, 6, 3)
    length = context - 1 if prompt == "shorter" else context + draw.size(1, 3)
    return told(draw, rows, length, context, new)


@pytest.fixture
def at_the_edge(draw, edge):
    """One row, one token to begin with, a context of one, or nothing to add."""
    rows, length, new, context = draw.sizes(3, 7, 4)
    rows, length = 1 if edge == "B=1" else rows, 1 if edge == "T=1" else length
    new = 0 if edge == "nothing to add" else new
    return told(draw, rows, length, 1 if edge == "context=1" else context, new)


@pytest.fixture
def modes(draw):
    """Which of a model's parts are in training mode: some of them."""
    modes = [draw.choice((True, False)) for _ in range(5)]
    position = draw.size(1, 4)
    modes[position] = not modes[0]
    return modes


@pytest.fixture
def small_gpt(draw):
    """A GPT, and prompts for it."""
    heads, d_k = draw.sizes(2, 3, 2)
    vocab, rows, length, new = draw.size(9, 14), *draw.sizes(2, 5, 3)
    sizes = (vocab, length + new, 2, heads, heads * d_k, 11, 1.0)
    return {
        "config": GPTConfig(*sizes),
        "tokens": draw.integers(0, vocab - 1, rows, length),
        "max_new_tokens": new,
    }


def model_and_call(given, **options):
    """The stand-in of a check, and what else a call takes."""
    model = Sums(given["vocab"], given["context"], **options)
    return model, {name: given[name] for name in ("tokens", "max_new_tokens")}


def set_modes(model, modes):
    """Give each module a mode of its own."""
    for module, training in zip((model, *model.parts), modes, strict=True):
        module.training = training


def modes_of(model):
    """The modes of the whole and of its parts, in words."""
    return " ".join("train" if module.training else "eval" for module in (model, *model.parts))


def in_tenths(tokens, vocab):
    """How often each token was drawn, in tenths of all draws."""
    ids = torch.arange(vocab, device=tokens.device)
    return (10 * (tokens.flatten() == ids.unsqueeze(1)).double().mean(dim=1)).round().long()


# --- distribution: temperature --------------------------------------------------------------------


def test_softmax(answer, given):
    """By default, the distribution is the softmax of each row."""
    return {"probabilities": answer.distribution(given["logits"])}


@pytest.mark.parametrize("temperature", ["cold", "warm"])
def test_temperature(answer, given, temperature):
    """The logits are divided by the temperature: below 1, likely tokens gain; above 1, unlikely tokens."""
    return {"probabilities": answer.distribution(given["logits"], given[temperature])}


def test_temperature_0(answer, sure):
    """At temperature 0 the most likely token has probability 1, whatever top_k and top_p are."""
    return {
        "probabilities": answer.distribution(sure, 0),
        "with top_k and top_p": answer.distribution(sure, 0.0, 3, 0.9),
    }


@pytest.mark.watertight(EQUALS)
def test_temperature_0_among_equals(answer, equally_likeliest):
    """Of equally likely tokens, temperature 0 chooses the one with the lowest id."""
    return {"probabilities": answer.distribution(equally_likeliest.float(), 0)}


# --- distribution: top-k --------------------------------------------------------------------------


def test_top_k(answer, some_of_many):
    """The k most likely tokens share all the probability, in proportion; no other token can be drawn."""
    probabilities = answer.distribution(some_of_many["logits"], top_k=some_of_many["top_k"])
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


def test_top_k_1(answer, some_of_many):
    """With k = 1 the most likely token is certain."""
    return {"probabilities": answer.distribution(some_of_many["logits"], top_k=1)}


@pytest.mark.watertight(EQUALS)
def test_top_k_among_equals(answer, ties):
    """All tokens that tie with the k-th stay."""
    probabilities = answer.distribution(ties["logits"].float(), top_k=ties["top_k"])
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


@pytest.mark.watertight(SLIDER)
@pytest.mark.parametrize("beyond", [0, 3])
def test_top_k_of_all(answer, some_of_many, beyond):
    """If k is at least the size of the vocabulary, all tokens stay."""
    logits = some_of_many["logits"]
    return {"probabilities": answer.distribution(logits, top_k=logits.size(-1) + beyond)}


# --- distribution: top-p --------------------------------------------------------------------------


@pytest.mark.on_devices
def test_top_p(answer, wide_rows):
    """Each row keeps the smallest set of most likely tokens whose probabilities reach p."""
    probabilities = answer.distribution(**wide_rows)
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


def test_temperature_before_top_p(answer, sharpened):
    """Top-p adds up probabilities to which the temperature has been applied."""
    probabilities = answer.distribution(**sharpened)
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


def test_top_k_before_top_p(answer, cut_twice):
    """Top-p adds up the probabilities that remain after top-k, renormalized."""
    probabilities = answer.distribution(**cut_twice)
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


@pytest.mark.watertight(EQUALS)
def test_top_p_among_equals(answer, all_equal):
    """Equally likely tokens enter the nucleus in the order of their ids."""
    probabilities = answer.distribution(all_equal["logits"].float(), top_p=all_equal["top_p"])
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


@pytest.mark.watertight(EQUALS)
def test_top_p_reached_exactly(answer, exact):
    """If the tokens so far add up to exactly p, the nucleus is complete."""
    probabilities = answer.distribution(exact["logits"].float(), top_p=exact["top_p"])
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


@pytest.mark.watertight(SLIDER)
def test_top_p_0(answer, sure):
    """With p = 0, only the most likely token stays."""
    return {"probabilities": answer.distribution(sure, top_p=0.0)}


@pytest.mark.watertight(SLIDER)
def test_top_p_1(answer, rare):
    """With p = 1, all tokens stay, even those that are lost in the rounding of a sum."""
    probabilities = answer.distribution(rare, top_p=1.0)
    return {"probabilities": probabilities, "can be drawn": (probabilities > 0).sum()}


# --- distribution: all together -------------------------------------------------------------------


def test_all_three(answer, all_three):
    """Temperature is applied first, then top-k, then top-p."""
    probabilities = answer.distribution(**all_three)
    return {"probabilities": probabilities, "can be drawn": probabilities > 0}


@pytest.mark.parametrize("axes", AXES)
def test_leading_dimensions(answer, leading, axes):
    """With any number of leading axes, each row is treated separately."""
    return {
        "probabilities": answer.distribution(**leading),
        "at temperature 0": answer.distribution(leading["logits"], 0),
    }


def test_large_logits(answer, large):
    """Large logits do not overflow, because only their differences count."""
    return {"probabilities": answer.distribution(**large)}


@pytest.mark.watertight("logits divided by a small temperature are soon too large for float16")
def test_large_logits_in_half_precision(answer, far_apart):
    """Logits in float16 are divided in float32, so that nothing overflows."""
    return {"probabilities": answer.distribution(**far_apart)}


@pytest.mark.watertight(FORBIDDEN)
def test_forbidden_tokens(answer, forbidding):
    """A token whose logit is −∞ is never drawn, even if k exceeds the number of other tokens."""
    logits = forbidding["logits"]
    probabilities = answer.distribution(logits, 2.0, forbidding["top_k"])
    return {
        "probabilities": probabilities,
        "can be drawn": probabilities > 0,
        "at temperature 0": answer.distribution(logits, 0),
        "with top_p": answer.distribution(logits, top_p=0.999999),
    }


@pytest.mark.watertight("a vocabulary of one token, where squeezing goes wrong")
def test_one_token(answer, one_token):
    """A vocabulary with a single token works."""
    return {"probabilities": answer.distribution(one_token, 0.5, 1, 0.5)}


@pytest.mark.watertight(EMPTY)
def test_no_rows(answer, no_rows):
    """Without rows, the result is empty, with the same shape and dtype."""
    return {
        "probabilities": answer.distribution(no_rows, 0.5, 2, 0.5),
        "at temperature 0": answer.distribution(no_rows, 0),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """Probabilities have the dtype of the logits."""
    return {
        "probabilities": answer.distribution(**of_dtype),
        "at temperature 0": answer.distribution(of_dtype["logits"], 0),
    }


@pytest.mark.parametrize("dtype", HALVES)
def test_nucleus_of_a_large_vocabulary(answer, vocabulary, dtype):
    """Sums over a thousand tokens in half precision are computed in float32."""
    logits = vocabulary["logits"].to(getattr(torch, dtype))
    return {
        "tokens that can be drawn": [
            answer.distribution(logits, 8.0, top_p=p).count_nonzero() for p in vocabulary["top_p"]
        ]
    }


# --- sample ---------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_draws(answer, tenths):
    """A token is drawn with its probability; a token of probability 0 is never drawn."""
    tokens = answer.sample(tenths.expand(DRAWS, -1).clone())
    return {"tenths of the draws": in_tenths(tokens, len(tenths))}


@pytest.mark.parametrize("limit", ["temperature", "top_k", "top_p"])
@pytest.mark.constant("draws of what was cut", "what has probability 0 is never drawn")
def test_draws_within_limits(answer, limited, limit):
    """The draws have the distribution after temperature, top_k and top_p."""
    logits = limited["logits"].expand(DRAWS, -1).clone()
    tokens = answer.sample(logits, **{limit: limited[limit]})
    stays = {"temperature": 4, "top_k": 3, "top_p": 2}[limit]
    likeliest = limited["logits"].topk(stays).indices
    return {
        "tenths of the draws": in_tenths(tokens, logits.size(1)),
        "draws of what was cut": (~torch.isin(tokens, likeliest)).sum(),
    }


@pytest.mark.parametrize("axes", AXES)
def test_one_token_a_row(answer, permitted, axes):
    """Each row gets one int64 id, in the shape of the leading axes."""
    return {"tokens": answer.sample(permitted)}


@pytest.mark.watertight("a batch of one, where squeezing goes wrong")
def test_a_single_row(answer, permitted_alone):
    """A batch of one row gets a batch of one id."""
    return {"tokens": answer.sample(permitted_alone)}


@pytest.mark.watertight(EMPTY)
def test_draws_for_no_rows(answer, no_rows):
    """Without rows, there are no ids."""
    return {"tokens": answer.sample(no_rows.unsqueeze(1).expand(-1, no_rows.size(-1), -1))}


@pytest.mark.watertight(RANKS)
@pytest.mark.constant("rows that agree", "columns that agree", "each row has a draw of its own")
def test_rows_are_drawn_independently(answer, tenths):
    """Each row has its own draw, along whichever axis."""
    tokens = answer.sample(tenths.expand(50, DRAWS // 50, -1).clone())
    return {
        "rows that agree": (tokens == tokens[:, :1]).all(dim=1).sum(),
        "columns that agree": (tokens == tokens[:1]).all(dim=0).sum(),
        "tenths of the draws": in_tenths(tokens, len(tenths)),
    }


@pytest.mark.constant(
    "draws again from the same state",
    "draws the same from the next state",
    "touches torch's own state",
    "the generator alone decides",
)
def test_generator(answer, tenths, state, device):
    """Equal generator states give equal draws, and each draw advances the generator."""
    rows = tenths.expand(DRAWS, -1).clone()
    generator = torch.Generator(device)
    own = torch.get_rng_state()
    first = answer.sample(rows, generator=generator.manual_seed(state))
    second = answer.sample(rows, generator=generator)
    touched = not torch.equal(torch.get_rng_state(), own)
    torch.manual_seed(state + 1)
    again = answer.sample(rows, generator=generator.manual_seed(state))
    return {
        "draws again from the same state": torch.equal(first, again),
        "draws the same from the next state": torch.equal(first, second),
        "touches torch's own state": touched,
        "tenths of the draws": in_tenths(first, len(tenths)),
    }


@pytest.mark.constant(
    "draws again from the same state",
    "draws the same from the next state",
    "torch's own state decides",
)
def test_without_a_generator(answer, tenths, state):
    """Without a generator, torch's global one is used, so `torch.manual_seed` makes a draw repeatable."""
    rows = tenths.expand(DRAWS, -1).clone()
    torch.manual_seed(state)
    first, second = answer.sample(rows), answer.sample(rows)
    torch.manual_seed(state)
    return {
        "draws again from the same state": torch.equal(first, answer.sample(rows)),
        "draws the same from the next state": torch.equal(first, second),
        "tenths of the draws": in_tenths(first, len(tenths)),
    }


@pytest.mark.parametrize("dtype", [FLOAT64, *HALVES])
def test_draws_from_logits_of_dtype(answer, tenths_of_dtype, dtype):
    """Ids are int64 and have the right frequencies, whatever dtype the logits have."""
    tokens = answer.sample(tenths_of_dtype.expand(DRAWS, -1).clone())
    return {"tenths of the draws": in_tenths(tokens, len(tenths_of_dtype)), "tokens": tokens.dtype}


# --- generate -------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_continuation(answer, within):
    """Each row continues from its own prompt: each new token depends on all earlier tokens."""
    model, call = model_and_call(within)
    return {"tokens": answer.generate(model.eval(), **call)}


@pytest.mark.parametrize("prompt", ["shorter", "longer"])
def test_longer_than_the_context(answer, beyond, prompt):
    """If a text exceeds the context, the model reads its end, but the result is the entire text."""
    model, call = model_and_call(beyond)
    return {"tokens": answer.generate(model.eval(), **call)}


@pytest.mark.watertight("one row, one token or none, where loops and slices go wrong")
@pytest.mark.parametrize("edge", ["B=1", "T=1", "context=1", "nothing to add"])
def test_at_the_edge(answer, at_the_edge, edge):
    """The result is right for one row, a prompt of one token, a context of one token, or no new tokens."""
    model, call = model_and_call(at_the_edge)
    return {"tokens": answer.generate(model, **call)}


@pytest.mark.watertight("no token ends a text here, so `max_new_tokens` are generated")
def test_no_token_ends_a_text(answer, permitted_alone):
    """Exactly `max_new_tokens` tokens are added, whichever tokens are drawn."""
    vocab, rows = permitted_alone.size(1), permitted_alone.argmax(dim=1, keepdim=True)
    always = [Same(permitted_alone[0].roll(shift)) for shift in range(vocab)]
    texts = [answer.generate(model, rows, 3) for model in always]
    return {"tokens": torch.cat(texts)}


@pytest.mark.parametrize("limit", ["temperature", "top_k", "top_p"])
def test_generates_within_limits(answer, limited, limit):
    """Tokens are drawn as in `sample`, with temperature, top_k and top_p."""
    logits = limited["logits"]
    prompt = logits.new_zeros(DRAWS, 2).long()
    tokens = answer.generate(Same(logits), prompt, 2, **{limit: limited[limit]})
    return {
        "tenths of the draws": in_tenths(tokens[:, 2], len(logits)),
        "tenths of the next draws": in_tenths(tokens[:, 3], len(logits)),
    }


@pytest.mark.constant(
    "generates again from the same state",
    "touches torch's own state",
    "steps that repeat the one before",
    "the generator alone decides",
)
def test_generates_from_a_generator(answer, tenths, state, device):
    """Every draw comes from the generator, which advances with every step."""
    prompt = tenths.new_zeros(DRAWS // 4, 1).long()
    generator = torch.Generator(device)
    own = torch.get_rng_state()
    how = {"max_new_tokens": 4, "generator": generator}
    generator.manual_seed(state)
    first = answer.generate(Same(tenths), prompt, **how)
    touched = not torch.equal(torch.get_rng_state(), own)
    torch.manual_seed(state + 1)
    generator.manual_seed(state)
    again = answer.generate(Same(tenths), prompt, **how)
    return {
        "generates again from the same state": torch.equal(first, again),
        "touches torch's own state": touched,
        "steps that repeat the one before": sum(
            torch.equal(first[:, step], first[:, step + 1]) for step in (1, 2, 3)
        ),
        "tenths of the draws": in_tenths(first[:, 1:], len(tenths)),
    }


# --- generate: the model --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [pytest.param("train", marks=pytest.mark.watertight(MODE)), "eval"]
)
@pytest.mark.constant("calls in training mode", "modes after", "it is asked in evaluation mode")
def test_mode(answer, within, mode):
    """The model is called in evaluation mode, and its old mode is restored."""
    model, call = model_and_call(within)
    model.train(mode == "train")
    tokens = answer.generate(model, **call)
    return {
        "calls in training mode": model.in_training,
        "modes after": modes_of(model),
        "tokens": tokens,
    }


@pytest.mark.constant("modes after", "the model is in training mode before and after")
def test_mode_is_kept(answer, within):
    """A model in training mode is in training mode again after the call."""
    model, call = model_and_call(within)
    tokens = answer.generate(model.train(), **call)
    return {"modes after": modes_of(model), "prompts": tokens[:, : call["tokens"].size(1)]}


@pytest.mark.watertight("a part may be frozen in evaluation mode on purpose")
@pytest.mark.constant("calls in training mode", "it is asked in evaluation mode")
def test_modes_of_the_parts(answer, within, modes):
    """After the call, each part of the model has its own old mode."""
    model, call = model_and_call(within)
    set_modes(model, modes)
    tokens = answer.generate(model, **call)
    return {
        "calls in training mode": model.in_training,
        "modes after": modes_of(model),
        "tokens": tokens,
    }


@pytest.mark.watertight("a training run may continue after a generation is stopped")
def test_modes_after_an_error(answer, within, modes):
    """The modes are restored even if an error is raised."""
    model, call = model_and_call(within, breaks_at=2)
    set_modes(model, modes)
    try:
        answer.generate(model, **call)
    except Interrupted:
        return {"modes after": modes_of(model)}
    return {"modes after": "nothing was raised"}


@pytest.mark.constant("steps that could be differentiated", "none: nobody will")
def test_no_gradient(answer, within):
    """No gradient is recorded."""
    model, call = model_and_call(within)
    tokens = answer.generate(model.eval(), **call)
    return {"steps that could be differentiated": model.differentiable, "tokens": tokens}


@pytest.mark.watertight("a training run continues after sampling")
@pytest.mark.constant("gradients are computed afterwards", "they were before")
def test_gradients_afterwards(answer, within):
    """After `generate`, PyTorch computes gradients again."""
    model, call = model_and_call(within)
    tokens = answer.generate(model.eval(), **call)
    return {"gradients are computed afterwards": torch.is_grad_enabled(), "tokens": tokens}


def test_gpt(answer, build, small_gpt):
    """At temperature 0 a GPT generates its most likely tokens."""
    model = build(GPT, small_gpt["config"]).eval()
    tokens = answer.generate(model, small_gpt["tokens"], small_gpt["max_new_tokens"], temperature=0)
    return {"tokens": tokens}
