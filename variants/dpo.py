"""Learning from preferences: of two answers to one prompt, people say which one they prefer.

Papers: Bradley & Terry 1952, *Rank Analysis of Incomplete Block Designs: I. The Method of Paired
Comparisons*; Christiano et al. 2017, *Deep Reinforcement Learning from Human Preferences*; Rafailov et al.
2023, *Direct Preference Optimization: Your Language Model is Secretly a Reward Model* (DPO). The model and
the labels are those of instruction tuning. The loss is new: it compares the log-probabilities of two
answers, under the policy that is trained and under the reference model that it started from.

From symbols to names
    y_w, y_l        chosen, rejected: the preferred answer of a pair and the other one
    r               reward of an answer; of DPO, the implicit reward β · log(π / π_ref)
    π, π_ref        policy, reference: as log-probabilities of entire answers
    β               beta, how expensive it is to leave the reference
    σ               logistic sigmoid
    T               time: positions of a row
    V               tokens in the vocabulary
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# --- Day 47 · Preferences -------------------------------------------------------------------------


def sequence_log_probs(
    logits: Float[Tensor, "*batch T V"], labels: Int[Tensor, "*batch T"]
) -> Float[Tensor, "*batch"]:
    """Return the log-probability of each answer: the sum over its tokens.

        log π(y | x) = Σₜ log softmax(logitsₜ)[labelsₜ],   t where labelsₜ ≠ −100

    `labels` hold the next token at each position, as `answer_labels` of day 45 returns them.

    Raises:
        ValueError: labels that do not have the shape of the logits without their last axis.

    Source: Rafailov et al. 2023, §4, where π(y | x) is the probability of an entire answer, and appendix B.
    """
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"labels must have the shape {tuple(logits.shape[:-1])} of the logits without their last "
            f"axis, got {tuple(labels.shape)}"
        )
    # 1. Find the positions that count. The others need some index, too: any token will do.
    counts = labels != -100  # (…, T)
    index = labels.masked_fill(~counts, 0).unsqueeze(-1)  # (…, T, 1)
    # 2. Take the log-probability of each label, in float32 at least: the sum of a long answer is in the
    #    thousands, and half precision would keep two or three of its digits.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = logits.log_softmax(-1).gather(-1, index).squeeze(-1)  # (…, T)
    # 3. Sum those that count.
    return log_probs.masked_fill(~counts, 0.0).sum(-1)  # (…)


def bradley_terry_loss(
    chosen: Float[Tensor, "*batch"], rejected: Float[Tensor, "*batch"]
) -> Float[Tensor, ""]:
    """Return the mean negative log-likelihood of the preferences, given the rewards of both answers.

        p(y_w ≻ y_l) = exp(r_w) / (exp(r_w) + exp(r_l)) = σ(r_w − r_l)
        loss = −mean log p(y_w ≻ y_l)

    Raises:
        ValueError: different shapes.

    Source: Bradley & Terry 1952, with exp(r) as an answer's strength; Rafailov et al. 2023, eqs. 1 and 2.
    """
    if chosen.shape != rejected.shape:
        raise ValueError(
            f"chosen and rejected must have one shape, got {tuple(chosen.shape)} and "
            f"{tuple(rejected.shape)}"
        )
    # 1. Compute in float32 at least.
    wide = torch.promote_types(chosen.dtype, torch.float32)
    chosen, rejected = chosen.to(wide), rejected.to(wide)
    # 2. Average the surprise over the pairs, without ever computing a probability that may be 0.
    return -F.logsigmoid(chosen - rejected).mean()


def dpo_loss(
    policy_chosen: Float[Tensor, "*batch"],
    policy_rejected: Float[Tensor, "*batch"],
    reference_chosen: Float[Tensor, "*batch"],
    reference_rejected: Float[Tensor, "*batch"],
    beta: float = 0.1,
) -> Float[Tensor, ""]:
    """Return the Bradley–Terry loss of the policy's implicit rewards.

        r(y) = β · (log π(y | x) − log π_ref(y | x))
        loss = −mean log σ(r(y_w) − r(y_l))

    All four are log-probabilities of entire answers. The reference is a constant: no gradient reaches it.

    Raises:
        ValueError: different shapes, or a `beta` that is not positive.

    Source: Rafailov et al. 2023, eq. 7.
    """
    four = policy_chosen, policy_rejected, reference_chosen, reference_rejected
    if len({tensor.shape for tensor in four}) > 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in four)
        raise ValueError(f"the four log-probabilities must have one shape, got {shapes}")
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}")
    # 1. Compute in float32 at least: the four can be far larger than their differences.
    wide = torch.promote_types(policy_chosen.dtype, torch.float32)
    policy_chosen, policy_rejected = policy_chosen.to(wide), policy_rejected.to(wide)
    # 2. How much more likely is each answer than it was for the reference? That is its reward.
    chosen = beta * (policy_chosen - reference_chosen.detach())  # (…)
    rejected = beta * (policy_rejected - reference_rejected.detach())  # (…)
    # 3. Compare the rewards of each pair.
    return bradley_terry_loss(chosen, rejected)
