"""Day 47 · Preferences

Lesson  course lesson 47
Hints   course hint 47     (one more each time; the first gives the steps of one way)
Check   course watch 47    (checks at every save; `course check 47` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def sequence_log_probs(
    logits: Float[Tensor, "*batch T V"], labels: Int[Tensor, "*batch T"]
) -> Float[Tensor, "*batch"]:
    """Return the log-probability of each answer: the sum over its tokens.

        log π(y | x) = Σₜ log softmax(logitsₜ)[labelsₜ],   t where labelsₜ ≠ −100

    `labels` hold the next token at each position, as `answer_labels` of day 45 returns them.

    - `logits` are floats `(…, T, V)`, unnormalized. `labels` are int64 `(…, T)`: ids from 0 to V − 1,
      or −100 for positions that do not count.
    - The labels are already shifted, as day 45's `answer_labels` returns them: position t of `logits`
      predicts label t.
    - Return a tensor `(…)`: for each answer, the sum of its labels' log-probabilities, not their mean.
      An answer without labels has the sum 0. float16 and bfloat16 are computed in float32, and the sum
      stays float32.
    - The inputs are not changed. For logits of ±10⁴, the results are finite.
    - Gradients reach the logits at positions with a label, and are 0 elsewhere.

    Raises:
        ValueError: labels that do not have the shape of the logits without their last axis.

    Source: Rafailov et al. 2023, §4, where π(y | x) is the probability of an entire answer, and appendix B.
    """
    raise NotImplementedError


def bradley_terry_loss(
    chosen: Float[Tensor, "*batch"], rejected: Float[Tensor, "*batch"]
) -> Float[Tensor, ""]:
    """Return the mean negative log-likelihood of the preferences, given the rewards of both answers.

        p(y_w ≻ y_l) = exp(r_w) / (exp(r_w) + exp(r_l)) = σ(r_w − r_l)
        loss = −mean log p(y_w ≻ y_l)

    - `chosen` and `rejected` are floats of one shape: the rewards of the two answers of each pair.
    - Return a 0-d tensor: the mean of −log σ(chosen − rejected) over the pairs, with the natural
      logarithm.
    - It is finite for differences of ±10⁴. float16 and bfloat16 are computed in float32, and the loss
      stays float32.

    Raises:
        ValueError: different shapes.

    Source: Bradley & Terry 1952, with exp(r) as an answer's strength; Rafailov et al. 2023, eqs. 1 and 2.
    """
    raise NotImplementedError


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

    - The first four arguments are floats of one shape: log-probabilities of entire answers, one for
      each pair.
    - Return a 0-d tensor: the mean over the pairs. It is ln 2 if policy and reference are equal. Half
      precision is computed in float32, as in `bradley_terry_loss`.
    - No gradient reaches `reference_chosen` and `reference_rejected`, even if they require one.
    - It is finite even if the log-probabilities differ by ±10⁴. `beta` is a positive number.

    Raises:
        ValueError: different shapes, or a `beta` that is not positive.

    Source: Rafailov et al. 2023, eq. 7.
    """
    raise NotImplementedError
