"""Day 47 beside torch's losses, the paper's gradient, and the optimum in closed form."""

import itertools

import pytest
import torch

from variants.dpo import dpo_loss


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(47)


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


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
