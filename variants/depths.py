"""Mixture of depths: in each sequence a layer works on a few tokens, and the others pass it by.

A Transformer spends the same on every token. Here a router scores the tokens of a sequence before a
block, and only those with the largest scores go through it; for all others the shortcut is the whole
layer. How many there are is fixed beforehand, so that the shapes are known; which they are is learnt.

From symbols to names
    B               batch: sequences, each of which chooses for itself
    T               time: tokens of a sequence; S in the paper
    k               chosen tokens: a share `capacity` of T; C in the paper
    X, X̃            all tokens of a sequence, the chosen ones
    r               the router's weight of a token, wᵀx: its score, and what its gain is multiplied by
    w               `router.weight`
    f               what the block adds: block(X̃) − X̃
"""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

# --- Day 36 · Depth: some tokens pass by ----------------------------------------------------------


class MixtureOfDepths(nn.Module):
    """A block for the tokens that a router chooses, and a bare shortcut for all others.

        yᵢ = xᵢ + rᵢ f(X̃)ᵢ    where i is among the k largest of r₁ … r_T
        yᵢ = xᵢ               elsewhere

        rᵢ = wᵀ xᵢ,    f(X̃) = block(X̃) − X̃,    k = ⌊capacity · T⌋, and at least 1

    Args:
        block: called once as `block(x)` on `(B, k, d_model)`, which it maps to the same shape; such as a
            `Block` of day 23, or a `ParallelBlock`. Its own shortcuts are inside, so what a token gains in
            it is what comes out less what went in.
        d_model: width of the tokens' vectors.
        capacity: the share of a sequence's tokens that the block works on, 0 < capacity ≤ 1. capacity · T
            is rounded down, and is never less than 1. What only the rounding of floats keeps below a whole
            number counts as that number: of 100 tokens 0.29 are 29, though 0.29 * 100 is
            28.999999999999996.

    Attributes:
        block: as given.
        router: `nn.Linear(d_model, 1, bias=False)`, started as torch does. Besides the block's there are
            no other parameters, and nothing else in the state dict.
        capacity: as given.

    Raises:
        ValueError: a capacity that is not above 0, or is above 1.

    Source: Raposo et al. 2024, *Mixture-of-Depths: Dynamically allocating compute in transformer-based
    language models*, §3.4, eq. 1; expert-choice routing by top-k: §3.3.
    """

    def __init__(self, block: nn.Module, d_model: int, capacity: float):
        super().__init__()
        if not 0 < capacity <= 1:
            raise ValueError(f"capacity must be above 0 and at most 1, and is {capacity}")
        # 1. Keep the block and the share. One score for each token, without a bias.
        self.block = block
        self.router = nn.Linear(d_model, 1, bias=False)
        self.capacity = capacity

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        The block sees the chosen tokens of each row alone, in the order of their positions: what is causal
        in it stays causal among them. All others come out exactly as they went in. With a capacity of 1
        all tokens go through the block, and r still multiplies what they gain. `x` stays as it is.

        The choice itself has no gradient. Through r, which multiplies, gradients reach the router and,
        beside those through the block and the shortcut, `x`.
        """
        # 1. Choose, and take the chosen tokens out of each row.
        weights, places = self.choose(x)  # (B, k) each
        index = places.unsqueeze(-1).expand(-1, -1, x.size(-1))  # (B, k, d_model)
        chosen = x.gather(1, index)  # (B, k, d_model)
        # 2. What each of them gains in the block, times its weight.
        gain = weights.unsqueeze(-1) * (self.block(chosen) - chosen)  # (B, k, d_model)
        # 3. Add it where they came from; nothing is added elsewhere.
        return x.scatter_add(1, index, gain)  # (B, T, d_model)

    def choose(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[Float[Tensor, "B k"], Int[Tensor, "B k"]]:
        """The router's weights of the chosen tokens, and their places, for each row by itself.

        Args:
            x: `(B, T, d_model)`; T may be 0, and then k is 0.

        Returns:
            r of the chosen tokens, `(B, k)` in the dtype of `x`, as the projection gives it, with no
            softmax and no sigmoid; and their places in the row, int64 `(B, k)`, in ascending order. There
            are always k: of equal scores at the border as many are taken as there is room for, and which
            of them is left open.
        """
        # 1. Score every token by itself.
        scores = self.router(x).squeeze(-1)  # (B, T)
        # 2. How many may pass: the share, rounded down, and one at least where there is one. The product's
        #    own rounding error is far below 10⁻⁹.
        t = x.size(1)
        k = min(t, max(1, math.floor(self.capacity * t + 1e-9)))
        # 3. The k with the largest scores, back in the order of their positions.
        places = scores.topk(k, dim=1).indices.sort(dim=1).values  # (B, k)
        return scores.gather(1, places), places
