"""Reinforcement learning from a reward that a program computes: REINFORCE, and GRPO.

Papers: Williams 1992, *Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement
Learning* (REINFORCE); Schulman et al. 2017, *Proximal Policy Optimization Algorithms* (PPO); Shao et al.
2024, *DeepSeekMath* (GRPO); Liu et al. 2025, *Understanding R1-Zero-Like Training* (Dr. GRPO). The model
samples several answers to each prompt, a program says which are right, and answers that are better than
the others of their group become more likely.

From symbols to names
    P               prompts of a step
    G               answers to each prompt: a group
    T               time: tokens of the longest answer
    V               tokens in the vocabulary
    oᵢ, |oᵢ|        answer i, and its tokens: those where `mask` is True
    πθ, π_old       the model, and the model that sampled the answers
    π_ref           the model that training began with
    Âᵢ, ε           `advantages[i]`, `clip`
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from variants.kv_cache import CachedModel
from variants.sampling import generate

# --- Day 48 · Reinforcement learning --------------------------------------------------------------


def group_advantages(rewards: Float[Tensor, "*batch G"]) -> Float[Tensor, "*batch G"]:
    """Return how much better each answer is than its group, in standard deviations of the group.

        Âᵢ = (rᵢ − mean(r)) / std(r),  0 where all rewards of the group are equal

    The standard deviation divides by G − 1, as `torch.std` does.

    Source: Shao et al. 2024, §4.1.2 (outcome supervision).
    """
    # 1. The group's mean is the baseline: what these prompts earn anyway. Compute in float32 at least: in
    #    float16 the square of a small difference is 0.
    rewards = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    centered = rewards - rewards.mean(dim=-1, keepdim=True)  # (…, G)
    # 2. Equal rewards say nothing about which answer is better. Compare them before the mean has rounded.
    equal = rewards.amax(dim=-1, keepdim=True) == rewards.amin(dim=-1, keepdim=True)  # (…, 1)
    # 3. Divide by the standard deviation; a group of one has none.
    variance = centered.square().sum(dim=-1, keepdim=True) / max(rewards.size(-1) - 1, 1)  # (…, 1)
    return (centered / variance.sqrt()).masked_fill(equal, 0.0)  # (…, G)


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

    Raises:
        ValueError: shapes that do not fit, or a negative `clip`.

    Source: Schulman et al. 2017, eq. 7; Shao et al. 2024, eq. 3, without its 1/|oᵢ|, for which see Liu et
    al. 2025, §3.1.
    """
    _check_shapes(mask, log_probs=log_probs, old_log_probs=old_log_probs)
    if advantages.shape != mask.shape[:-1]:
        raise ValueError(
            f"advantages must be one per answer, {tuple(mask.shape[:-1])}, "
            f"got {tuple(advantages.shape)}"
        )
    if not clip >= 0:
        raise ValueError(f"clip must be at least 0, got {clip}")
    # 1. The ratio of the probabilities, 1 at padding, in float32 at least. Only the model that is trained
    #    gets a gradient.
    wide = torch.promote_types(log_probs.dtype, torch.float32)
    log_probs, advantages = log_probs.to(wide), advantages.to(wide)
    change = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)  # (…, T)
    ratio = change.exp()  # (…, T)
    # 2. Each token has its answer's advantage.
    advantage = advantages.unsqueeze(-1).detach()  # (…, 1)
    # 3. Take the lower of the two: once the ratio has gone too far in the right direction, there is no
    #    gradient; in the wrong direction, there always is one.
    clipped = ratio.clamp(1 - clip, 1 + clip)  # (…, T)
    gain = torch.minimum(ratio * advantage, clipped * advantage)  # (…, T)
    # 4. Sum over the tokens of each answer, average over the answers.
    return -gain.masked_fill(~mask, 0.0).sum(dim=-1).mean()  # ()


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

    Raises:
        ValueError: shapes that do not fit.

    Source: Shao et al. 2024, eq. 4; Schulman 2020, *Approximating KL Divergence*.
    """
    _check_shapes(mask, log_probs=log_probs, reference_log_probs=reference_log_probs)
    # 1. The logarithm of the ratio, the reference above the model, 0 at padding, in float32 at least. The
    #    reference is fixed.
    log_probs = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
    log_ratio = (reference_log_probs.detach() - log_probs).masked_fill(~mask, 0.0)  # (…, T)
    # 2. The estimate for each token, which is 0 where the two agree. Near there, exp(x) − 1 would lose its
    #    digits to the 1; expm1 computes it as one function.
    estimate = log_ratio.expm1() - log_ratio  # (…, T)
    # 3. Sum over the tokens of each answer, average over the answers.
    return estimate.sum(dim=-1).mean()  # ()


def _check_shapes(mask: Tensor, **inputs: Tensor) -> None:
    """Check that the inputs have the mask's shape."""
    for name, tensor in inputs.items():
        if tensor.shape != mask.shape:
            raise ValueError(
                f"{name} must have the shape of mask, {tuple(mask.shape)}, got {tuple(tensor.shape)}"
            )


# --- Answers that a model samples -----------------------------------------------------------------


def sample_answers(
    model: nn.Module,
    prompts: Int[Tensor, "P T_p"],
    group: int,
    max_new_tokens: int,
    end: int,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "P G T"], Bool[Tensor, "P G T"]]:
    """Sample a group of answers to each prompt, and mark their tokens: those up to the first `end`.

    `model` takes a cache, as `CachedGPT` does. The prompts have one length. T is the length of the longest
    answer; an answer that does not end has `max_new_tokens` tokens.
    """
    text = prompts.repeat_interleave(group, dim=0)  # (P · G, T_p)
    longest = min(prompts.size(1) + max_new_tokens, model.config.context)
    cached = CachedModel(model, longest)
    while text.size(1) < prompts.size(1) + max_new_tokens:
        text = generate(
            cached, text, 1, generator=generator
        )  # (P · G, T_p + 1), then one more each time
        if (text[:, prompts.size(1) :] == end).any(dim=-1).all():
            break
    answers = text[:, prompts.size(1) :].unflatten(0, (len(prompts), group))  # (P, G, T)
    ended = (answers == end).cumsum(dim=-1) - (answers == end).long()  # (P, G, T), ends before
    return answers, ended == 0


def answer_log_probs(
    model: nn.Module, prompts: Int[Tensor, "P T_p"], answers: Int[Tensor, "P G T"]
) -> Float[Tensor, "P G T"]:
    """Return the log-probability of each token of the answers, given the prompt and the tokens before."""
    group, length = answers.shape[1:]
    rows = torch.cat(
        [prompts.repeat_interleave(group, dim=0), answers.flatten(0, 1)], dim=1
    )  # (P · G, T_p + T)
    logits = model(rows[:, :-1])[:, -length:]  # (P · G, T, V)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = logits.log_softmax(dim=-1).gather(-1, rows[:, -length:, None]).squeeze(-1)
    return chosen.unflatten(0, (len(prompts), group))  # (P, G, T)
