"""Day 42: speculative decoding against the target's own distribution, and its own text at temperature 0."""

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
from variants.speculative import PromptLookup, speculative_generate

pytestmark = pytest.mark.usefixtures("float64")

SIZES = {"vocab": 11, "context": 40, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 13}
GPT = CachedGPT, GPTConfig(**SIZES, dropout=0.0)
LLAMA = LLaMA, LLaMAConfig(**SIZES, n_kv_heads=1)


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
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].size(1)))
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draft", "k", "how"),
    [("table", 3, {}), ("table", 1, {"temperature": 0.7, "top_k": 2}), ("lookup", 2, {})],
)
def test_texts_have_the_distribution_of_the_target(draft, k, how):
    """All 27 texts of three tokens against their exact probabilities: a right answer fails once in 10⁹."""
    logits, draft_logits = torch.randn(2, 3, 3)
    helper = Table(draft_logits) if draft == "table" else PromptLookup(3, 9)
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
