"""Day 47: what goes wrong between two answers and the loss on their difference."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "sequence_log_probs",
        {
            "mean_over_labels": (
                "You divide each answer's sum by the number of its labels. The probability of an answer is the product over its tokens, so its logarithm is "
                "the sum. A mean is not the logarithm of this probability, and DPO on means has a different optimum.",
                {"_.sum(-1)": "_.sum(-1) / counts.sum(-1).clamp(min=1)"},
            ),
            "mean_over_row": (
                "You take a mean over the row. An answer's result then depends on the padding behind it.",
                {"_.sum(-1)": "_.mean(-1)"},
            ),
            "all_positions": (
                "You sum over every position. Positions with the label −100 must not count.",
                {"_.masked_fill(~counts, 0.0)": "_"},
            ),
            "raw_logits": (
                "You sum the labels' logits. Subtract the logarithm of the normalizer to turn a logit into a log-probability.",
                {"_.log_softmax(-1)": "_"},
            ),
            "probabilities": (
                "You sum probabilities. Sum their logarithms instead.",
                {"_.log_softmax(-1)": "_.softmax(-1)"},
            ),
            "softmax_over_time": (
                "You normalize over the positions. At each position, the probabilities of all tokens sum to 1.",
                {"_.log_softmax(-1)": "_.log_softmax(-2)"},
            ),
            "product": (
                "You return the answer's probability, not its logarithm. For an answer of a few hundred tokens, this probability underflows to 0 in float32.",
                {"_.sum(-1)": "_.sum(-1).exp()"},
            ),
            "negated": (
                "You return the negative log-probability, as a loss does. A log-probability is never positive.",
                {"_.sum(-1)": "-_.sum(-1)"},
            ),
            "shifted_again": (
                "You shift labels and logits against each other. `answer_labels` has already shifted them: the label at position t is the token that the "
                "logits at position t predict.",
                {
                    "3: log_probs.masked_fill(~counts, 0.0)": "logits[..., :-1, :].log_softmax(-1).gather(-1, index[..., 1:, :]).squeeze(-1).masked_fill(~counts[..., 1:], 0.0)"
                },
            ),
            "token_0_ignored": (
                "You leave out labels that are 0. Token 0 is a token like any other; only −100 marks positions that do not count.",
                {"labels != -100": "labels > 0"},
            ),
            "one_sum": (
                "You sum over the whole batch. Each answer needs a sum of its own.",
                {"_.sum(-1)": "_.sum()"},
            ),
            "likeliest_token": (
                "You take each position's most likely token. Take the tokens of the answer, which are in `labels`.",
                {"_.gather(-1, index).squeeze(-1)": "_.amax(-1)"},
            ),
            "no_gradient": (
                "Your log-probabilities are right, but no gradient flows through them. The caller decides where no gradient is needed, as for the reference.",
                {"_.sum(-1)": "_.sum(-1).detach()"},
            ),
            "labels_overwritten": (
                "You overwrite the caller's labels: their −100 are gone when the caller uses them again, for the reference.",
                {"labels.masked_fill(_, 0)": "labels.masked_fill_(_, 0)"},
            ),
            "log_of_softmax": (
                "Where a probability is too small for its dtype, your log-probability is −∞. Compute the logarithm of the softmax in one step.",
                {"_.log_softmax(-1)": "_.softmax(-1).log()"},
            ),
            "mean_of_nothing": (
                "You divide each answer's sum by the number of its labels. The result is then a mean, not a sum, and NaN for an answer without labels.",
                {"_.sum(-1)": "_.sum(-1) / counts.sum(-1)"},
            ),
        },
    ),
    *of(
        "bradley_terry_loss",
        {
            "swapped": (
                "Your loss falls when the *rejected* answer gets the larger reward.",
                {"chosen - rejected": "rejected - chosen"},
            ),
            "summed": (
                "You sum over the pairs. With the mean, the learning rate does not depend on the size of the batch.",
                {"_.mean()": "_.sum()"},
            ),
            "not_reduced": (
                "You return a loss for each pair. Average them.",
                {"_.mean()": "_"},
            ),
            "sign": (
                "You return the log-likelihood. An optimizer that minimizes it makes the preferences as unlikely as possible.",
                {"-_.mean()": "_.mean()"},
            ),
            "no_logarithm": (
                "You average the probabilities of the preferences, without a logarithm. Such a loss is bounded, so a pair that is badly wrong has hardly any gradient.",
                {"F.logsigmoid(_)": "F.sigmoid(_)"},
            ),
            "no_sigmoid": (
                "Your loss is the difference of the rewards. It falls without limit, and a pair in the right order has as large a gradient as a pair in the "
                "wrong order.",
                {"F.logsigmoid(_)": "(_)"},
            ),
            "mean_first": (
                "You average the rewards before you compare. Each pair is a separate comparison: average the losses.",
                {"F.logsigmoid(chosen - rejected).mean()": "F.logsigmoid((chosen - rejected).mean())"},
            ),
            "hinge": (
                "Your loss is a hinge loss: it is 0 as soon as the chosen answer's reward is higher by 1. The likelihood of Bradley and Terry leads to −log σ.",
                {"-F.logsigmoid(_).mean()": "F.relu(1 - (_)).mean()"},
            ),
            "base_2": (
                "Your logarithm has the base 2. Use the natural logarithm: the loss is in nats.",
                {"_.mean()": "_.mean() / 0.6931471805599453"},
            ),
            "log_of_sigmoid": (
                "Where the rejected answer's reward is far higher, your loss is infinite: the sigmoid underflows to 0, and its logarithm is −∞. PyTorch has a function that "
                "computes both in one step.",
                {"F.logsigmoid(_)": "F.sigmoid(_).log()"},
            ),
            "ratio_of_exponentials": (
                "Where the rewards are in the thousands, your loss is NaN: exp(r) is infinite in float32, and ∞ / ∞ is NaN. Compute with the difference of the rewards.",
                {"F.logsigmoid(_)": "(chosen.exp() / (chosen.exp() + rejected.exp())).log()"},
            ),
        },
    ),
    *of(
        "dpo_loss",
        {
            "no_reference": (
                "You leave the reference out: your reward is the log-probability itself. Nothing then keeps the policy near the model that it started from, "
                "and an answer that was likely from the start counts as good.",
                {"_ - reference_chosen.detach()": "_", "_ - reference_rejected.detach()": "_"},
            ),
            "reference_trained": (
                "Your loss is right, but its gradient also reaches the reference. Training can then lower the loss by making the reference worse.",
                {"reference_chosen.detach()": "reference_chosen", "reference_rejected.detach()": "reference_rejected"},
            ),
            "policy_detached": (
                "Your loss is right, but no gradient reaches the policy.",
                {"policy_chosen - _": "policy_chosen.detach() - _", "policy_rejected - _": "policy_rejected.detach() - _"},
            ),
            "chosen_alone": (
                "No gradient reaches the rejected answer. The loss should train on both answers of a pair: the chosen answer becomes more likely, the "
                "rejected answer less likely.",
                {"policy_rejected - _": "policy_rejected.detach() - _"},
            ),
            "reference_rejected_forgotten": (
                "You subtract the reference from one of the two answers only. Compare each answer with the reference's log-probability of *that* answer.",
                {"_ - reference_rejected.detach()": "_"},
            ),
            "references_swapped": (
                "You subtract the reference of the other answer. The reward of an answer compares two models on the same answer.",
                {"policy_chosen - _": "policy_chosen - reference_rejected.detach()", "policy_rejected - _": "policy_rejected - reference_chosen.detach()"},
            ),
            "ratio_of_logarithms": (
                "You divide one log-probability by the other. The logarithm of a ratio is the *difference* of the logarithms.",
                {
                    "policy_chosen - reference_chosen.detach()": "policy_chosen / reference_chosen.detach()",
                    "policy_rejected - reference_rejected.detach()": "policy_rejected / reference_rejected.detach()",
                },
            ),
            "ratio_of_probabilities": (
                "Your reward of an answer is the ratio of its two probabilities, times `beta`. It should be the logarithm of that ratio: the difference of "
                "the log-probabilities.",
                {"beta * (policy_chosen - _)": "beta * (policy_chosen - _).exp()", "beta * (policy_rejected - _)": "beta * (policy_rejected - _).exp()"},
            ),
            "no_beta": (
                "`beta` changes nothing in your loss. It should control how far the policy can move away from the reference.",
                {"beta * (policy_chosen - _)": "(policy_chosen - _)", "beta * (policy_rejected - _)": "(policy_rejected - _)"},
            ),
            "beta_outside": (
                "Your `beta` multiplies the loss. It belongs inside the sigmoid, where it turns a log-ratio into a reward; outside, it only scales the gradient.",
                {
                    "beta * (policy_chosen - _)": "(policy_chosen - _)",
                    "beta * (policy_rejected - _)": "(policy_rejected - _)",
                    "bradley_terry_loss(..., ...)": "beta * bradley_terry_loss(chosen, rejected)",
                },
            ),
            "beta_divides": (
                "You divide by `beta`. The optimal policy's log-ratio contains the reward divided by `beta`, so the reward is the log-ratio *times* `beta`.",
                {"beta * (policy_chosen - _)": "(policy_chosen - _) / beta", "beta * (policy_rejected - _)": "(policy_rejected - _) / beta"},
            ),
            "beta_on_the_policy": (
                "You multiply the policy's log-probability by `beta`, but not the reference's.",
                {"beta * (policy_chosen - _)": "(beta * policy_chosen - _)", "beta * (policy_rejected - _)": "(beta * policy_rejected - _)"},
            ),
            "rejected_preferred": (
                "Your difference has the wrong sign: the loss makes the rejected answer more likely. An answer's reward is policy minus reference, and a "
                "pair's margin is chosen minus rejected.",
                {"bradley_terry_loss(..., ...)": "bradley_terry_loss(rejected, chosen)"},
            ),
            "dpo_log_of_sigmoid": (
                "Where the rewards of a pair are far apart, your loss is infinite: the sigmoid underflows to 0, and its logarithm is −∞. You can use your "
                "`bradley_terry_loss` for this part.",
                {"bradley_terry_loss(..., ...)": "-F.sigmoid(chosen - rejected).log().mean()"},
            ),
            "squared": (
                "Your loss is a square, as in IPO: it pulls the difference of the two log-ratios to 1/(2·beta). DPO uses −log σ.",
                {"bradley_terry_loss(..., ...)": "((chosen - rejected) / beta - 1 / (2 * beta)).square().mean()"},
            ),
        },
    ),
]
