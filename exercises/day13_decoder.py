"""Day 13 · Decoder

Lesson  course lesson 13
Hints   course hint 13     (one more each time; the first gives the steps of one way)
Check   course watch 13    (checks at every save; `course check 13` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.

What is imported from them below:

    LayerNorm(features, eps=1e-5)
        Normalize every vector to mean 0 and variance 1, then scale and shift it.
        called with (x)
            Normalize the last axis, with the biased variance σ² (divisor n).
    SublayerConnection(size, dropout, norm="post")
        Add a residual connection and a LayerNorm around a sublayer.
        called with (x, sublayer)
            Apply `sublayer`, which keeps the shape `(B, T, size)`, inside the residual connection.
    clones(module, n)
        Return n deep copies of a module, as an `nn.ModuleList`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from implementation import LayerNorm, SublayerConnection, clones


def subsequent_mask(size: int) -> Bool[Tensor, "1 size size"]:
    """Return the causal mask `(1, size, size)`: True where the key comes no later than the query.

    `size` is T, the number of positions. The mask is `(1, size, size)`, True on the diagonal and below
    it: row i is query i.

    Source: Vaswani et al. 2017, §3.1 (Decoder) and §3.2.3.
    """
    raise NotImplementedError


class DecoderLayer(nn.Module):
    """Apply masked self-attention, cross-attention to the encoder's output, and the feed-forward network.

    - `size` is d_model, and `norm` is `"post"` or `"pre"`. `dropout` is the probability in all three
      residual connections.
    - `self_attn` (self-attention) and `src_attn` (cross-attention to the source) are called as
      `self_attn(query, key, value, mask)`; `feed_forward` is called on `(B, T, d_model)`.
    - The attributes `self_attn`, `src_attn` and `feed_forward` are the parts, as given.
    - `sublayer` holds three `SublayerConnection`s: self-attention, cross-attention, feed-forward network.
    - `size` and `norm` are stored as given; a stack reads them.

    Source: Vaswani et al. 2017, §3.1 (Decoder), §3.2.3 and figure 1, right.
    """

    def __init__(
        self,
        size: int,
        self_attn: nn.Module,
        src_attn: nn.Module,
        feed_forward: nn.Module,
        dropout: float,
        norm: str = "post",
    ):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the layer's output; `memory` is the encoder's output.

        - The result has the shape and dtype of `x`, the target's vectors.
        - `memory` is the encoder's output. Use it as given, without another norm.
        - `src_mask`, `(B, 1, S)`, is True at the source tokens that may be attended to; `tgt_mask`,
          `(B, T, T)`, is True at the target tokens that may be attended to.
        """
        raise NotImplementedError


class Decoder(nn.Module):
    """Apply N decoder layers in turn, all to the same memory; in pre-norm, a final LayerNorm follows.

    - `layer` is copied `n` times; its `size` and `norm` are read. `layers` holds the copies.
    - `norm` is a `LayerNorm` in pre-norm, and None in post-norm.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, table 1.
    """

    def __init__(self, layer: DecoderLayer, n: int):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output.

        The result has the shape and dtype of `x`, `(B, T, d_model)`; the arguments are those of a
        `DecoderLayer`.
        """
        raise NotImplementedError
