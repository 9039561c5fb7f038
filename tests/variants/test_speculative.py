"""Day 42: speculative decoding against the target's own distribution, and its own text at temperature 0.

A miss of a statistical test has a probability below 10⁻⁹.
"""

import itertools
from types import SimpleNamespace

import pytest
import scipy.stats
import torch
from torch import nn

from tests.reference.oracles import randomised
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT, generate_cached, new_cache
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import distribution
from variants.speculative import PromptLookup, accept_draft, roll_back, speculative_generate

SIZES = {"vocab": 11, "context": 40, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 13}
GPT_CONFIG = GPTConfig(**SIZES, dropout=0.0)
LLAMA_CONFIG = LLaMAConfig(**SIZES, n_kv_heads=1)


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and tensors made in it are float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(42)
    yield
    torch.set_default_dtype(default)


class Table(nn.Module):
    """A model of three tokens: the logits depend on the last token alone."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits  # (V, V)
        self.config = SimpleNamespace(vocab=3, context=9, n_layers=1, n_heads=1, d_model=1)

    def forward(self, tokens, cache):
        cache.update(0, *[tokens[:, None, :, None].double()] * 2)
        return self.logits[tokens]


def passes(model):
    """The number of tokens that a model is given at each call from now on."""
    sizes = []
    model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].size(1)))
    return sizes


# --- The algorithm --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([4, 3, 2, 2, 1], [1, 2, 3, 2, 4]),
        ([6, 0, 3, 3, 0], [0, 6, 3, 1, 2]),
        ([12, 0, 0, 0, 0], [3, 3, 3, 3, 0]),
        ([3, 3, 2, 2, 2], [3, 3, 2, 2, 2]),
    ],
)
def test_twelfths_are_counted(monkeypatch, p, q):
    """All proposals and twelve equally likely values of the uniform number, counted: the result is p to the
    last bit but rounding, and the acceptance rate is 1 minus the total variation distance."""
    p, q = torch.tensor(p) / 12, torch.tensor(q) / 12
    found, accepted, drawn_from = torch.zeros(5), 0.0, []

    def multinomial(weights, count, generator=None):
        drawn_from[:] = [weights / weights.sum()]
        return torch.tensor([0])

    monkeypatch.setattr(torch, "multinomial", multinomial)
    for x, place in itertools.product(range(5), range(12)):
        uniform = torch.tensor([(place + 0.5) / 12])
        monkeypatch.setattr(torch, "rand", lambda *_, u=uniform, **__: u)
        if q[x]:
            new = accept_draft(torch.tensor([x]), q[None], torch.stack([p, p]))
            weight = q[x] / 12
            if len(new) == 2:
                found[x] += weight
                accepted += weight
            else:
                found += weight * drawn_from[0]
    torch.testing.assert_close(found, p)
    assert accepted == pytest.approx(1 - (p - q).abs().sum() / 2)


@pytest.mark.by_turn
@pytest.mark.parametrize(
    ("draft", "k", "how"),
    [("table", 3, {}), ("table", 1, {"temperature": 0.7, "top_k": 2}), ("lookup", 2, {})],
)
def test_texts_have_the_distribution_of_the_target(draft, k, how):
    """All 81 texts of four tokens, against their probabilities by the product of the table's rows."""
    logits, others = torch.randn(2, 3, 3)
    target = Table(logits)
    helper = Table(others) if draft == "table" else PromptLookup(3, 9)
    rows = distribution(logits, **how)
    generator = torch.Generator().manual_seed(1)
    start = torch.tensor([[0, 1, 2, 0]])
    counts = torch.zeros(3, 3, 3, 3)
    for _ in range(1500):
        text = speculative_generate(target, helper, start, 4, k, **how, generator=generator)
        counts[tuple(text[0, 4:])] += 1
    steps = rows[0][:, None, None, None], rows[:, :, None, None], rows[:, :, None], rows
    expected = steps[0] * steps[1] * steps[2] * steps[3]
    assert counts[expected == 0].sum() == 0
    frequent = expected * 1500 >= 5  # where χ² is a good approximation; the others are one class
    pairs = [torch.cat([one[frequent], one[~frequent].sum()[None]])
             for one in (counts, expected * 1500)]  # fmt: skip
    seen, wanted = (one[pairs[1] > 0] for one in pairs)
    assert scipy.stats.chisquare(seen, wanted).pvalue > 1e-9


def test_nothing_is_left_where_two_distributions_differ_by_rounding(monkeypatch):
    q = torch.tensor([[0.5, 0.5]])
    p = q.clone()
    p[0, 0] -= 1e-16
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([1 - 1e-16]))
    assert len(accept_draft(torch.tensor([0]), q, torch.cat([p, p]))) == 1


# --- The text -------------------------------------------------------------------------------------

TARGETS = {"gpt": (CachedGPT, GPT_CONFIG), "llama": (LLaMA, LLAMA_CONFIG)}


@pytest.mark.by_turn
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("draft", ["other", "itself", "similar", "lookup"])
def test_at_temperature_0_it_is_the_targets_own_text(kind, k, draft):
    make, config = TARGETS[kind]
    target = randomised(make(config)).eval()
    drafts = {
        "other": lambda: randomised(CachedGPT(GPT_CONFIG)).eval(),
        "itself": lambda: target,
        "similar": lambda: nudged(target),
        "lookup": lambda: PromptLookup(11, 40),
    }
    helper = drafts[draft]()
    for length, new in ((1, 20), (7, 33), (3, 1), (4, 0)):
        tokens = torch.randint(11, (1, length))
        got = speculative_generate(target, helper, tokens, new, k, temperature=0)
        assert torch.equal(got, generate_cached(target, tokens, new, temperature=0))


def nudged(model):
    """A model with slightly different weights."""
    other = type(model)(model.config).eval()
    state = model.state_dict()
    other.load_state_dict({name: w + 0.05 * torch.randn(w.shape) for name, w in state.items()})
    return other


@pytest.mark.parametrize(("k", "sizes"), [(1, [6, 2, 2, 2, 2]), (4, [9, 5]), (20, [14])])
def test_a_perfect_draft_gives_k_plus_one_tokens_a_pass_and_nothing_is_read_twice(k, sizes):
    target = randomised(CachedGPT(GPT_CONFIG)).eval()
    read = passes(target)
    draft = randomised(CachedGPT(GPT_CONFIG)).eval()
    draft.load_state_dict(target.state_dict())
    drafted = passes(draft)
    speculative_generate(target, draft, torch.randint(11, (1, 5)), 10, k, temperature=0)
    assert read == sizes
    assert sum(drafted) <= 5 + 10 - 1


def test_a_draft_that_is_always_wrong_costs_no_token():
    logits = torch.eye(3).roll(1, dims=1) * 40  # 0 → 1 → 2 → 0
    target, draft = Table(logits), Table(logits.roll(1, dims=1))
    read = passes(target)
    text = speculative_generate(target, draft, torch.tensor([[0]]), 6, 2)
    assert text.tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert read == [3, 3, 3, 3, 2, 1]


# --- What it needs --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 3, 6, 9])
def test_a_cache_that_is_rolled_back_continues_as_one_that_read_no_more(length):
    model = randomised(CachedGPT(GPT_CONFIG)).eval()
    text = torch.randint(11, (1, 6))
    cache = new_cache(GPT_CONFIG, 1, 9)
    model(text, cache)
    roll_back(cache, length)
    kept = min(length, 6)
    assert (cache.length, cache.lengths) == (kept, [kept] * 2)
    torch.testing.assert_close(model(text[:, :2], cache)[:, -1],
                               model(torch.cat([text[:, :kept], text[:, :2]], dim=1))[:, -1])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ([7, 8, 9, 1, 7, 8], 9),  # two tokens again
        ([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 4),  # three, and not the later place of two
        ([3, 1, 3, 2, 3], 2),  # the latest place
        ([5, 6, 7], 7),  # no place
        ([4], 4),
    ],
)
def test_lookup(text, following):
    draft = PromptLookup(11, 40)
    cache = new_cache(draft.config, 1, 20)
    for token in text:
        logits = draft(torch.tensor([[token]]), cache)
    expected = torch.zeros(1, 1, 11)
    expected[..., following] = 1
    assert torch.equal(logits.softmax(dim=-1), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: speculative_generate(m, m, torch.zeros(2, 3).long(), 1), r"\(1, T\)"),
        (lambda m: speculative_generate(m, m, torch.zeros(1, 0).long(), 1), r"T ≥ 1"),
        (lambda m: speculative_generate(m, m, torch.zeros(1, 3).long(), -1), "at least 0, got -1"),
        (lambda m: speculative_generate(m, m, torch.zeros(1, 3).long(), 1, 0), "k must be"),
        (lambda m: speculative_generate(m, m, torch.zeros(1, 3).long(), 38), r"40, got 3 \+ 38"),
        (
            lambda m: accept_draft(torch.zeros(2).long(), torch.ones(2, 3), torch.ones(2, 3)),
            "k \\+",
        ),
        (lambda m: roll_back(new_cache(m.config, 1, 3), -1), "length must be"),
        (lambda m: PromptLookup(3, 9, 0), "n must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(CachedGPT(GPT_CONFIG))
