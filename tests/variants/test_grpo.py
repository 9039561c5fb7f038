"""Day 48 against exact gradients and divergences over 27 answers; sampled answers and their probabilities."""

import itertools

import pytest
import torch

from tests.reference.oracles import randomized
from variants.gpt import GPTConfig
from variants.grpo import answer_log_probs, kl_penalty, policy_loss, sample_answers
from variants.kv_cache import CachedGPT

pytestmark = pytest.mark.usefixtures("float64")

ANSWERS = torch.tensor(list(itertools.product(range(3), repeat=3)))  # (27, 3)


@pytest.fixture
def policy():
    """Logits of each token, given the one before it (3 is the beginning)."""
    return torch.randn(4, 3, requires_grad=True)


def log_probs_of(policy, answers=ANSWERS):
    """The log-probability of each token."""
    before = torch.cat([torch.full((len(answers), 1), 3), answers[:, :-1]], dim=1)
    return policy.log_softmax(-1)[before, answers]


def gradient(value, policy):
    return torch.autograd.grad(value, policy, retain_graph=True)[0]


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_the_gradient_is_that_of_the_expected_reward(policy, baseline):
    """Weighted by its share of the 27 answers; a constant baseline changes nothing."""
    log_probs, reward = log_probs_of(policy), torch.randn(27)
    share = log_probs.sum(-1).exp()
    exact = gradient((share * reward).sum(), policy)
    weights = 27 * share.detach() * (reward - baseline)  # the loss is a mean over the 27
    mask = torch.ones(27, 3, dtype=torch.bool)
    ours = gradient(policy_loss(log_probs, log_probs, weights, mask), policy)
    torch.testing.assert_close(-ours, exact)


def test_kl_penalty_estimates_the_kl_divergence(policy):
    """Its mean over all tokens, each as often as it is sampled, is the divergence of the answers."""
    log_probs = log_probs_of(policy)
    share = log_probs.sum(-1).exp()
    reference = log_probs_of(torch.randn(4, 3))
    exact = (share * (log_probs - reference).sum(-1)).sum()
    one_by_one = [
        kl_penalty(row[None], other[None], torch.ones(1, 3, dtype=torch.bool))
        for row, other in zip(log_probs, reference, strict=True)
    ]
    torch.testing.assert_close((share * torch.stack(one_by_one)).sum(), exact)
    assert min(one_by_one) > 0


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
    draws = torch.Generator().manual_seed(1)  # with more room, nothing is drawn after the last end
    longer, longer_mask = sample_answers(model, prompts, 6, 40, end=2, generator=draws)
    assert longer_mask.sum(-1).max() == longer.size(-1)
    text = torch.cat([prompts[1], answers[1, 3]])
    expected = model(text[None, :-1]).log_softmax(-1)[0, 3:][torch.arange(7), answers[1, 3]]
    torch.testing.assert_close(answer_log_probs(model, prompts, answers)[1, 3], expected)
