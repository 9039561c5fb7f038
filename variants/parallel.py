"""The parallel block: attention and feed-forward network read the same tokens, side by side.

In a block of day 23 the network waits for attention, since it reads what attention has written. Here
neither waits: both read the block's input, through one norm, and both are added to it. Their first
projections have the same input, and can be one large product instead of two; so can the last two, whose
outputs are added. On many devices the two sums over devices become one.

From symbols to names
    B, T            batch, time
    x, y            what enters the block, what leaves it
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
    """One layer of a decoder in which attention and feed-forward network do not wait for each other.

        serial, day 23   h = x + Attention(LN₁(x)),   y = h + FFN(LN₂(h))
        parallel         y = x + Attention(LN(x)) + FFN(LN(x))

    Args:
        d_model: width of the tokens' vectors.
        n_heads: the number of heads; it divides d_model.
        d_ff: width of the network's hidden layer.
        dropout: the probability with which an attention weight, a feature of attention's output, or a
            feature of the network's output is dropped in training. The two outputs are dropped before
            they are added, independently of each other.

    Attributes:
        norm: the one `LayerNorm(d_model)` of day 11, for both.
        self_attn: a `CausalSelfAttention(d_model, n_heads, dropout)` of day 23.
        feed_forward: a `FeedForward(d_model, d_ff)` of day 23.

        These three hold all parameters, and nothing else stands in the state dict. They start as they
        start by themselves.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Wang & Komatsuzaki 2021, *GPT-J-6B*, the published code (mesh-transformer-jax); the formula:
    Chowdhery et al. 2022, *PaLM*, §2, "Parallel Layers". Dropout as in the GPT-J of `transformers`.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        # 1. One norm, the two parts, and the dropout of what they give.
        self.norm = LayerNorm(d_model)
        self.self_attn = CausalSelfAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        Row t of the output depends on `x[:, :t + 1]` alone. `x` stays as it is.
        """
        # 1. Norm once: both parts read the same.
        normed = self.norm(x)  # (B, T, d_model)
        # 2. Look around, and think, neither knowing of the other.
        attended = self.dropout(self.self_attn(normed))  # (B, T, d_model)
        thought = self.dropout(self.feed_forward(normed))  # (B, T, d_model)
        # 3. Add both to the block's input, which no norm has touched.
        return x + attended + thought  # (B, T, d_model)
