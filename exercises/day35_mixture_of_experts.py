"""Day 35 · Mixture of experts

Lesson  course lesson 35
Hints   course hint 35
Check   course watch 35    (checks at every save; `course check 35` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    SwiGLU(d_model, d_ff)
        Apply a gated feed-forward network: the Swish of one projection multiplies the other projection.
        called with (x)
            Transform each position on its own.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.activations import SwiGLU


class TopKRouter(nn.Module):
    """Choose k experts for each token, and say how much each of them counts.

        p(x) = softmax(W_r x)
        T    = the k experts of largest p(x)
        gᵢ   = pᵢ(x) / Σⱼ∈T pⱼ(x)    for i in T

    Args:
        d_model: width of the tokens' vectors.
        n_experts: the number of experts to choose from.
        k: the number of experts that each token gets, from 1 to n_experts.

    Attributes:
        w_r: W_r, `nn.Linear(d_model, n_experts, bias=False)`. There are no other parameters, and nothing
            else in the state dict; the initial weights are those of `nn.Linear`.

    Raises:
        ValueError: a size below 1, or more experts for a token than there are.

    Source: Fedus, Zoph & Shazeer 2021, *Switch Transformers*, §2.1, eq. 1 (softmax, then the largest);
    §2.4 (the router in float32); Jiang et al. 2024, *Mixtral of Experts*, §2.1, which takes the softmax
    of the k largest scores: the same numbers.
    """

    def __init__(self, d_model: int, n_experts: int, k: int):
        super().__init__()
        # 1. Keep k. One linear layer from tokens to scores.
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> tuple[
        Float[Tensor, "*batch k"], Int[Tensor, "*batch k"], Float[Tensor, "*batch n_experts"]
    ]:
        """Route each token by itself.

        Args:
            x: tokens `(…, d_model)`, in the dtype of `w_r`; there may be none.

        Returns:
            Three tensors, in this order. The weights gᵢ of the chosen experts, `(…, k)`: they sum to 1
            for each token, so with k = 1 each is 1. The chosen experts' numbers from 0, int64 `(…, k)`,
            the likeliest first, all different; which of two equally likely ones is chosen or comes first
            is left open. The probabilities of all experts, `(…, n_experts)`. Weights and
            probabilities have the dtype of x, and gradients; for float16 and bfloat16 scores and softmax
            are computed in float32, so that rounding does not decide who is chosen.
        """
        # 1. Widen halves. The scores of all experts, and from them probabilities.
        # 2. The k likeliest, and what they have between them, as shares that sum to 1.
        raise NotImplementedError


def load_balancing_loss(
    probs: Float[Tensor, "*batch n_experts"], experts: Int[Tensor, "*batch k"]
) -> Float[Tensor, ""]:
    """How unevenly the tokens are spread over the experts, as a number to be made small.

        loss = N Σᵢ fᵢ Pᵢ
        fᵢ   = the share of all choices that fell on expert i
        Pᵢ   = the mean of pᵢ(x) over the tokens

    Each token makes k choices and each counts the same, so Σ f = 1 for any k, as Σ P = 1. Evenly spread,
    the loss is 1; where all tokens choose the same k experts with certainty it is N/k. Its gradient comes
    by way of P alone: f is counted.

    Args:
        probs: the router's probabilities, `(…, n_experts)`.
        experts: the experts that each token chose, `(…, k)`, with the same leading dimensions; at least
            one token.

    Returns:
        A 0-d tensor of the dtype of `probs`; for float16 and bfloat16 computed in float32. The caller
        multiplies it by α, 0.01 in the paper, and adds it to the model's loss. (With k = 1 it is the
        paper's; Hugging Face's `load_balancing_loss_func` counts fᵢ for each token, and so gives k times as
        much.)

    Raises:
        ValueError: leading dimensions that differ.

    Source: Fedus, Zoph & Shazeer 2021, §2.2, eqs. 4–6, without the α of eq. 4; there k = 1.
    """
    # 1. The share of each expert among all choices.
    # 2. The mean probability of each expert.
    # 3. Large where an expert has much of both.
    raise NotImplementedError


class MixtureOfExperts(nn.Module):
    """A feed-forward layer of many experts, each of which computes for the tokens that chose it, only.

        y = Σᵢ∈T gᵢ · Eᵢ(x)

    Args:
        d_model: width of the tokens' vectors.
        d_ff: width of the hidden layer of each expert.
        n_experts: the number of experts.
        k: the number of experts that each token chooses.
        capacity_factor: None, and every expert takes all tokens that chose it. Or c > 0, and each takes
            at most ⌈c · k · tokens / n_experts⌉, rounded up; tokens are all those of one call, of all
            sequences.

    Attributes:
        router: `TopKRouter(d_model, n_experts, k)`.
        experts: an `nn.ModuleList` of n_experts `SwiGLU(d_model, d_ff)`. There are no other parameters,
            and nothing else in the state dict; the initial weights are those of the parts.
        probs: the router's probabilities at the last call, `(…, n_experts)`, with their gradient: for
            `load_balancing_loss(layer.probs, layer.chosen)`. None before the first call.
        chosen: the experts that the tokens chose at the last call, `(…, k)`, as the router gave them,
            dropped choices included. None before the first call.

    Raises:
        ValueError: a size below 1, a k above n_experts, or a capacity factor that is not above 0.

    Source: Jiang et al. 2024, *Mixtral of Experts*, §2.1 (SwiGLU, k = 2); capacity: Fedus, Zoph &
    Shazeer 2021, *Switch Transformers*, §2.2, eq. 3, with k in place of 1.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_experts: int,
        k: int,
        capacity_factor: float | None = None,
    ):
        super().__init__()
        # 1. A router, and the experts. Nobody has been routed yet.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype: each token's mixture of its experts' outputs.

        Tokens are in the order in which they lie in x: the first sequence from its start to its end, then
        the second. Where more tokens choose an expert than it takes, it takes the first ones, whether it was
        their first choice or a later one, and drops the rest: to these it adds 0. The other weights stay
        as they were. A token that all its experts drop gets an output of 0, and only the shortcut around the
        layer carries it on.

        Each expert, one of `experts`, is called once, on the tokens that it takes and no others,
        `(taken, d_model)` in any order; where it takes none it may be left out, and its weights get a
        gradient of 0 or none. There may be no tokens at all. float16 and bfloat16 are right to the dtype's
        rounding.
        """
        # 1. Route. Keep the probabilities and the choices for the loss.
        # 2. Forget about sequences: tokens, one below the other. Their number says how many an expert takes.
        # 3. Who chose this expert, and as which of its k choices? In order of position, as many as fit.
        # 4. Compute for these alone, and add what each is to get to what it has.
        raise NotImplementedError
