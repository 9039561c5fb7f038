"""Day 42 · accept_draft, speculative_generate."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course.checks.authoring import FLOAT64
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT

# Shares are multiples of a fifth: a draw misses the nearer border, 0.1 away, by less than once in 10⁹ runs.
DRAWS = 1200
AGAIN = 24  # calls in which a wrong answer that errs every second time is right less than once in 10⁷ runs

NONE = "a program may handle a round without proposals by itself"
EDGE = "a text that ends with the context, or in the middle of a round"


# --- Inputs ---------------------------------------------------------------------------------------


def rows(draw, *shares, dtype="float32"):
    """Rows of probabilities over 5 tokens or more, all with their tokens in one new order; and that order."""
    vocab = 5 + draw.size(0, 3)
    order = draw.normal(vocab).argsort()
    made = torch.zeros(len(shares), vocab, dtype=getattr(torch, dtype))
    made[:, order[:5]] = torch.tensor(shares, dtype=torch.float64).to(made.dtype)
    return made, order


def given(draft_tokens, draft_probs, target_probs):
    """The arguments of `accept_draft`."""
    names = "draft_tokens", "draft_probs", "target_probs"
    return dict(zip(names, (draft_tokens, draft_probs, target_probs), strict=True))


@pytest.fixture
def agreed(draw):
    """Target and draft agree; one token alone may follow."""
    k = draw.size(2, 5)
    probs = draw.weights(k, draw.size(6, 9))
    last = one_hot(draw.integers(0, probs.size(1) - 1, 1), probs.size(1))
    tokens = draw.integers(0, probs.size(1) - 1, k)
    return given(tokens, probs, torch.cat([probs, last]))


@pytest.fixture
def liked_more(draw):
    """The target gives each proposal more than the draft does, and is sure of what follows them."""
    k = draw.size(2, 3)
    both, order = rows(draw, (0.4, 0.2, 0.2, 0.1, 0.1), (0.5, 0.0, 0.3, 0.1, 0.1), (0, 0, 0, 0, 1))
    q, p, last = both
    return given(order[:1].expand(k), q.expand(k, -1), torch.cat([p.expand(k, -1), last[None]]))


@pytest.fixture
def ruled_out(draw):
    """The target rules one proposal out and is sure of a different token there; it gives those before it
    more than the draft does, and agrees with the draft on those after it."""
    place, after = draw.sizes(1, 3, 2)
    both, order = rows(
        draw,
        (0.5, 0.2, 0.1, 0.1, 0.1),
        (0.6, 0.1, 0.1, 0.1, 0.1),
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1.0),
    )
    q, liked, other, last = both[:, None]
    parts = [*[liked] * place, other, *[q] * after, last]
    tokens = order[[*[0] * place, 1, *[3] * after]]
    return given(tokens, q.expand(len(tokens), -1), torch.cat(parts))


@pytest.fixture
def one_left(draw):
    """The proposal is ruled out, and only one token is given more by the target than by the draft."""
    both, order = rows(
        draw, (0.3, 0.3, 0.3, 0.1, 0.0), (0.0, 0.2, 0.3, 0.5, 0.0), (0, 0, 0, 0, 1), (1, 0, 0, 0, 0)
    )
    before = draw.size(1, 3)
    q, p, sure, last = both[:, None]
    tokens = torch.cat([order[4:5].expand(before), order[:1]])
    draft = torch.cat([sure.expand(before, -1), q])
    return given(tokens, draft, torch.cat([sure.expand(before, -1), p, last]))


@pytest.fixture
def twice(draw):
    """Two proposals that the target accepts with probability 3/5 and 2/3, and a token that must follow."""
    both, order = rows(
        draw,
        (0.5, 0.0, 0.2, 0.3, 0.0),
        (0.3, 0.4, 0.2, 0.1, 0.0),
        (0.6, 0.1, 0.0, 0.3, 0.0),
        (0.4, 0.0, 0.5, 0.1, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1.0),
    )
    q_1, p_1, q_2, p_2, last = both
    tokens = order[:1].expand(2)
    return given(tokens, torch.stack([q_1, q_2]), torch.stack([p_1, p_2, last]))


@pytest.fixture
def after(draw, following):
    """What follows has shares of three fifths and two fifths: after a rejection, or after all proposals."""
    profiles = {
        "a rejection": [(0.6, 0.2, 0.0, 0.2, 0.0), (0.0, 0.56, 0.24, 0.2, 0.0), (0, 0, 0, 0, 1)],
        "all proposals": [(0.6, 0.4, 0, 0, 0), (1.0, 0, 0, 0, 0), (0.6, 0, 0.4, 0, 0)],
        "no proposal": [(0, 0, 0, 0, 1), (0, 0, 0, 0, 1), (0.6, 0, 0.4, 0, 0)],
    }
    both, order = rows(draw, *profiles[following])
    k = following != "no proposal"
    return given(order[: int(k)], both[: int(k)], both[1 if k else 2 :])


@pytest.fixture
def of_dtype(draw, dtype):
    """A proposal that is ruled out, in a dtype."""
    both, order = rows(draw, (0.3, 0.3, 0.4, 0, 0), (0, 0.3, 0.4, 0.3, 0), (0, 0, 0, 0, 1), dtype=dtype)
    return given(order[:1], both[:1], both[1:])


@pytest.fixture
def state(draw):
    """Where a generator begins."""
    return draw.size(0, 10**6)


def one_hot(tokens, vocab):
    """Rows in which one token has probability 1."""
    return nn.functional.one_hot(tokens, vocab).float()


def in_fifths(ids, size):
    """How often each id came, in fifths of all."""
    counts = torch.bincount(torch.tensor(ids), minlength=size)
    return (5 * counts / len(ids)).round().long()


# --- Models ---------------------------------------------------------------------------------------


class Sums(nn.Module):
    """A stand-in for a language model with a cache: after each text it prefers a single token.

    Which one depends on all tokens that it has read, and on their places. A draft errs at some of them.
    """

    def __init__(self, vocab, context, errs=lambda following: False, margin=math.inf):
        super().__init__()
        sizes = {"n_layers": 1, "n_heads": 1, "d_model": 1}
        self.config = SimpleNamespace(vocab=vocab, context=context, **sizes)
        self.errs, self.margin, self.read = errs, margin, []

    def forward(self, tokens, cache):
        self.read.append(tokens.size(1))
        past = cache.length
        if past + tokens.size(1) > self.config.context:
            raise ValueError(f"at most {self.config.context} tokens can be read")
        ids = tokens[:, None, :, None].double()
        text = cache.update(0, ids, ids)[0].flatten().long()
        places = torch.arange(1, len(text) + 1, device=text.device)
        following = ((text * places).cumsum(dim=0) + places) % self.config.vocab
        wrong = torch.tensor([self.errs(one) for one in following.tolist()], device=text.device)
        following = ((following + wrong.long()) % self.config.vocab)[past:]
        logits = torch.full((1, tokens.size(1), self.config.vocab), -self.margin, device=text.device)
        return logits.scatter(2, following[None, :, None], 0.0)


class Same(nn.Module):
    """A stand-in that has the same probabilities after every text."""

    def __init__(self, probabilities, context):
        super().__init__()
        sizes = {"n_layers": 1, "n_heads": 1, "d_model": 1}
        self.config = SimpleNamespace(vocab=len(probabilities), context=context, **sizes)
        self.probabilities = probabilities

    def forward(self, tokens, cache):
        ids = tokens[:, None, :, None].double()
        cache.update(0, ids, ids)
        return self.probabilities.log().expand(1, tokens.size(1), -1).clone()


def sometimes(following):
    """A draft that errs at every third token of the vocabulary."""
    return following % 3 == 0


DRAFTS = {"right": lambda _: False, "wrong": lambda _: True, "sometimes": sometimes}


@pytest.fixture
def text(draw):
    """A vocabulary, a prompt for it, and how much is to follow."""
    vocab, length = draw.size(11, 29), draw.size(3, 7)
    return {
        "vocab": vocab,
        "tokens": draw.integers(0, vocab - 1, 1, length),
        "max_new_tokens": draw.size(17, 23),
        "k": draw.size(3, 4),
    }


@pytest.fixture
def ending(draw, text, new):
    """A few tokens to go, which the context just holds."""
    return text | {"max_new_tokens": new, "k": draw.size(4, 6)}


@pytest.fixture
def fifths(draw):
    """Probabilities of a target and of a draft, and a prompt."""
    both, _ = rows(draw, (0.6, 0.2, 0.2, 0.0, 0.0), (0.2, 0.2, 0.2, 0.4, 0.0))
    return {"target": both[0], "draft": both[1], "prompt": draw.integers(0, 4, 1, draw.size(2, 4))}


@pytest.fixture
def small_gpt(draw):
    """Sizes of two GPTs, and a prompt."""
    heads, d_k = draw.sizes(2, 3, 2)
    vocab, length, new = draw.size(9, 14), draw.size(2, 5), draw.size(6, 9)
    return {
        "target": GPTConfig(vocab, length + new, 2, heads, heads * d_k, 11, 0.0),
        "draft": GPTConfig(vocab, length + new, 1, 1, 6, 7, 0.0),
        "tokens": draw.integers(0, vocab - 1, 1, length),
        "max_new_tokens": new,
    }


def generated(answer, text, errs, room=9, **options):
    """What an answer generates with stand-ins, and what the target was asked to read."""
    call = dict(text)
    vocab, tokens = call.pop("vocab"), call.pop("tokens")
    context = tokens.size(1) + call["max_new_tokens"] + room
    margin = options.pop("margin", math.inf)
    target, draft = (Sums(vocab, context, e, margin) for e in (DRAFTS["right"], errs))
    found = answer.speculative_generate(target, draft, tokens, **call, **options)
    return {"text": found, "passes of the target": len(target.read)}, target.read, draft.read


# --- accept_draft ---------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_agreed(answer, agreed):
    """Where target and draft agree, every proposal is accepted, and one token more follows."""
    return {"tokens": answer.accept_draft(**agreed)}


def test_liked_more(answer, liked_more):
    """A proposal that the target gives at least the draft's probability is always accepted."""
    return {"tokens": [answer.accept_draft(**liked_more) for _ in range(AGAIN)]}


@pytest.mark.on_devices
def test_ruled_out(answer, ruled_out):
    """A proposal of probability 0 is rejected, the target's token takes its place, and the rest is dropped."""
    return {"tokens": answer.accept_draft(**ruled_out)}


def test_one_left(answer, one_left):
    """A rejected proposal is replaced by a token that the draft gives too little probability."""
    return {"tokens": [answer.accept_draft(**one_left) for _ in range(AGAIN)]}


def test_acceptance(answer, twice):
    """Each proposal is accepted with probability min(1, p/q), independently of the one before it."""
    lengths = [len(answer.accept_draft(**twice)) - 1 for _ in range(DRAWS)]
    return {"accepted 0, 1, 2 times, in fifths": in_fifths(lengths, 3), "proposal": twice["draft_tokens"]}


@pytest.mark.parametrize(
    "following",
    ["a rejection", "all proposals", pytest.param("no proposal", marks=pytest.mark.watertight(NONE))],
)
def test_following(answer, after, following):
    """After a rejection a token has the share of p − q where that is positive; else the target's own."""
    last = [int(answer.accept_draft(**after)[-1]) for _ in range(DRAWS)]
    return {"last token, in fifths": in_fifths(last, after["target_probs"].size(1))}


@pytest.mark.watertight("a float64 model has float64 probabilities")
@pytest.mark.parametrize("dtype", [FLOAT64.values[0]])
def test_dtype(answer, of_dtype, dtype):
    """Probabilities may be float64; ids are int64."""
    return {"tokens": answer.accept_draft(**of_dtype)}


@pytest.mark.constant("accepts again from the same state", "touches torch's own state")
def test_generator(answer, twice, state, device):
    """Every random number comes from the generator."""
    generator = torch.Generator(device)
    own = torch.get_rng_state()
    generator.manual_seed(state)
    first = [answer.accept_draft(**twice, generator=generator).tolist() for _ in range(AGAIN)]
    touched = not torch.equal(torch.get_rng_state(), own)
    torch.manual_seed(state + 1)
    generator.manual_seed(state)
    again = [answer.accept_draft(**twice, generator=generator).tolist() for _ in range(AGAIN)]
    return {
        "accepts again from the same state": first == again,
        "touches torch's own state": touched,
        "proposal": twice["draft_tokens"],
    }


# --- speculative_generate -------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("draft", DRAFTS)
def test_text(answer, text, draft):
    """Whatever the draft proposes, the text is the target's own; only the number of passes differs."""
    return generated(answer, text, DRAFTS[draft])[0]


@pytest.mark.parametrize("draft", ["right", "sometimes"])
def test_read(answer, text, draft):
    """The caches are rolled back: the target reads the prompt once, and then what is new in each round."""
    seen, read, drafted = generated(answer, text, DRAFTS[draft])
    later = max(drafted[1:])
    return {"tokens that the target reads": read, "the draft reads 2 at most": later <= 2} | seen


@pytest.mark.parametrize("limit", ["temperature", "top_k", "top_p"])
def test_limits(answer, text, limit):
    """Temperature, top-k and top-p apply to the target and to the draft."""
    value = {"temperature": 0, "top_k": 1, "top_p": 0.0}[limit]
    return generated(answer, text, sometimes, margin=1.0, **{limit: value})[0]


@pytest.mark.watertight(EDGE)
@pytest.mark.parametrize("new", [0, 1, 3])
def test_end(answer, ending, new):
    """The last round proposes no more than can be used, and no model reads beyond its context."""
    return generated(answer, ending, DRAFTS["right"], room=0)[0]


def test_distribution(answer, fifths):
    """Proposals are drawn from the draft, and the text still has the target's distribution."""
    context = fifths["prompt"].size(1) + DRAWS
    models = [Same(fifths[name], context) for name in ("target", "draft")]
    found = answer.speculative_generate(*models, fifths["prompt"], DRAWS, 3)
    new = found[0, fifths["prompt"].size(1) :].tolist()
    return {"text, in fifths": in_fifths(new, len(fifths["target"]))}


@pytest.mark.constant("generates again from the same state", "touches torch's own state")
def test_generates_from_a_generator(answer, fifths, state, device):
    """Every random number comes from the generator: those of the draft, too."""
    models = [Same(fifths[name], 99) for name in ("target", "draft")]
    generator = torch.Generator(device)
    own = torch.get_rng_state()
    found = []
    for _ in range(2):
        generator.manual_seed(state)
        how = {"k": 3, "generator": generator}
        found.append(answer.speculative_generate(*models, fifths["prompt"], AGAIN, **how))
        touched = not torch.equal(torch.get_rng_state(), own)
        torch.manual_seed(state + 1)
        own = torch.get_rng_state()
    return {
        "generates again from the same state": torch.equal(*found),
        "touches torch's own state": touched,
        "prompt": found[0][:, : fifths["prompt"].size(1)],
    }


def test_gpt(answer, build, small_gpt):
    """With two GPTs of different sizes, at temperature 0: the target's own text."""
    given = dict(small_gpt)
    models = [build(CachedGPT, given.pop(name)).eval() for name in ("target", "draft")]
    return {"text": answer.speculative_generate(*models, **given, k=2, temperature=0)}
