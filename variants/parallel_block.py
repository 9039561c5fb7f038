"""The parallel block: attention and the feed-forward network read the same tokens, side by side.

In a block of day 23 the feed-forward network reads what attention has written. Here both read the block's
input, through one norm, and both outputs are added to it. So the two parts' first projections, which share
their input, can be one large product, and so can the last two, whose outputs are added. With the matrices
split over several devices, one sum over devices replaces two.

From symbols to names
    B, T            batch, time
    x, y            input and output of the block
    LN              `norm`, a LayerNorm of day 11
    Attention       `self_attn`, the CausalSelfAttention of day 23
    FFN             `feed_forward`, the FeedForward of day 23
"""

from jaxtyping import Float
from torch import Tensor, nn

from implementation import LayerNorm
from variants.gpt import CausalSelfAttention, FeedForward

# --- Day 36 · Depth: both at once -----------------------------------------------------------------


class ParallelBlock(nn.Module):
    """Apply causal attention and a feed-forward network to the same normalized input, and add both.

        serial, day 23   h = x + Attention(LN₁(x)),   y = h + FFN(LN₂(h))
        parallel         y = x + Attention(LN(x)) + FFN(LN(x))

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Wang & Komatsuzaki 2021, *GPT-J-6B*, the published code (mesh-transformer-jax); the formula:
    Chowdhery et al. 2022, *PaLM*, §2, "Parallel Layers". Dropout as in the GPT-J of `transformers`.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        # 1. One norm, the two parts, and the dropout of their outputs.
        self.norm = LayerNorm(d_model)
        self.self_attn = CausalSelfAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Return the block's output; row t depends on `x[:, :t + 1]` alone."""
        # 1. Normalize once: both parts read the same.
        normed = self.norm(x)  # (B, T, d_model)
        # 2. Apply both parts, neither to the other's output.
        attended = self.dropout(self.self_attn(normed))  # (B, T, d_model)
        thought = self.dropout(self.feed_forward(normed))  # (B, T, d_model)
        # 3. Add both to the block's input, which is not normalized.
        return x + attended + thought  # (B, T, d_model)
