"""Day 48 · Reinforcement learning

Lesson  course lesson 48
Hints   course hint 48     (one more each time; the first gives the steps of one way)
Check   course watch 48    (checks at every save; `course check 48` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def group_advantages(rewards: Float[Tensor, "*batch G"]) -> Float[Tensor, "*batch G"]:
    """Return how much better each answer is than its group, in standard deviations of the group.

        Âᵢ = (rᵢ − mean(r)) / std(r),  0 where all rewards of the group are equal

    The standard deviation divides by G − 1, as `torch.std` does.

    - `rewards` are floats, `(…, G)`: the last axis is a group, the answers to one prompt. G may be 1.
    - Return a new tensor with the shape and device of `rewards`. float16 and bfloat16 are computed in
      float32, and the advantages stay float32.
    - The standard deviation divides by G − 1, and nothing is added to it. In a group of equal rewards
      every advantage is exactly 0.

    Source: Shao et al. 2024, §4.1.2 (outcome supervision).
    """
    raise NotImplementedError


def policy_loss(
    log_probs: Float[Tensor, "*batch T"],
    old_log_probs: Float[Tensor, "*batch T"],
    advantages: Float[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch T"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """Return the clipped surrogate loss: summed over the tokens of an answer, averaged over the answers.

        ρᵢₜ = πθ(oᵢₜ) / π_old(oᵢₜ)
        L = −1/n Σᵢ Σₜ min(ρᵢₜ Âᵢ, clip(ρᵢₜ, 1 − ε, 1 + ε) Âᵢ)

    πθ is the model, π_old the one that sampled the answers, Âᵢ an advantage, and ε is `clip`. The first
    sum is over the n answers, the second over the tokens of an answer, where `mask` is True. Where
    πθ = π_old, the gradient is that of REINFORCE. DeepSeekMath divides the second sum by |oᵢ|, the length
    of the answer, and so a wrong answer costs less per token, the longer it is. For that loss, pass
    `advantages / mask.sum(-1)`.

    - `log_probs`, `old_log_probs` and `mask` are `(…, T)`: log-probabilities of the sampled tokens, and
      a mask that is True where a token belongs to its answer. `advantages` are `(…)`: one number for
      each answer, which all of its tokens share.
    - Return a 0-d tensor: the sum over the tokens of each answer, averaged over all n answers. An answer
      without tokens counts as one of the n, with the sum 0. Nothing is divided by the length of an answer.
    - Only `log_probs` gets a gradient: the old log-probabilities and the advantages are fixed. Where
      `mask` is False, log-probabilities may be −∞ or NaN: they do not change the loss, and have the
      gradient 0.
    - float16 and bfloat16 are computed in float32, and the loss stays float32.

    Raises:
        ValueError: shapes that do not fit, or a negative `clip`.

    Source: Schulman et al. 2017, eq. 7; Shao et al. 2024, eq. 3, without its 1/|oᵢ|, for which see Liu et
    al. 2025, §3.1.
    """
    raise NotImplementedError


def kl_penalty(
    log_probs: Float[Tensor, "*batch T"],
    reference_log_probs: Float[Tensor, "*batch T"],
    mask: Bool[Tensor, "*batch T"],
) -> Float[Tensor, ""]:
    """Estimate how far the model is from a reference, KL(πθ ‖ π_ref), from the answers it has sampled.

        k₃ = π_ref/πθ − log(π_ref/πθ) − 1

    πθ and π_ref are the probabilities of a sampled token. The mean of k₃ over samples of πθ is the KL
    divergence, and every k₃ is at least 0. As in `policy_loss`, it is summed over the tokens of an
    answer, and averaged over the answers.

    - Shapes, mask and average are those of `policy_loss`. Return a 0-d tensor.
    - k₃ is computed only from the two log-probabilities of each sampled token, without the other tokens
      of the vocabulary.
    - Half precision is computed in float32, as in `policy_loss`. k₃ keeps its digits where the two models
      nearly agree.
    - Only `log_probs` gets a gradient. Here, too, log-probabilities may be −∞ or NaN where `mask` is False.

    Raises:
        ValueError: shapes that do not fit.

    Source: Shao et al. 2024, eq. 4; Schulman 2020, *Approximating KL Divergence*.
    """
    raise NotImplementedError
