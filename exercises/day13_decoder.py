"""Day 13 · Decoder

Lesson  course lesson 13
Hints   course hint 13
Check   course watch 13    (checks at every save; `course check 13` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    LayerNorm(features, eps=1e-5)
        Give every vector mean 0 and variance 1, then a learnt scale and shift.
        called with (x)
            Norm the last axis.
            Returns: The shape and dtype of `x`.
    SublayerConnection(size, dropout, norm="post")
        A shortcut around a sublayer, and a norm.
        called with (x, sublayer)
            Ask `sublayer` once, which maps `(B, T, size)` to the same shape, with a shortcut around it.
            Returns: The shape and dtype of `x`; `x` itself, and what `sublayer` gave, stay as they are.
    clones(module, n)
        n copies of a module with parameters of their own, none of them the original.
        Returns: An `nn.ModuleList`, so that the model finds the parameters.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from implementation import LayerNorm, SublayerConnection, clones


def subsequent_mask(size: int) -> Bool[Tensor, "1 size size"]:
    """Which keys come no later than the query: no position may read what it is to predict.

    Args:
        size: T, the number of positions.

    Returns:
        `(1, size, size)`, True on the diagonal and below it: row i is query i.

    Source: Vaswani et al. 2017, §3.1 (Decoder) and §3.2.3.
    """
    # 1. The lower triangle, diagonal included.
    raise NotImplementedError


class DecoderLayer(nn.Module):
    """One layer of the decoder: look at one's own past, look at the source, then think.

    Args:
        size: d_model.
        self_attn: attention to the own past, called as `self_attn(query, key, value, mask)`.
        src_attn: attention to the source, called likewise.
        feed_forward: called on `(B, T, d_model)`.
        dropout: that of all three shortcuts.
        norm: `"post"` or `"pre"`.

    Attributes:
        self_attn, src_attn, feed_forward: the parts, as given.
        sublayer: three `SublayerConnection`s: own past, source, feed-forward network.
        size, norm: as given; a stack reads them.

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
        # 1. Keep the parts, and make a connection for each.
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype.

        Args:
            x: the target's vectors.
            memory: what the encoder made of the source. It is used as it is, not normed again.
            src_mask: which source tokens may be attended to, `(B, 1, S)`.
            tgt_mask: which target tokens may, `(B, T, T)`.
        """
        # 1. Self-attention to the own past.
        # 2. Attention to the source: queries from here, keys and values from the encoder.
        # 3. The feed-forward network.
        raise NotImplementedError


class Decoder(nn.Module):
    """N layers, one after the other, each looking at the same memory.

    Args:
        layer: what to make n copies of; its `size` and `norm` are read.
        n: the number of layers.

    Attributes:
        layers: the copies.
        norm: a `LayerNorm`, in pre-norm only; None in post-norm.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, figure 1b.
    """

    def __init__(self, layer: DecoderLayer, n: int):
        super().__init__()
        # 1. n layers with weights of their own, and the final norm where there is one.
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None = None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; the rest as for a `DecoderLayer`."""
        # 1. Through the layers in turn, then through the final norm where there is one.
        raise NotImplementedError
