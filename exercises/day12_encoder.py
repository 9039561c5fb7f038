"""Day 12 · Encoder

Lesson  course lesson 12
Hints   course hint 12
Check   course watch 12    (checks at every save; `course check 12` checks once)

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

from jaxtyping import Bool, Float
from torch import Tensor, nn

from implementation import LayerNorm, SublayerConnection, clones


class EncoderLayer(nn.Module):
    """One layer of the encoder: look around, then think, with a shortcut and a norm for each.

    Args:
        size: d_model.
        self_attn: called as `self_attn(query, key, value, mask)`.
        feed_forward: called on `(B, S, d_model)`.
        dropout: that of both shortcuts.
        norm: `"post"` or `"pre"`.

    Attributes:
        self_attn, feed_forward: the parts, as given.
        sublayer: two `SublayerConnection`s: around attention, around the feed-forward network.
        size, norm: as given; a stack reads them.

    Source: Vaswani et al. 2017, §3.1 (Encoder) and figure 1, left.
    """

    def __init__(
        self,
        size: int,
        self_attn: nn.Module,
        feed_forward: nn.Module,
        dropout: float,
        norm: str = "post",
    ):
        super().__init__()
        # 1. Keep the parts, and make a connection for each.
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """From `(B, S, d_model)` to the same shape and dtype; `mask` is `(B, 1, S)` or `(B, S, S)`."""
        # 1. Self-attention: queries, keys and values are the same tokens, normed or not.
        # 2. The feed-forward network.
        raise NotImplementedError


class Encoder(nn.Module):
    """N layers, one after the other.

    Args:
        layer: what to make n copies of; its `size` and `norm` are read.
        n: the number of layers.

    Attributes:
        layers: the copies.
        norm: a `LayerNorm`, in pre-norm only: there nothing else would norm the last sum. None in
            post-norm.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, figure 1b.
    """

    def __init__(self, layer: EncoderLayer, n: int):
        super().__init__()
        # 1. n layers with weights of their own, and the final norm where there is one.
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """From `(B, S, d_model)` to the same shape and dtype. Every layer gets the same `mask`."""
        # 1. Through the layers in turn, then through the final norm where there is one.
        raise NotImplementedError
