"""A mixture of experts: many feed-forward networks, of which each token visits a few.

It stands where a block has its one feed-forward network (`SwiGLU` of day 28). A router chooses, for each
token, the k of n_experts networks that compute for it: there are n_experts times as many weights to
learn in, and k times as much to compute.

From symbols to names
    N               n_experts: the papers write N in Switch, n in Mixtral
    k               the number of experts that a token visits: 1 in Switch, 2 in Mixtral
    h(x) = W_r x    the router's scores of a token, w_r(x)
    p(x)            probs: the softmax of the scores
    f, P            shares of what goes to each expert: of the choices made, of the probability
    d_ff            width of the hidden layer of one expert
    capacity        the most tokens that one expert takes of a call
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.activations import SwiGLU

# --- Day 35 · Mixture of experts ------------------------------------------------------------------


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
        if d_model < 1 or n_experts < 1:
            raise ValueError(
                f"d_model and n_experts must be at least 1, and are {d_model} and {n_experts}"
            )
        if not 1 <= k <= n_experts:
            raise ValueError(
                f"k must lie in 1 to n_experts, and with {n_experts} experts it is {k}"
            )
        # 1. Keep k. One linear layer from tokens to scores.
        self.k = k
        self.w_r = nn.Linear(d_model, n_experts, bias=False)

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
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = x.to(wide) @ self.w_r.weight.to(wide).T  # (…, n_experts)
        probs = scores.softmax(dim=-1)  # (…, n_experts)
        # 2. The k likeliest, and what they have between them, as shares that sum to 1.
        weights, experts = probs.topk(self.k, dim=-1)  # (…, k)
        weights = weights / weights.sum(dim=-1, keepdim=True)  # (…, k)
        return weights.to(x.dtype), experts, probs.to(x.dtype)


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
    if probs.shape[:-1] != experts.shape[:-1]:
        raise ValueError(
            f"probs and experts must be of the same tokens, and their shapes are "
            f"{tuple(probs.shape)} and {tuple(experts.shape)}"
        )
    n_experts = probs.size(-1)
    wide = torch.promote_types(probs.dtype, torch.float32)
    # 1. The share of each expert among all choices.
    counts = experts.flatten().bincount(minlength=n_experts)  # (n_experts,)
    f = counts.to(wide) / experts.numel()  # (n_experts,)
    # 2. The mean probability of each expert.
    p = probs.to(wide).reshape(-1, n_experts).mean(dim=0)  # (n_experts,)
    # 3. Large where an expert has much of both.
    return (n_experts * (f * p).sum()).to(probs.dtype)


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
        if capacity_factor is not None and not capacity_factor > 0:
            raise ValueError(f"capacity_factor must be above 0, or None, not {capacity_factor}")
        # 1. A router, and the experts. Nobody has been routed yet.
        self.router = TopKRouter(d_model, n_experts, k)
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n_experts))
        self.capacity_factor = capacity_factor
        self.probs: Tensor | None = None
        self.chosen: Tensor | None = None

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
        weights, self.chosen, self.probs = self.router(x)
        # 2. Forget about sequences: tokens, one below the other. Their number says how many an expert takes.
        tokens = x.reshape(-1, x.size(-1))  # (tokens, d_model)
        weights, chosen = (one.reshape(-1, one.size(-1)) for one in (weights, self.chosen))
        capacity = None
        if self.capacity_factor is not None:
            capacity = math.ceil(self.capacity_factor * chosen.numel() / len(self.experts))
        output = torch.zeros_like(tokens)  # (tokens, d_model)
        for number, expert in enumerate(self.experts):
            # 3. Who chose this expert, and as which of its k choices? In order of position, as many as fit.
            rows, places = (chosen == number).nonzero(as_tuple=True)  # (chosen it,)
            rows, places = rows[:capacity], places[:capacity]  # (taken,)
            # 4. Compute for these alone, and add what each is to get to what it has.
            result = expert(tokens.index_select(0, rows))  # (taken, d_model)
            output.index_add_(0, rows, result * weights[rows, places].unsqueeze(-1))
        return output.reshape(x.shape)  # (…, d_model)
