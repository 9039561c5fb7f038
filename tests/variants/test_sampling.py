"""Sampling of day 24 against transformers' logits warpers, brute force over all nuclei, and χ² of draws.

Float64 has to agree to 1e-10.
"""

import itertools
import math
from types import SimpleNamespace

import pytest
import scipy.stats
import torch
from torch import nn

from tests.reference.oracles import assert_agree
from variants.gpt import GPT, GPTConfig
from variants.sampling import distribution, generate, sample

V = 11


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and tensors made in it are float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(2020)
    yield
    torch.set_default_dtype(default)


def logits(*shape, spread=2.0):
    return spread * torch.randn(*shape, V)


def warped(scores, temperature, top_k, top_p):
    """What transformers makes of the same scores, its warpers in its order."""
    process = pytest.importorskip("transformers.generation.logits_process")
    chain = [process.TemperatureLogitsWarper(temperature)]
    if top_k is not None:
        chain.append(process.TopKLogitsWarper(top_k))
    if top_p is not None:
        chain.append(process.TopPLogitsWarper(top_p))
    for warper in chain:
        scores = warper(None, scores)
    return scores.softmax(dim=-1)


# --- distribution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 4, V, V + 5])
@pytest.mark.parametrize("top_p", [None, 0.0, 0.3, 0.8, 0.97, 1.0])
def test_distribution_is_that_of_transformers(temperature, top_k, top_p):
    """In every combination, so that the order shows: top-p after top-k has fewer to choose from."""
    scores = logits(40)
    expected = warped(scores, temperature, top_k, top_p)
    assert_agree(distribution(scores, temperature, top_k, top_p), expected)


@pytest.mark.parametrize("top_k", range(1, 8))
def test_ties_at_the_kth_place_stay_as_in_transformers(top_k):
    scores = torch.tensor([[1.0, 3, 2, 2, 3, 2, 0, -1], [0.0] * 8]).log1p()
    scores[0, 7] = -math.inf  # log1p(−1): a token that never comes
    expected = warped(scores, 0.7, top_k, None)
    assert_agree(distribution(scores, 0.7, top_k), expected)
    places = 2 if top_k <= 2 else 5 if top_k <= 5 else top_k
    assert distribution(scores, 0.7, top_k)[0].count_nonzero() == places
    assert distribution(scores, 0.7, top_k)[1].count_nonzero() == 8


def test_top_p_is_the_smallest_set_that_reaches_p():
    """Of all 2⁶ sets: none smaller reaches p, and none of its size weighs more."""
    for _ in range(20):
        scores = 1.5 * torch.randn(6)
        p = float(torch.rand(()))
        whole = scores.softmax(dim=-1)
        sets = [
            (len(ids), -float(whole[list(ids)].sum()), ids)
            for size in range(1, 7)
            for ids in itertools.combinations(range(6), size)
            if float(whole[list(ids)].sum()) >= p
        ]
        ids = list(min(sets)[2])
        expected = torch.zeros(6)
        expected[ids] = whole[ids] / whole[ids].sum()
        assert_agree(distribution(scores, top_p=p), expected)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.0, 1), (0.49, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.76, 3), (0.9, 4)]
)
def test_the_token_that_crosses_p_is_in_and_equals_enter_by_id(top_p, kept):
    """1/2, 1/4, 1/8 and 1/8 are exact in binary: reaching p is enough, nothing need exceed it."""
    scores = torch.tensor([0.125, 0.5, 0.125, 0.25]).log2() * math.log(2)
    likeliest = [1, 3, 0, 2][:kept]
    actual = distribution(scores, top_p=top_p)
    assert sorted(actual.nonzero().flatten().tolist()) == sorted(likeliest)
    assert_agree(actual[likeliest], scores.exp()[likeliest] / scores.exp()[likeliest].sum())


def test_top_p_among_equals_takes_the_lower_ids():
    """With so many that an unstable sort would mix them."""
    actual = distribution(torch.zeros(2, 4096), top_p=0.5)
    assert_agree(actual, (torch.arange(4096) < 2048).double().expand(2, -1) / 2048)


def test_top_p_looks_at_what_temperature_and_top_k_have_left():
    """1/2, 1/4, 1/4 with k = 1 is certain; at τ = ½ the first alone has 2/3."""
    scores = torch.tensor([0.5, 0.25, 0.25, 0.0]).log()
    assert distribution(scores, 0.5, top_p=0.6).tolist() == [1, 0, 0, 0]
    assert distribution(scores, 1.0, top_p=0.6).count_nonzero() == 2
    assert distribution(torch.tensor([3.0, 3, 2, 1]).log(), top_k=2, top_p=0.45).tolist() == [
        1,
        0,
        0,
        0,
    ]


def test_temperature_0_is_the_likeliest_and_of_equals_the_first():
    scores = torch.tensor([[1.0, 5, 2, 5], [7, 7, 7, 7], [-math.inf, -3, -2, -9]])
    expected = torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
    for top_k, top_p in [(None, None), (3, 0.5), (1, 0.0), (9, 1.0)]:
        assert torch.equal(distribution(scores, 0, top_k, top_p), expected)
    assert_agree(distribution(scores, 1e-6)[2], expected[2])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)], ids=str)
def test_any_leading_dimensions(shape):
    scores = logits(*shape)
    before = scores.clone()
    actual = distribution(scores, 0.8, 7, 0.9)
    assert actual.shape == (*shape, V) and torch.equal(scores, before)
    rows = [distribution(row, 0.8, 7, 0.9) for row in scores.reshape(-1, V)]
    assert_agree(actual.reshape(-1, V), torch.stack(rows) if rows else torch.empty(0, V))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtype_stays_and_large_logits_do_not_overflow(dtype):
    """Scores of ±60000 at τ = 0.001 pass what float16 holds; float64 has the truth."""
    scores = torch.cat([logits(20), torch.tensor([[60000.0, -60000, *[0] * 9]])]).to(dtype)
    for temperature in (1.0, 1e-3):
        actual = distribution(scores, temperature, 9)
        expected = distribution(scores.double(), temperature, 9)
        assert actual.dtype == dtype
        # the exponent, up to 60 · 1000 here, is right to float32's rounding; the result to the dtype's
        tolerance = torch.finfo(dtype).eps + 20 / temperature * torch.finfo(torch.float32).eps
        assert (actual.double() - expected).abs().max() < tolerance


def test_a_tiny_temperature_overflows_nothing():
    scores = torch.tensor([50.0, 90, -90], dtype=torch.float32)
    assert distribution(scores, temperature=1e-37).tolist() == [0, 1, 0]


def test_top_p_1_keeps_what_rounding_would_cut():
    """In float32 the first token alone sums to 1; all the others still stay."""
    scores = torch.tensor([0.0, -18, -19, -20], dtype=torch.float32)
    assert distribution(scores, top_p=1.0).count_nonzero() == 4


@pytest.mark.parametrize("draw", [distribution, sample])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-1e-9, -1, math.nan, math.inf)),
        *(("top_k", value) for value in (0, -3)),
        *(("top_p", value) for value in (-0.1, 1.1, math.nan)),
    ],
)
def test_bad_arguments_are_refused(draw, name, value):
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        draw(logits(2), **{name: value})
    if name != "temperature":  # not even where temperature 0 makes it meaningless
        with pytest.raises(ValueError, match=f"{name}.*{value}"):
            draw(logits(2), temperature=0, **{name: value})


# --- sample ---------------------------------------------------------------------------------------


def test_draws_have_the_distribution():
    """χ² of 20000 draws: a right answer fails once in 10⁹ seeds, and what is cut never comes."""
    scores, n = logits(), 20000
    for arguments in [(1.0, None, None), (0.5, None, None), (2.0, 6, None), (1.5, 9, 0.8)]:
        expected = distribution(scores, *arguments)
        drawn = sample(scores.expand(n, V), *arguments)
        counts = torch.bincount(drawn, minlength=V)
        assert (counts[expected == 0] == 0).all()
        likely = expected * n >= 10
        statistic = ((counts - n * expected)[likely] ** 2 / (n * expected[likely])).sum()
        assert statistic < scipy.stats.chi2.isf(1e-9, int(likely.sum()))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_sample_gives_an_id_for_each_row(shape, dtype):
    scores = logits(*shape).to(dtype)
    drawn = sample(scores, 1.0, 5)
    assert drawn.shape == shape and drawn.dtype == torch.int64
    assert torch.equal(sample(scores, temperature=0), scores.argmax(dim=-1))
    assert torch.equal(sample(scores, top_k=1), scores.argmax(dim=-1))
    assert torch.equal(sample(scores, top_p=0.0), scores.argmax(dim=-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_drawn_as_float32(dtype):
    """From the same state the same ids: no probability is rounded to half precision on the way."""
    scores, generator = logits(2000).to(dtype), torch.Generator()
    drawn = sample(scores, 0.9, 8, 0.9, generator.manual_seed(1))
    assert torch.equal(drawn, sample(scores.float(), 0.9, 8, 0.9, generator.manual_seed(1)))


def test_rows_are_drawn_independently():
    drawn = sample(torch.zeros(200, 2))
    assert 0 < drawn.sum() < 200  # misses once in 2¹⁹⁹


def test_the_generator_decides():
    """Equal states draw alike and move on; torch's own is neither asked nor moved."""
    scores, generator = logits(100), torch.Generator()
    own = torch.get_rng_state()
    first = sample(scores, generator=generator.manual_seed(1))
    second = sample(scores, generator=generator)
    assert torch.equal(torch.get_rng_state(), own)
    assert torch.equal(sample(scores, generator=generator.manual_seed(1)), first)
    assert not torch.equal(first, second)


# --- generate -------------------------------------------------------------------------------------


class Counting(nn.Module):
    """A model that permits one next token, the sum of what it sees, modulo V, and remembers what it saw."""

    def __init__(self, context=4):
        super().__init__()
        self.config = SimpleNamespace(context=context)
        self.inner = nn.ModuleList([nn.Dropout(), nn.Dropout().eval()])
        self.seen = []

    def forward(self, tokens):
        assert tokens.size(1) <= self.config.context
        assert not any(module.training for module in self.modules())
        assert not torch.is_grad_enabled()
        self.seen.append(tokens.clone())
        following = tokens.cumsum(dim=1) % V
        return torch.full((*tokens.shape, V), -math.inf).scatter(2, following.unsqueeze(2), 0.0)


def modes(model):
    return [module.training for module in model.modules()]


@pytest.mark.parametrize("length", [1, 3, 4, 7])
def test_each_token_follows_from_the_last_context(length):
    """Sums written out in a loop: prompts below, at and above the context."""
    prompt = torch.randint(V, (3, length))
    rows = prompt.tolist()
    for row in rows:
        for _ in range(6):
            row.append(sum(row[-4:]) % V)
    model, before = Counting(), prompt.clone()
    assert generate(model, prompt, 6).tolist() == rows
    assert torch.equal(prompt, before) and len(model.seen) == 6
    assert [seen.size(1) for seen in model.seen] == [min(length + i, 4) for i in range(6)]


def test_generate_asks_a_gpt_as_transformers_does():
    """Greedily, a whole continuation, with a randomly started model; ours has dropout and is training."""
    transformers = pytest.importorskip("transformers")
    from variants.hugging_face import gpt2

    sizes = {"n_positions": 12, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 20}
    published = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, bos_token_id=0, eos_token_id=V, **sizes)
    )
    published = published.double().eval()
    for parameter in published.parameters():
        nn.init.normal_(parameter, std=0.5)
    model = GPT(GPTConfig(V, 12, 2, 3, 12, 20, dropout=0.5))
    model.load_state_dict(gpt2(published.state_dict()))
    prompt = torch.randint(V, (4, 3))
    expected = published.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=9,
        do_sample=False,
        pad_token_id=0,
    )
    assert torch.equal(generate(model, prompt, 9, temperature=0), expected)


def test_generate_draws_as_sample_does():
    """From the last position, with all of its arguments, one draw a step from one generator."""
    model = GPT(GPTConfig(V, 5, 1, 2, 6, 7, dropout=0.9)).eval()
    nn.init.normal_(model.embed.weight)
    prompt = torch.randint(V, (3, 4))
    actual = generate(model, prompt, 5, 1.7, 8, 0.9, torch.Generator().manual_seed(3))
    generator, expected = torch.Generator().manual_seed(3), prompt
    for _ in range(5):
        following = sample(model(expected[:, -5:])[:, -1], 1.7, 8, 0.9, generator)
        expected = torch.cat([expected, following[:, None]], dim=1)
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("training", [True, False])
def test_every_module_keeps_its_mode(training):
    """A part that was in another mode than the whole keeps it; so it is after an error."""
    model = Counting().train(training)
    model.inner[1].train(not training)
    before = modes(model)
    generate(model, torch.ones(2, 3, dtype=torch.long), 2)
    assert modes(model) == before
    with pytest.raises(ValueError, match="top_k"):
        generate(model, torch.ones(2, 3, dtype=torch.long), 2, top_k=0)
    assert modes(model) == before
    assert torch.is_grad_enabled()


def test_nothing_to_add_and_nobody_to_ask():
    prompt = torch.randint(V, (2, 3))
    assert torch.equal(generate(Counting(), prompt, 0), prompt)
    assert generate(Counting(), prompt[:0], 4).shape == (0, 7)


def test_empty_prompts_and_negative_lengths_are_refused():
    with pytest.raises(ValueError, match=r"tokens.*empty prompt"):
        generate(Counting(), torch.empty(2, 0, dtype=torch.long), 3)
    with pytest.raises(ValueError, match=r"max_new_tokens.*-1"):
        generate(Counting(), torch.ones(2, 3, dtype=torch.long), -1)
