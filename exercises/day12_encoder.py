"""Day 12 · Encoder

Lesson  course lesson 12
Hints   course hint 12     (one more each time; the first gives the steps of one way)
Check   course watch 12    (checks at every save; `course check 12` checks once)

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

from jaxtyping import Bool, Float
from torch import Tensor, nn

from implementation import LayerNorm, SublayerConnection, clones


class EncoderLayer(nn.Module):
    """Apply self-attention, then the feed-forward network, each in a `SublayerConnection`.

    - `size` is d_model, and `norm` is `"post"` or `"pre"`. `dropout` is the probability in both
      residual connections.
    - `self_attn` is called as `self_attn(query, key, value, mask)`, and `feed_forward` on `(B, S, d_model)`.
    - The attributes `self_attn` and `feed_forward` are the parts, as given.
    - `sublayer` holds two `SublayerConnection`s: around attention, then around the feed-forward network.
    - `size` and `norm` are stored as given; a stack reads them.

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
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the layer's output.

        `(B, S, d_model)` keeps its shape and dtype; `mask` is `(B, 1, S)` or `(B, S, S)`.
        """
        raise NotImplementedError


class Encoder(nn.Module):
    """Apply N encoder layers in turn; in pre-norm, a final LayerNorm normalizes the result.

    - `layer` is copied `n` times; its `size` and `norm` are read. `layers` holds the copies.
    - `norm` is a `LayerNorm` only in pre-norm, where nothing else would normalize the last sum. In
      post-norm, it is None.

    Source: Vaswani et al. 2017, §3.1; the final norm of pre-norm: Xiong et al. 2020, table 1.
    """

    def __init__(self, layer: EncoderLayer, n: int):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B #S S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the encoded source; every layer gets the same `mask`.

        The result has the shape and dtype of `x`, `(B, S, d_model)`.
        """
        raise NotImplementedError
