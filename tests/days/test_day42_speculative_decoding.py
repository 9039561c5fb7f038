"""Day 42 · accept_draft, speculative_generate."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

# Shares are multiples of a fifth: a draw misses the nearer border, 0.1 away, by less than once in 10⁹ runs.
DRAWS = 1200
AGAIN = (
    200  # calls, in which whatever comes with probability 0.1 is missed less than once in 10⁹ runs
)

EDGE = "a text that ends with the context, or in the middle of a round"

# --- Inputs of accept_draft -----------------------------------------------------------------------

# At each position: the proposal, the draft's and the target's probabilities of five tokens.
EVEN = (0.4, 0.2, 0.2, 0.1, 0.1)
MORE = (0.5, 0.0, 0.3, 0.1, 0.1)  # more of tokens 0 and 2 than EVEN
SURE = (0.0, 0.0, 0.0, 0.0, 1.0)
CERTAIN = {
    "the target likes all of them more": [(0, EVEN, MORE), (2, EVEN, MORE)],
    "the second is ruled out": [(0, EVEN, MORE), (1, EVEN, (0, 0, 1, 0, 0)), (2, EVEN, MORE)],
    "one token is left": [(4, SURE, SURE), (0, (0.3, 0.3, 0.3, 0.1, 0), (0, 0.2, 0.3, 0.5, 0))],
}
HALF = [  # accepted with probability 3/5 and 2/3
    (0, (2 / 3, 0.0, 2 / 15, 0.2, 0.0), (0.4, 0.4, 2 / 15, 1 / 15, 0.0)),
    (0, (0.75, 0.05, 0.0, 0.2, 0.0), (0.5, 0.0, 0.4, 0.1, 0.0)),
]
RULED_OUT = [(0, (0.6, 0.2, 0.0, 0.2, 0.0), (0.0, 0.56, 0.24, 0.2, 0.0))]  # p − q is as 3 to 2
UNSURE = [(0, (1.0, 0, 0, 0, 0), (0.6, 0.4, 0, 0, 0))]  # rejected with probability 2/5
AGREED = [(0, (0.6, 0.4, 0, 0, 0), (1.0, 0, 0, 0, 0))]
FOLLOWING = {
    "a rejection": (RULED_OUT, SURE),
    "a rejection at times": (UNSURE, SURE),
    "all proposals": (AGREED, (0.6, 0, 0.4, 0, 0)),
}
# The draft's and the target's probabilities, and the limits after which the target's are fifths.
SOFT = {
    "no limits": ((0.2, 0.2, 0.2, 0.4, 0.0), (0.6, 0.2, 0.2, 0.0, 0.0), {}),
    "temperature": (
        (0.38**4, 0.43**4, 0.19**4, 0.0, 0.0),
        (0.2**4, 0.6**4, 0.2**4, 0.0, 0.0),
        {"temperature": 4.0},
    ),
    "top_k": ((0.37, 0.17, 0.17, 0.29, 0.0), (0.36, 0.24, 0.19, 0.21, 0.0), {"top_k": 2}),
}


def drafted(draw, positions, last=SURE):
    """The arguments of `accept_draft`: five tokens among others, in a new order."""
    order = draw.normal(5 + draw.size(0, 3)).argsort()

    def rows(shares):
        probs = torch.zeros(len(shares), len(order))
        probs[:, order[:5]] = torch.tensor(shares, dtype=probs.dtype).reshape(-1, 5)
        return probs

    return {
        "draft_tokens": order[[token for token, _, _ in positions]],
        "draft_probs": rows([q for _, q, _ in positions]),
        "target_probs": rows([*(p for _, _, p in positions), last]),
    }


@pytest.fixture
def certain(draw, case):
    """Proposals about which nothing is left to chance."""
    return drafted(draw, CERTAIN[case])


@pytest.fixture
def twice(draw):
    """Two proposals that the target accepts with probability 3/5 and 2/3, and a token that must follow."""
    return drafted(draw, HALF)


@pytest.fixture
def after(draw, following):
    """What follows has shares of three fifths and two fifths."""
    return drafted(draw, *FOLLOWING[following])


@pytest.fixture
def state(draw):
    """Where a generator begins."""
    return draw.size(0, 10**6)


def in_fifths(ids, size):
    """How often each id came, in fifths of all."""
    counts = torch.bincount(torch.tensor(ids), minlength=size)
    return (5 * counts / len(ids)).round().long()


def from_a_generator(call, state, device):
    """What a call returns from equal states of a generator, and whether torch's own state takes part."""
    generator, results = torch.Generator(device), []
    for seed in (state, state + 1):
        torch.manual_seed(seed)
        own = torch.get_rng_state()
        results.append(call(generator.manual_seed(state)))
        touched = not torch.equal(torch.get_rng_state(), own)
    return {
        "the same from the same state": results[0] == results[1],
        "touches torch's own state": touched,
    }


# --- Models ---------------------------------------------------------------------------------------

SIZES = {"n_layers": 1, "n_heads": 1, "d_model": 1}


class Sums(nn.Module):
    """A stand-in for a language model with a cache: after each text it prefers a single token.

    Which one depends on all tokens that it has read, and on their places. A draft errs at some of them,
    and may return its last row alone, as `PromptLookup` does.
    """

    def __init__(self, vocab, context, errs, margin, width, rows=None):
        super().__init__()
        sizes = SIZES | {"d_model": width}
        self.config = SimpleNamespace(vocab=vocab, context=context, **sizes)
        self.errs, self.margin, self.rows, self.read = errs, margin, rows, []

    def forward(self, tokens, cache):
        self.read.append(tokens.size(1))
        past = cache.length
        if past + tokens.size(1) > self.config.context:
            raise ValueError(f"at most {self.config.context} tokens can be read")
        entries = tokens[:, None, :, None].double().expand(-1, -1, -1, self.config.d_model)
        text = cache.update(0, entries, entries)[0][0, 0, :, 0].long()
        places = torch.arange(1, len(text) + 1, device=text.device)
        following = ((text * places).cumsum(dim=0) + places) % self.config.vocab
        wrong = torch.tensor([self.errs(token) for token in following.tolist()], device=text.device)
        following = ((following + wrong.long()) % self.config.vocab)[past:]
        shape = 1, tokens.size(1), self.config.vocab
        logits = torch.full(shape, -self.margin, device=text.device)
        return logits.scatter(2, following[None, :, None], 0.0)[:, -(self.rows or 0) :]


class Same(nn.Module):
    """A stand-in that has the same probabilities after every text."""

    def __init__(self, probabilities):
        super().__init__()
        self.config = SimpleNamespace(vocab=len(probabilities), context=9999, **SIZES)
        self.probabilities = probabilities

    def forward(self, tokens, cache):
        cache.update(0, *[tokens[:, None, :, None].double()] * 2)
        return self.probabilities.log().expand(1, tokens.size(1), -1).clone()


ERRS = {"right": lambda _: False, "wrong": lambda _: True, "sometimes": lambda one: one % 3 == 0}


@pytest.fixture
def text(draw):
    """A vocabulary, a prompt for it, how much is to follow, and how much is proposed."""
    vocab, length = draw.size(11, 29), draw.size(3, 7)
    tokens = draw.integers(0, vocab - 1, 1, length)
    return {
        "tokens": tokens,
        "max_new_tokens": draw.size(17, 23),
        "k": draw.size(3, 4),
        "vocab": vocab,
    }


@pytest.fixture
def limit():
    """What limits the models, unless a check says otherwise."""
    return "no limits"


@pytest.fixture
def soft(draw, limit):
    """Two models that are not sure, and a prompt."""
    draft, target, _ = SOFT[limit]
    given = drafted(draw, [(0, draft, target)])
    prompt = draw.integers(0, 4, 1, draw.size(2, 4))
    return {"target": given["target_probs"][0], "draft": given["draft_probs"][0], "prompt": prompt}


def generated(answer, text, draft, room=9, margin=math.inf, **options):
    """What an answer generates with stand-ins, and what target and draft were asked to read."""
    *call, vocab = text.values()
    context = call[0].size(1) + call[1] + room
    models = [
        Sums(vocab, context, ERRS[name], margin, width, rows)
        for name, width, rows in (("right", 3, None), (draft, 2, 1))
    ]
    output = answer.speculative_generate(*models, *call, **options)
    return {"text": output, "passes of the target": len(models[0].read)}, *(
        model.read for model in models
    )


# --- accept_draft ---------------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("case", CERTAIN)
def test_certain(answer, certain, case):
    """A proposal that is at least as likely under the target is accepted; an impossible one is
    replaced, and ends the round."""
    results = [answer.accept_draft(**certain) for _ in range(AGAIN)]
    different = {tuple(text.tolist()): text for text in results}
    return {"all results that come": [different[ids] for ids in sorted(different)]}


@pytest.mark.constant("0, 1 and 2 accepted, in fifths", "the probabilities are the same each time")
def test_acceptance(answer, twice):
    """Each proposal is accepted with probability min(1, p/q), independently of the previous one."""
    lengths = [len(answer.accept_draft(**twice)) - 1 for _ in range(DRAWS)]
    shares = in_fifths(lengths, 3)
    return {"0, 1 and 2 accepted, in fifths": shares, "proposal": twice["draft_tokens"]}


@pytest.mark.parametrize("following", FOLLOWING)
def test_following(answer, after, following):
    """After a rejection, the token is drawn from the positive part of p − q; otherwise from the target."""
    last = [int(answer.accept_draft(**after)[-1]) for _ in range(DRAWS)]
    return {"last token, in fifths": in_fifths(last, after["target_probs"].size(1))}


@pytest.mark.constant(
    "the same from the same state", "touches torch's own state", "the generator decides"
)
def test_generator(answer, twice, state, device):
    """Every random number comes from the generator."""

    def call(generator):
        return [answer.accept_draft(**twice, generator=generator).tolist() for _ in range(AGAIN)]

    return from_a_generator(call, state, device) | {"proposal": twice["draft_tokens"]}


# --- speculative_generate -------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("draft", ERRS)
def test_text(answer, text, draft):
    """Whatever the draft proposes, the text is the target's; only the number of passes differs."""
    return generated(answer, text, draft)[0]


@pytest.mark.parametrize("draft", ["right", "sometimes"])
@pytest.mark.constant("the draft reads 2 at most", "its cache is rolled back, too")
def test_read(answer, text, draft):
    """The caches are rolled back: the target reads the prompt once, and then only new tokens in each
    round."""
    observed, read, drafted = generated(answer, text, draft)
    return observed | {
        "tokens that the target reads": " ".join(map(str, read)),
        "the draft reads 2 at most": max(drafted[1:]) <= 2,
    }


@pytest.mark.parametrize("limit", ["temperature", "top_k", "top_p"])
@pytest.mark.constant("the target's own text", "at most half as many passes", "there is no other")
def test_limits(answer, text, limit):
    """Temperature, top-k and top-p apply to the target and to the draft."""
    value = {"temperature": 0, "top_k": 1, "top_p": 0.0}[limit]
    own = generated(answer, text, "right")[0]["text"]
    observed, read, _ = generated(answer, text, "right", margin=1.0, **{limit: value})
    return {
        "the target's own text": torch.equal(observed["text"], own),
        "at most half as many passes": 2 * len(read) <= text["max_new_tokens"],
        "text without limits": own,
    }


@pytest.mark.watertight(EDGE)
@pytest.mark.parametrize("new", [0, 1, 3])
def test_end(answer, text, new):
    """The last round proposes only as many tokens as can be used, and no model reads beyond its context."""
    observed = generated(answer, text | {"max_new_tokens": new, "k": 5}, "right", room=0)[0]
    numbers = [*observed["text"][0].tolist(), observed["passes of the target"]]
    return {"text, and passes of the target": " ".join(map(str, numbers))}


@pytest.mark.parametrize("limit", SOFT)
def test_distribution(answer, soft, limit):
    """Proposals are drawn from the draft, and the text still has the target's distribution."""
    models = [Same(soft[name]) for name in ("target", "draft")]
    limits = SOFT[limit][2]
    texts = answer.speculative_generate(*models, soft["prompt"], DRAWS, 6, **limits)
    new = texts[0, soft["prompt"].size(1) :].tolist()
    return {"text, in fifths": in_fifths(new, len(soft["target"]))}


@pytest.mark.constant(
    "the same from the same state", "touches torch's own state", "the generator decides"
)
def test_generates_from_a_generator(answer, soft, state, device):
    """Every random number comes from the generator, including the draft's."""
    models = [Same(soft[name]) for name in ("target", "draft")]

    def call(generator):
        how = {"k": 3, "generator": generator}
        return answer.speculative_generate(*models, soft["prompt"], AGAIN, **how).tolist()

    return from_a_generator(call, state, device) | {"prompt": soft["prompt"]}
