"""Day 48 beside exact gradients on 27 answers, DeepSeekMath's equations in plain loops, and their edges."""

import itertools
import math

import pytest
import torch

from tests.reference.oracles import randomized
from variants.gpt import GPTConfig
from variants.kv_cache import CachedGPT
from variants.policy_gradient import (
    answer_log_probs,
    group_advantages,
    kl_penalty,
    policy_loss,
    sample_answers,
)

ANSWERS = torch.tensor(
    list(itertools.product(range(3), repeat=3))
)  # (27, 3): three tokens of three


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and tensors made in it are float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(48)
    yield
    torch.set_default_dtype(default)


@pytest.fixture
def policy():
    """Logits of each token, given the one before it (3 is the beginning)."""
    return torch.randn(4, 3, requires_grad=True)


def log_probs_of(policy, answers=ANSWERS):
    """The log-probability of each token."""
    before = torch.cat([torch.full((len(answers), 1), 3), answers[:, :-1]], dim=1)
    return policy.log_softmax(-1)[before, answers]


def everything(policy, reward):
    """Every answer as if drawn as often as it is likely: its log-probabilities, share and reward."""
    log_probs = log_probs_of(policy)
    return log_probs, log_probs.sum(-1).exp(), reward


def gradient(value, policy):
    return torch.autograd.grad(value, policy, retain_graph=True)[0]


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_the_gradient_is_that_of_the_expected_reward(policy, baseline):
    """Weighted by its share of the 27 answers; a constant baseline changes nothing."""
    log_probs, share, reward = everything(policy, torch.randn(27))
    exact = gradient((share * reward).sum(), policy)
    weights = 27 * share.detach() * (reward - baseline)  # the loss is a mean over the 27
    mask = torch.ones(27, 3, dtype=torch.bool)
    ours = gradient(policy_loss(log_probs, log_probs, weights, mask), policy)
    torch.testing.assert_close(-ours, exact)


def test_kl_penalty_estimates_the_kl_divergence(policy):
    """Its mean over all tokens, each as often as it is sampled, is the divergence of the answers."""
    log_probs, share, _ = everything(policy, None)
    reference = log_probs_of(torch.randn(4, 3))
    exact = (share * (log_probs - reference).sum(-1)).sum()
    one_by_one = [
        kl_penalty(row[None], other[None], torch.ones(1, 3, dtype=torch.bool))
        for row, other in zip(log_probs, reference, strict=True)
    ]
    torch.testing.assert_close((share * torch.stack(one_by_one)).sum(), exact)
    assert min(one_by_one) > 0


@pytest.mark.parametrize("clip", [0.0, 0.2, 1.5])
def test_equations_3_and_4_of_deepseekmath(clip):
    """In loops over groups, answers and tokens, and the gradients by hand."""
    p, g, t = 2, 4, 5
    new = torch.randn(p, g, t, requires_grad=True)
    old, reference = torch.randn(p, g, t), torch.randn(p, g, t)
    lengths = torch.tensor([[5, 1, 3, 2], [4, 4, 0, 5]])
    mask = torch.arange(t) < lengths[..., None]
    advantages = torch.randn(p, g)
    loss, expected, kl = policy_loss(new, old, advantages, mask, clip), 0.0, 0.0
    slopes = torch.zeros(p, g, t)
    for i, j in itertools.product(range(p), range(g)):
        for s in range(int(lengths[i, j])):
            ratio, advantage = math.exp((new.detach() - old)[i, j, s]), advantages[i, j].item()
            clipped = min(max(ratio, 1 - clip), 1 + clip)
            expected -= min(ratio * advantage, clipped * advantage) / (p * g)
            if ratio * advantage <= clipped * advantage:
                slopes[i, j, s] = -ratio * advantage / (p * g)
            other = math.exp((reference - new.detach())[i, j, s])
            kl += (other - math.log(other) - 1) / (p * g)
    torch.testing.assert_close(loss.item(), expected)
    torch.testing.assert_close(gradient(loss, new), slopes)
    torch.testing.assert_close(kl_penalty(new, reference, mask).item(), kl)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_padding_may_hold_anything(value):
    new = torch.tensor([[-1.0, value], [-2.0, -0.5]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    old = new.detach() - 0.1
    loss = policy_loss(new, old, torch.tensor([1.0, -1.0]), mask) + kl_penalty(new, old, mask)
    assert loss.isfinite()
    found = gradient(loss, new)
    assert found.isfinite().all() and found[0, 1] == 0


def test_advantages():
    rewards = torch.rand(3, 5, 7)
    found = group_advantages(rewards)
    torch.testing.assert_close(found.mean(-1), torch.zeros(3, 5))
    torch.testing.assert_close(found.std(-1), torch.ones(3, 5))
    torch.testing.assert_close(group_advantages(5 * rewards - 3), found)
    same = torch.full((2, 7), 0.1, dtype=torch.float32)  # its mean in float32 is not 0.1
    assert (group_advantages(same) == 0).all() and group_advantages(same[:, :1]).tolist() == [
        [0]
    ] * 2


def test_sampled_answers_and_their_probabilities():
    """An answer's tokens end with the first `end`, and have the probabilities they were drawn with."""
    model = randomized(CachedGPT(GPTConfig(5, 12, 2, 2, 8, 16, dropout=0.0))).eval()
    prompts = torch.randint(5, (3, 4))
    draws = torch.Generator().manual_seed(1)
    answers, mask = sample_answers(model, prompts, 6, 7, end=2, generator=draws)
    assert answers.shape == mask.shape == (3, 6, 7)
    for answer, marked in zip(
        answers.flatten(0, 1).tolist(), mask.flatten(0, 1).tolist(), strict=True
    ):
        length = answer.index(2) + 1 if 2 in answer else 7
        assert marked == [True] * length + [False] * (7 - length)
    assert not mask.all() and mask.all(-1).any()
    text = torch.cat([prompts[1], answers[1, 3]])
    one = model(text[None, :-1]).log_softmax(-1)[0, 3:]
    torch.testing.assert_close(
        answer_log_probs(model, prompts, answers)[1, 3], one[torch.arange(7), answers[1, 3]]
    )


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (r"log_probs must have the shape of mask, \(2, 3\), got \(2, 1\)", {"log_probs": (2, 1)}),
        (r"old_log_probs must have the shape", {"old_log_probs": (3,)}),
        (r"one per answer, \(2,\), got \(2, 3\)", {"advantages": (2, 3)}),
    ],
)
def test_shapes_that_do_not_fit(message, change):
    shapes = {"log_probs": (2, 3), "old_log_probs": (2, 3), "advantages": (2,), "mask": (2, 3)}
    given = {name: torch.zeros(shape) for name, shape in (shapes | change).items()}
    given["mask"] = given["mask"] == 0
    with pytest.raises(ValueError, match=message):
        policy_loss(**given)


def test_a_clip_below_0():
    zeros = torch.zeros(1, 1)
    with pytest.raises(ValueError, match="clip must be at least 0, got -1"):
        policy_loss(zeros, zeros, torch.zeros(1), zeros == 0, clip=-1)


def test_rewards_in_half_precision():
    """The square of a small difference is 0 in float16."""
    rewards = torch.tensor([1e-4, 2e-4], dtype=torch.float16)
    half = math.sqrt(0.5)
    expected = torch.tensor([-half, half], dtype=torch.float32)
    torch.testing.assert_close(group_advantages(rewards), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_in_half_precision(dtype):
    """They are those of the rounded inputs, in float32."""
    new, old = torch.randn(2, 3, 200).mul(0.3).to(dtype)
    advantages, mask = torch.randn(3).to(dtype), torch.rand(3, 200) < 0.8
    policy = policy_loss(new, old, advantages, mask), kl_penalty(new, old, mask)
    wide = new.double(), old.double()
    exact = policy_loss(*wide, advantages.double(), mask), kl_penalty(*wide, mask)
    for result, expected in zip(policy, exact, strict=True):
        assert result.dtype == torch.float32
        torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4])
def test_the_penalty_of_nearly_equal_models(size):
    """x²/2 where x is small, in float32 too, where eˣ − x − 1 is rounding; and never negative."""
    change = size * torch.randn(1, 100, dtype=torch.float32)
    mask = torch.ones(1, 100, dtype=torch.bool)
    exact = (change.double().expm1() - change.double()).sum()
    result = kl_penalty(torch.zeros_like(change), change, mask)
    torch.testing.assert_close(result.double(), exact, rtol=0.05, atol=0)
    assert min(kl_penalty(torch.zeros(1, 1), x.view(1, 1), mask[:, :1]) for x in change[0]) >= 0
