"""Day 47 beside torch's losses, the paper's gradient, and the optimum in closed form."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from variants.preferences import bradley_terry_loss, dpo_loss, sequence_log_probs


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(47)


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_log_probs_are_those_of_cross_entropy(generator):
    """Answer by answer, for batches of any shape, with labels that are ignored."""
    logits = normal(generator, 2, 3, 7, 11)
    labels = torch.randint(11, (2, 3, 7), generator=generator)
    labels[torch.rand(2, 3, 7, generator=generator) < 0.4] = -100
    by_token = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none")
    expected = -by_token.view(2, 3, 7).sum(-1)
    torch.testing.assert_close(sequence_log_probs(logits, labels), expected)


def test_bradley_terry_is_logistic_regression(generator):
    """It is the binary cross-entropy of the difference, with the label "chosen" throughout."""
    chosen, rejected = normal(generator, 2, 5, 3)
    expected = F.binary_cross_entropy_with_logits(chosen - rejected, torch.ones_like(chosen))
    torch.testing.assert_close(bradley_terry_loss(chosen, rejected), expected)


def test_the_gradient_is_the_one_printed_in_the_paper(generator):
    """−β · σ(r̂_l − r̂_w) for the chosen answer and its opposite for the rejected one (§4), and none
    for the reference."""
    given = normal(generator, 4, 6).requires_grad_()
    dpo_loss(*given, beta=0.3).backward()
    chosen, rejected, *reference = given.detach()
    rewards = 0.3 * (chosen - reference[0]), 0.3 * (rejected - reference[1])
    expected = -0.3 * (rewards[1] - rewards[0]).sigmoid() / 6
    zero = torch.zeros(6, dtype=torch.float64)
    torch.testing.assert_close(given.grad, torch.stack([expected, -expected, zero, zero]))


@pytest.mark.parametrize("beta", [0.3, 1.0, 5.0])
def test_the_closed_form_optimum_is_the_minimum(generator, beta):
    """Eight answers, with all comparisons as often as Bradley–Terry expects them: the gradient is 0 at
    π* ∝ π_ref · exp(r / β), and not at π_ref. The loss is convex in the logits, so that is its minimum."""
    rewards, start = normal(generator, 2, 8)
    reference = start.log_softmax(-1)

    def slope(logits):
        policy = logits.clone().requires_grad_()
        ours = policy.log_softmax(-1)
        losses = [
            (rewards[better] - rewards[worse]).sigmoid()
            * dpo_loss(ours[better], ours[worse], reference[better], reference[worse], beta)
            for better, worse in itertools.permutations(range(8), 2)
        ]
        torch.stack(losses).sum().backward()
        return policy.grad.abs().max()

    assert slope(reference + rewards / beta) < 1e-12 < 1e-2 < slope(reference)


def test_what_cannot_be_compared_is_said(generator):
    one, two = normal(generator, 3), normal(generator, 2)
    with pytest.raises(ValueError, match=r"labels must have the shape \(2, 3\).*got \(3,\)"):
        sequence_log_probs(normal(generator, 2, 3, 4), torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match=r"one shape, got \(3,\) and \(2,\)"):
        bradley_terry_loss(one, two)
    with pytest.raises(ValueError, match=r"one shape, got \(3,\), \(3,\), \(3,\), \(2,\)"):
        dpo_loss(one, one, one, two)
    with pytest.raises(ValueError, match="beta must be positive, got 0"):
        dpo_loss(one, one, one, one, beta=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_long_answer_in_half_precision(generator, dtype):
    """Its logits are rounded, and nothing else is: a sum in half precision would be off by several nats."""
    logits = normal(generator, 1000, 50).to(dtype)
    labels = torch.randint(50, (1000,), generator=generator)
    expected = sequence_log_probs(logits.double(), labels)
    result = sequence_log_probs(logits, labels)
    assert result.dtype == torch.float32
    assert abs(result.double() - expected) < 1e-5 * abs(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_in_half_precision(generator, dtype):
    four = normal(generator, 4, 6).mul(50).to(dtype)
    result = dpo_loss(*four, beta=0.3)
    assert result.dtype == torch.float32
    torch.testing.assert_close(
        result.double(), dpo_loss(*four.double(), beta=0.3), rtol=1e-5, atol=0
    )
