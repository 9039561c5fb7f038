"""A mixture of experts: many feed-forward networks, of which each token uses a few.

It replaces a block's feed-forward network (`SwiGLU` of day 28). A router chooses k of n_experts networks
for each token: the parameters grow with n_experts, the computation with k.

From symbols to names
    N               n_experts: the papers write N in Switch, n in Mixtral
    k               experts of a token: 1 in Switch, 2 in Mixtral
    h(x) = W_r x    the router's scores of a token, w_r(x)
    p(x)            probs: the softmax of the scores
    f, P            an expert's share of all choices, and its mean probability
    d_ff            width of the hidden layer of one expert
    capacity        the maximum number of tokens that one expert takes in a call
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.activations import SwiGLU

# --- Day 35 · Mixture of experts ------------------------------------------------------------------


class TopKRouter(nn.Module):
    """Choose k experts for each token, with weights that sum to 1.

        p(x) = softmax(W_r x)
        T    = the k experts of largest p(x)
        gᵢ   = pᵢ(x) / Σⱼ∈T pⱼ(x)    for i in T

    Raises:
        ValueError: a size below 1, or k above n_experts.

    Source: Fedus, Zoph & Shazeer 2021, *Switch Transformers*, §2.1, eq. 1 (softmax, then the largest);
    §2.4 (the router in float32); Jiang et al. 2024, *Mixtral of Experts*, §2.1, which takes the softmax
    of the k largest scores, with the same result.
    """

    def __init__(self, d_model: int, n_experts: int, k: int):
        super().__init__()
        if d_model < 1 or n_experts < 1:
            sizes = f"d_model={d_model}, n_experts={n_experts}"
            raise ValueError(f"d_model and n_experts must be at least 1, got {sizes}")
        if not 1 <= k <= n_experts:
            raise ValueError(f"k must be from 1 to n_experts, got k={k}, n_experts={n_experts}")
        # 1. Store k. One linear layer from tokens to scores.
        self.k = k
        self.w_r = nn.Linear(d_model, n_experts, bias=False)

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> tuple[
        Float[Tensor, "*batch k"], Int[Tensor, "*batch k"], Float[Tensor, "*batch n_experts"]
    ]:
        """Return the weights g of the chosen experts, their indices (most likely first), and all of p."""
        # 1. Upcast half precision, so that rounding does not decide who is chosen. Compute the scores of
        #    all experts, and their probabilities.
        wide = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):  # which would round them again
            scores = x.to(wide) @ self.w_r.weight.to(wide).T  # (…, n_experts)
        probs = scores.softmax(dim=-1)  # (…, n_experts)
        # 2. Choose the k most likely experts, and normalize their probabilities to weights that sum to 1.
        weights, experts = probs.topk(self.k, dim=-1)  # (…, k)
        weights = weights / weights.sum(dim=-1, keepdim=True)  # (…, k)
        return weights.to(x.dtype), experts, probs.to(x.dtype)


def load_balancing_loss(
    probs: Float[Tensor, "*batch n_experts"], experts: Int[Tensor, "*batch k"]
) -> Float[Tensor, ""]:
    """Compute how unevenly the tokens are spread over the experts.

        loss = N Σᵢ fᵢ Pᵢ
        fᵢ   = the share of all choices that fell on expert i
        Pᵢ   = the mean of pᵢ(x) over the tokens

    The loss is 1 if all is even, and N/k if all tokens choose the same k experts with certainty. Its
    gradient comes through P alone, since f is counted.

    Raises:
        ValueError: leading dimensions that differ.

    Source: Fedus, Zoph & Shazeer 2021, §2.2, eqs. 4–6, without the α of eq. 4; there k = 1. Hugging
    Face's `load_balancing_loss_func` divides the counts by the number of tokens: k times as much.
    """
    if probs.shape[:-1] != experts.shape[:-1]:
        shapes = f"{tuple(probs.shape)} and {tuple(experts.shape)}"
        raise ValueError(f"probs and experts must be of the same tokens, got shapes {shapes}")
    n_experts = probs.size(-1)
    wide = torch.promote_types(probs.dtype, torch.float32)
    # 1. Compute the share of each expert among all choices.
    counts = experts.flatten().bincount(minlength=n_experts)  # (n_experts,)
    f = counts.to(wide) / experts.numel()  # (n_experts,)
    # 2. Compute the mean probability of each expert.
    p = probs.to(wide).reshape(-1, n_experts).mean(dim=0)  # (n_experts,)
    # 3. Multiply: the loss is large if an expert has much of both.
    return (n_experts * (f * p).sum()).to(probs.dtype)


class MixtureOfExperts(nn.Module):
    """Apply to each token the k experts that its router chooses, and mix their outputs.

        y = Σᵢ∈T gᵢ · Eᵢ(x),    capacity = ⌈capacity_factor · k · tokens / n_experts⌉

    With a capacity, an expert takes the first tokens that chose it, and drops the others. `probs` and
    `chosen` are the router's at the last call, for `load_balancing_loss`.

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
        if capacity_factor is not None and not capacity_factor > 0:
            raise ValueError(f"capacity_factor must be above 0 or None, got {capacity_factor}")
        # 1. Create the router and the experts. No token has been routed yet.
        self.router = TopKRouter(d_model, n_experts, k)
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n_experts))
        self.capacity_factor = capacity_factor
        self.probs: Tensor | None = None
        self.chosen: Tensor | None = None

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return each token's mixture, or 0 if all its experts drop it."""
        # 1. Route. Store the probabilities and the choices for the loss.
        weights, self.chosen, self.probs = self.router(x)
        # 2. Flatten the sequences to a list of tokens. Their number decides the capacity.
        tokens = x.reshape(-1, x.size(-1))  # (tokens, d_model)
        chosen = self.chosen.flatten()  # (tokens · k,)
        capacity = None
        if self.capacity_factor is not None:
            capacity = math.ceil(self.capacity_factor * chosen.numel() / len(self.experts))
        # 3. Sort the choices by expert. A stable sort keeps each expert's in order of position. On a GPU,
        #    the only wait is for where each expert's choices begin.
        experts, order = chosen.sort(stable=True)  # (tokens · k,)
        later = torch.arange(1, len(self.experts), device=x.device)
        starts = torch.searchsorted(experts, later).tolist()
        output = torch.zeros_like(tokens)  # (tokens, d_model)
        for expert, choices in zip(self.experts, order.tensor_split(starts), strict=True):
            # 4. Take as many as fit. Compute for their tokens alone, and add the weighted results.
            choices = choices[:capacity]  # (taken,)
            rows = choices // weights.size(-1)  # (taken,)
            result = expert(tokens.index_select(0, rows))  # (taken, d_model)
            weight = weights.flatten().index_select(0, choices)  # (taken,)
            output.index_add_(0, rows, result * weight.unsqueeze(-1))
        return output.reshape(x.shape)  # (…, d_model)
