"""Day 48: what goes wrong between rewards and a gradient."""

from course.judging.misconceptions import of

LATE = (
    "You compute with the log-probabilities at padding before you leave them out. There, they may be −∞ or NaN, and 0 times either is NaN: "
    "replace them before the exponential."
)

MISCONCEPTIONS = [
    *of(
        "group_advantages",
        {
            "nan_for_equal_rewards": (
                "Your advantages are NaN or infinite where all rewards of a group are equal: you divide by a standard deviation of 0. Such a group does not "
                "show which answer is better, so all its advantages should be 0. In training, groups with equal rewards are common.",
                {"_.masked_fill(equal, 0.0)": "_"},
            ),
            "not_scaled": (
                "Your advantages are not divided by the group's standard deviation. (Dr. GRPO does not divide, either. Here, you should.)",
                {"centered / variance.sqrt()": "centered"},
            ),
            "divided_by_the_variance": (
                "You divide by the variance. The standard deviation is its square root.",
                {"variance.sqrt()": "variance"},
            ),
            "divides_by_g": (
                "For the standard deviation, you divide by G. Divide by G − 1, as `torch.std` does.",
                {"max(rewards.size(-1) - 1, 1)": "rewards.size(-1)"},
            ),
            "epsilon_added": (
                "You add a small number to the standard deviation. That number changes the result if rewards are close together, and turns rounding "
                "errors into advantages if all rewards are equal.",
                {"(_ / variance.sqrt()).masked_fill(equal, 0.0)": "_ / (variance.sqrt() + 1e-4)"},
            ),
            "equal_after_rounding": (
                "Your advantages are not 0 in some groups of equal rewards. Their mean has been rounded, so the rewards minus the mean are not 0 either. "
                "Compare the rewards with each other.",
                {"_.masked_fill(equal, 0.0)": "_.masked_fill(variance == 0, 0.0)"},
            ),
            "not_centered": (
                "You divide the rewards by their standard deviation, but do not subtract the mean. Then every answer with a positive reward becomes more "
                "likely, even an answer below the average.",
                {"3: centered / _": "rewards / _"},
            ),
            "sign_flipped": (
                "Your advantages have the wrong sign: an answer that is better than the group's mean has a negative advantage.",
                {"rewards - rewards.mean(dim=-1, keepdim=True)": "rewards.mean(dim=-1, keepdim=True) - rewards"},
            ),
            "one_baseline_for_all": (
                "You subtract the mean of all rewards, and divide by the standard deviation of all of them. The answers to an easy prompt are then all "
                "better than average. Compare each answer with its own group.",
                {
                    "rewards.mean(dim=-1, keepdim=True)": "rewards.mean()",
                    "centered.square().sum(dim=-1, keepdim=True)": "centered.square().sum()",
                    "max(rewards.size(-1) - 1, 1)": "max(rewards.numel() - 1, 1)",
                },
            ),
            "over_the_prompts": (
                "You compare answers to different prompts: your mean and standard deviation are over the first axis. The answers of a group are along the "
                "last axis.",
                {
                    "rewards.mean(dim=-1, keepdim=True)": "rewards.mean(dim=0, keepdim=True)",
                    "centered.square().sum(dim=-1, keepdim=True)": "centered.square().sum(dim=0, keepdim=True)",
                    "max(rewards.size(-1) - 1, 1)": "max(rewards.size(0) - 1, 1)",
                    "rewards.amax(dim=-1, keepdim=True)": "rewards.amax(dim=0, keepdim=True)",
                    "rewards.amin(dim=-1, keepdim=True)": "rewards.amin(dim=0, keepdim=True)",
                },
            ),
        },
    ),
    *of(
        "policy_loss",
        {
            "gain_returned": (
                "Your loss has the wrong sign: it is the gain, which should grow. An optimizer minimizes the loss, so it would make the better answers less "
                "likely.",
                {"-gain.masked_fill(~mask, 0.0).sum(dim=-1).mean()": "gain.masked_fill(~mask, 0.0).sum(dim=-1).mean()"},
            ),
            "divided_by_each_length": (
                "You average over the tokens of each answer, as the equation in DeepSeekMath does. Sum them instead: with the average, a long wrong answer "
                "costs less per token than a short one.",
                {"_.sum(dim=-1).mean()": "(_.sum(dim=-1) / mask.sum(dim=-1)).mean()"},
            ),
            "mean_over_all_tokens": (
                "You average over all tokens of the step. Instead, sum the tokens of each answer, and average these sums over the answers.",
                {"_.sum(dim=-1).mean()": "_.sum() / mask.sum()"},
            ),
            "divided_by_the_longest": (
                "You divide by the number of positions, including padding. Instead, sum the tokens of each answer, and average these sums over the answers.",
                {"_.sum(dim=-1).mean()": "_.mean()"},
            ),
            "summed_over_answers": (
                "You sum over the answers. Average over them, so that the learning rate does not depend on how many there are.",
                {"_.sum(dim=-1).mean()": "_.sum()"},
            ),
            "not_clipped": (
                "Your ratios are never clipped. On answers that an earlier model has sampled, a few steps can take the model too far from it.",
                {"torch.minimum(..., ...)": "ratio * advantage"},
            ),
            "always_clipped": (
                "You use the clipped ratio alone. A token whose ratio has left the range in the *wrong* direction then has no gradient, and can never come "
                "back. Take the lower of the two gains.",
                {"torch.minimum(..., ...)": "clipped * advantage"},
            ),
            "higher_of_the_two": (
                "You take the higher of the clipped and the unclipped gain. Take the lower: otherwise nothing limits the ratio.",
                {"torch.minimum": "torch.maximum"},
            ),
            "min_of_the_ratios": (
                "You take the lower of the two ratios, and multiply it by the advantage afterwards. For a worse answer, that is the higher of the two "
                "gains. Multiply first.",
                {"torch.minimum(..., ...)": "torch.minimum(ratio, clipped) * advantage"},
            ),
            "clipped_above_alone": (
                "Your ratio is limited from above, but not from below. For an answer with a negative advantage, the limit is 1 − ε.",
                {"ratio.clamp(1 - clip, 1 + clip)": "ratio.clamp(max=1 + clip)"},
            ),
            "clip_ignored": (
                "`clip` changes nothing in your loss: your range is always 0.8 to 1.2.",
                {"ratio.clamp(1 - clip, 1 + clip)": "ratio.clamp(0.8, 1.2)"},
            ),
            "ratio_inverted": (
                "Your ratio is the old model's probability over the new one's. The loss then falls when better answers become less likely.",
                {"log_probs - old_log_probs.detach()": "old_log_probs.detach() - log_probs"},
            ),
            "no_exponential": (
                "Your ratio is a difference of log-probabilities. Where the models agree, the difference is 0, but the ratio of their probabilities is 1.",
                {"change.exp()": "change"},
            ),
            "ratio_of_answers": (
                "You compute one ratio for each answer, the product over its tokens. Compute a ratio for each token. (GSPO uses a ratio for each answer.)",
                {"change.exp()": "change.sum(dim=-1, keepdim=True).exp().expand_as(change)"},
            ),
            "log_probs_for_the_ratio": (
                "You weight log-probabilities with advantages, as REINFORCE does. The surrogate weights ratios: on answers that an older model has sampled, "
                "the two differ.",
                {"torch.minimum(..., ...)": "log_probs.masked_fill(~mask, 0.0) * advantage"},
            ),
            "padding_counts": (
                "Padding counts in your loss. The model does not choose the tokens after the end of its answer.",
                {"1: (...).masked_fill(~mask, 0.0)": "log_probs - old_log_probs.detach()", "4: gain.masked_fill(~mask, 0.0)": "gain"},
            ),
            "padding_counts_as_one": (
                "Each padding token adds its answer's advantage to your loss: a ratio of 1 times the advantage.",
                {"4: gain.masked_fill(~mask, 0.0)": "gain"},
            ),
            "masked_too_late": (
                LATE,
                {"1: (_).masked_fill(~mask, 0.0)": "_", "4: gain.masked_fill(~mask, 0.0)": "(gain * mask)"},
            ),
            "old_model_learns": (
                "Your loss passes a gradient to the old log-probabilities. The answers were sampled with them, so they are constants.",
                {"old_log_probs.detach()": "old_log_probs"},
            ),
            "advantages_learn": (
                "Your loss passes a gradient to the advantages. They come from rewards, which no step of the optimizer can change.",
                {"advantages.unsqueeze(-1).detach()": "advantages.unsqueeze(-1)"},
            ),
        },
    ),
    *of(
        "kl_penalty",
        {
            "plain_log_ratio": (
                "You average log(πθ/π_ref), an estimate that can be negative (k₁). k₃ is never negative.",
                {"log_ratio.exp() - log_ratio - 1": "-log_ratio"},
            ),
            "half_the_square": (
                "You average half the squared logarithm of the ratio (k₂). It is close to k₃ when the ratio is near 1, but its mean is not the KL divergence.",
                {"log_ratio.exp() - log_ratio - 1": "log_ratio.square() / 2"},
            ),
            "reference_below": (
                "Your ratio is the model's probability over the reference's. In k₃, the reference's probability is the numerator, because the tokens are "
                "sampled from the model.",
                {"reference_log_probs.detach() - log_probs": "log_probs - reference_log_probs.detach()"},
            ),
            "one_not_subtracted": (
                "Your penalty is too high by 1 per token: where the models agree, it should be 0.",
                {"_ - 1": "_"},
            ),
            "logarithm_not_subtracted": (
                "Your penalty is the ratio minus 1. The mean of this number is 0 for any two models; subtract the logarithm, which makes it a divergence.",
                {"log_ratio.exp() - log_ratio - 1": "log_ratio.exp() - 1"},
            ),
            "penalty_by_length": (
                "You average over the tokens of each answer. Sum them, as in `policy_loss`.",
                {"estimate.sum(dim=-1).mean()": "(estimate.sum(dim=-1) / mask.sum(dim=-1)).mean()"},
            ),
            "penalty_by_tokens": (
                "You average over all tokens of the step. Instead, sum the tokens of each answer, and average these sums over the answers.",
                {"estimate.sum(dim=-1).mean()": "estimate.sum() / mask.sum()"},
            ),
            "padding_penalized": (
                "Padding counts in your penalty. The model does not choose the tokens after the end of its answer.",
                {"(_).masked_fill(~mask, 0.0)": "_"},
            ),
            "penalty_masked_too_late": (
                LATE,
                {"(_).masked_fill(~mask, 0.0)": "_", "estimate.sum(dim=-1)": "(estimate * mask).sum(dim=-1)"},
            ),
            "reference_learns": (
                "Your penalty passes a gradient to the reference. The reference should stay as it was when training began.",
                {"reference_log_probs.detach()": "reference_log_probs"},
            ),
            "no_gradient": (
                "Your penalty has no gradient, so it cannot pull the model back to the reference. Detach only the reference.",
                {"estimate.sum(dim=-1).mean()": "estimate.sum(dim=-1).mean().detach()"},
            ),
        },
    ),
]
