"""Mixture of depths: in each sequence, a layer processes a few tokens, and the others skip it.

A Transformer spends the same computation on every token. Here a router scores the tokens of a sequence
before a block, and only those with the largest scores go through it; the others take the residual
connection alone. Their number is fixed in advance, so shapes are known; which tokens they are is learned.

From symbols to names
    B               batch: sequences, each of which chooses for itself
    T               time: tokens of a sequence; S in the paper
    k               chosen tokens: a share `capacity` of T; C in the paper
    X, X̃            all tokens of a sequence, the chosen ones
    r               the router's weight of a token, wᵀx: its score, and the factor of its update
    w               `router.weight`
    f               what the block adds: block(X̃) − X̃
"""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

# --- Day 36 · Depth: some tokens skip the block ---------------------------------------------------


class MixtureOfDepths(nn.Module):
    """Apply a block to the tokens that a router chooses, and the residual connection alone to the others.

        yᵢ = xᵢ + rᵢ f(X̃)ᵢ    if rᵢ is among the k largest of r₁ … r_T
        yᵢ = xᵢ               otherwise

        rᵢ = wᵀ xᵢ,    f(X̃) = block(X̃) − X̃,    k = ⌊capacity · T⌋, and at least 1

    The choice depends on later tokens, so the layer is not causal. The block is not given the positions of
    the chosen tokens.

    Raises:
        ValueError: a capacity that is not above 0, or is above 1.

    Source: Raposo et al. 2024, *Mixture-of-Depths: Dynamically allocating compute in transformer-based
    language models*, §3.4, eq. 1; expert-choice routing by top-k: §3.3.
    """

    def __init__(self, block: nn.Module, d_model: int, capacity: float):
        super().__init__()
        if not 0 < capacity <= 1:
            raise ValueError(f"capacity must be above 0 and at most 1, got {capacity}")
        # 1. Store the block and the share. One score for each token, without a bias.
        self.block = block
        self.router = nn.Linear(d_model, 1, bias=False)
        self.capacity = capacity

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Return the layer's output; the block sees the chosen tokens in the order of their positions.

        The choice has no gradient. Through r, which multiplies, gradients reach the router.
        """
        # 1. Choose, and gather the chosen tokens of each row.
        weights, places = self.choose(x)  # (B, k) each
        index = places.unsqueeze(-1).expand(-1, -1, x.size(-1))  # (B, k, d_model)
        chosen = x.gather(1, index)  # (B, k, d_model)
        # 2. Compute what the block adds to each of them, times its weight.
        gain = weights.unsqueeze(-1) * (self.block(chosen) - chosen)  # (B, k, d_model)
        # 3. Add it at their positions; the other tokens do not change.
        return x.scatter_add(1, index, gain)  # (B, T, d_model)

    def choose(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[Float[Tensor, "B k"], Int[Tensor, "B k"]]:
        """Return the scores r of each row's chosen tokens, and their positions in ascending order."""
        # 1. Score every token by itself.
        scores = self.router(x).squeeze(-1)  # (B, T)
        # 2. Compute k: the share, rounded down, but at least one token if there is one. The product's own
        #    rounding error is far below 10⁻⁹.
        t = x.size(1)
        k = min(t, max(1, math.floor(self.capacity * t + 1e-9)))
        # 3. Choose the k largest scores, and sort them by position.
        places = scores.topk(k, dim=1).indices.sort(dim=1).values  # (B, k)
        return scores.gather(1, places), places
