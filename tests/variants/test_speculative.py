"""Day 42: speculative decoding against the target's own distribution, and its own text at temperature 0."""

import itertools
from types import SimpleNamespace

import pytest
import scipy.stats
import torch
from torch import nn

from tests.reference.oracles import randomized
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT, generate_cached, new_cache
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import distribution
from variants.speculative import PromptLookup, accept_draft, speculative_generate

SIZES = {"vocab": 11, "context": 40, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 13}
GPT = CachedGPT, GPTConfig(**SIZES, dropout=0.0)
LLAMA = LLaMA, LLaMAConfig(**SIZES, n_kv_heads=1)


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
        self.config = SimpleNamespace(context=9, n_layers=1, n_heads=1, d_model=1)

    def forward(self, tokens, cache):
        cache.update(0, *[tokens[:, None, :, None].double()] * 2)
        return self.logits[tokens]


def made(kind):
    make, config = kind
    return randomized(make(config)).eval()


def passes(model):
    """The number of tokens that a model is given at each call from now on."""
    sizes = []
    model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].size(1)))
    return sizes


@pytest.mark.parametrize(
    ("p", "q"), [("43221", "12324"), ("60330", "06312"), ("93000", "33330"), ("33222", "33222")]
)
def test_twelfths_are_counted(monkeypatch, p, q):
    """All proposals and twelve equally likely values of the uniform number: the result has distribution p,
    and the acceptance rate is 1 minus the total variation distance."""
    p, q = (torch.tensor([*map(int, one)]) / 12 for one in (p, q))
    found, accepted, drawn_from = torch.zeros(5), 0.0, []

    def multinomial(weights, count, generator=None):
        drawn_from[:] = [weights / weights.sum()]
        return torch.tensor([0])

    monkeypatch.setattr(torch, "multinomial", multinomial)
    for x, place in itertools.product(q.nonzero()[:, 0].tolist(), range(12)):
        uniform = torch.tensor([(place + 0.5) / 12])
        monkeypatch.setattr(torch, "rand", lambda *_, u=uniform, **__: u)
        new = accept_draft(torch.tensor([x]), q[None], torch.stack([p, p]))
        kept = len(new) == 2
        found += q[x] / 12 * (torch.eye(5)[x] if kept else drawn_from[0])
        accepted += q[x] / 12 * kept
    torch.testing.assert_close(found, p)
    assert accepted == pytest.approx(1 - (p - q).abs().sum() / 2)


def test_nothing_is_left_where_two_distributions_differ_by_rounding(monkeypatch):
    p, q = torch.tensor([[0.5 - 1e-16, 0.5], [0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([1 - 1e-16]))
    assert len(accept_draft(torch.tensor([0]), q, p)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draft", "k", "how"),
    [("table", 3, {}), ("table", 1, {"temperature": 0.7, "top_k": 2}), ("lookup", 2, {})],
)
def test_texts_have_the_distribution_of_the_target(draft, k, how):
    """All 27 texts of three tokens against their exact probabilities: a right answer fails once in 10⁹."""
    logits, others = torch.randn(2, 3, 3)
    helper = Table(others) if draft == "table" else PromptLookup(3, 9)
    rows, counts, n = distribution(logits, **how), torch.zeros(3, 3, 3), 1500
    for _ in range(n):
        text = speculative_generate(
            Table(logits), helper, torch.tensor([[0, 1, 2, 0]]), 3, k, **how
        )
        counts[tuple(text[0, 4:])] += 1
    expected = n * rows[0][:, None, None] * rows[:, :, None] * rows
    assert counts[expected == 0].sum() == 0
    likely = expected >= 5
    statistic = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert statistic < scipy.stats.chi2.isf(1e-9, int(likely.sum()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GPT, LLAMA], ids=["gpt", "llama"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_at_temperature_0_it_is_the_targets_own_text(kind, k):
    target = made(kind)
    similar = kind[0](kind[1]).eval()
    state = target.state_dict()
    similar.load_state_dict({name: w + 0.05 * torch.randn(w.shape) for name, w in state.items()})
    for draft in (made(GPT), target, similar, PromptLookup(11, 40)):
        for length, new in ((1, 20), (7, 33), (3, 1), (4, 0)):
            tokens = torch.randint(11, (1, length))
            got = speculative_generate(target, draft, tokens, new, k, temperature=0)
            assert torch.equal(got, generate_cached(target, tokens, new, temperature=0))


@pytest.mark.parametrize(("k", "sizes"), [(1, [6, 2, 2, 2, 2]), (4, [9, 5]), (20, [14])])
def test_a_perfect_draft_gives_k_plus_one_tokens_a_pass_and_nothing_is_read_twice(k, sizes):
    target, draft = made(GPT), made(GPT)
    draft.load_state_dict(target.state_dict())
    read, drafted = passes(target), passes(draft)
    speculative_generate(target, draft, torch.randint(11, (1, 5)), 10, k, temperature=0)
    assert read == sizes
    assert sum(drafted) <= 5 + 10 - 1


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
    assert torch.equal(logits.softmax(dim=-1), torch.eye(11)[following, None, None])


@pytest.mark.parametrize(
    "size", [(2, 3, 1, 4), (1, 0, 1, 4), (1, 3, -1, 4), (1, 3, 1, 0), (1, 3, 38, 4)]
)
def test_bad_arguments(size):
    *shape, new, k = size
    with pytest.raises(ValueError, match=r"must be|must fit into the context of both models"):
        speculative_generate(made(GPT), made(GPT), torch.zeros(shape).long(), new, k)
    for rows, vocab in ((2, 3), (3, 4)):
        with pytest.raises(ValueError, match=r"\(k \+ 1, V\)"):
            accept_draft(torch.zeros(2).long(), torch.ones(2, 3), torch.ones(rows, vocab))
