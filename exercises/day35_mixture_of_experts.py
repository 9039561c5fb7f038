"""Day 35 · Mixture of experts

Lesson  course lesson 35
Hints   course hint 35     (one more each time; the first gives the steps of one way)
Check   course watch 35    (checks at every save; `course check 35` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

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
    """Choose k experts for each token, with weights that sum to 1.

        p(x) = softmax(W_r x)
        T    = the k experts of largest p(x)
        gᵢ   = pᵢ(x) / Σⱼ∈T pⱼ(x)    for i in T

    - `d_model` is the width of the tokens' vectors; k is from 1 to `n_experts`.
    - `w_r` is W_r, `nn.Linear(d_model, n_experts, bias=False)`, with the default initialization.
      Nothing else is a parameter or in the state dict.

    Raises:
        ValueError: a size below 1, or k above n_experts.

    Source: Fedus, Zoph & Shazeer 2021, *Switch Transformers*, §2.1, eq. 1 (softmax, then the largest);
    §2.4 (the router in float32); Jiang et al. 2024, *Mixtral of Experts*, §2.1, which takes the softmax
    of the k largest scores, with the same result.
    """

    def __init__(self, d_model: int, n_experts: int, k: int):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> tuple[
        Float[Tensor, "*batch k"], Int[Tensor, "*batch k"], Float[Tensor, "*batch n_experts"]
    ]:
        """Return the weights g of the chosen experts, their indices (most likely first), and all of p.

        - `x` is in the dtype of `w_r`. There may be no tokens at all.
        - The three tensors are returned in this order. The weights gᵢ, `(…, k)`, sum to 1 for each token;
          with k = 1 each is 1.
        - The experts' indices, int64 `(…, k)`, count from 0 and differ within a token. Of two equally
          likely experts, you may choose either, and either may come first.
        - The probabilities are those of all experts, `(…, n_experts)`.
        - Weights and probabilities have the dtype of `x`, and gradients. For float16 and bfloat16, scores
          and softmax are in float32.
        """
        raise NotImplementedError


def load_balancing_loss(
    probs: Float[Tensor, "*batch n_experts"], experts: Int[Tensor, "*batch k"]
) -> Float[Tensor, ""]:
    """Compute how unevenly the tokens are spread over the experts.

        loss = N Σᵢ fᵢ Pᵢ
        fᵢ   = the share of all choices that fell on expert i
        Pᵢ   = the mean of pᵢ(x) over the tokens

    The loss is 1 if all is even, and N/k if all tokens choose the same k experts with certainty. Its
    gradient comes through P alone, since f is counted.

    - `probs` are the router's probabilities, `(…, n_experts)`, and `experts` the experts that each
      token chose, `(…, k)`: for the same tokens, of which there is at least one.
    - Each of a token's k choices counts the same, so Σ f = 1 for any k, as Σ P = 1.
    - Return a 0-d tensor in the dtype of `probs`. For float16 and bfloat16 it is computed in float32.
    - The caller multiplies the loss by α, 0.01 in the paper, and adds it to the model's loss.

    Raises:
        ValueError: leading dimensions that differ.

    Source: Fedus, Zoph & Shazeer 2021, §2.2, eqs. 4–6, without the α of eq. 4; there k = 1. Hugging
    Face's `load_balancing_loss_func` divides the counts by the number of tokens: k times as much.
    """
    raise NotImplementedError


class MixtureOfExperts(nn.Module):
    """Apply to each token the k experts that its router chooses, and mix their outputs.

        y = Σᵢ∈T gᵢ · Eᵢ(x),    capacity = ⌈capacity_factor · k · tokens / n_experts⌉

    With a capacity, an expert takes the first tokens that chose it, and drops the others. `probs` and
    `chosen` are the router's at the last call, for `load_balancing_loss`.

    - `d_model` is the width of the tokens' vectors, `d_ff` that of the hidden layer of each expert.
    - If `capacity_factor` is None, every expert takes all tokens that chose it. Otherwise each takes at
      most the capacity above, rounded up once; `tokens` counts the tokens of all sequences of one call.
    - `router` is a `TopKRouter(d_model, n_experts, k)`, `experts` an `nn.ModuleList` of n_experts
      `SwiGLU(d_model, d_ff)`. Nothing else is a parameter or in the state dict. The initial weights are
      those of the parts.
    - `probs` are the router's probabilities at the last call, `(…, n_experts)`, with their gradient;
      `chosen` are its choices, `(…, k)`, including dropped ones. Both are None before the first call.

    Raises:
        ValueError: a size below 1, k above n_experts, or a capacity factor that is not above 0.

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
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return each token's mixture, or 0 if all its experts drop it.

        - `(…, d_model)` keeps its shape and dtype.
        - The order of tokens is that of `x`: the first sequence from its first token to its last, then the
          second.
        - If more tokens choose an expert than it can take, it takes the first of these tokens, whether it
          is their first choice or a later one. To the other tokens it adds 0; the weights of their other
          experts do not change. A token that all its experts drop has an output of 0, so only the residual
          connection around the layer carries it on.
        - Each expert is called once, with only the tokens that it takes, `(taken, d_model)`, in any order.
          If it takes no tokens, you may leave out the call; its weights then get a gradient of 0 or None.
        - There may be no tokens at all. Results in float16 and bfloat16 are correct to the dtype's
          rounding.
        """
        raise NotImplementedError
