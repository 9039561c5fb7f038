"""Day 6 · Encoder layer

Lesson  course lesson 6
Hints   course hint 6     (one more each time; the first gives the steps of one way)
Check   course watch 6    (checks at every save; `course check 6` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.

What is imported from them below:

    multi_head_attention(query, key, value, params, h, mask=None)
        Attend in h subspaces at once, each with its own projections, and return the output only.
"""

import numpy as np
from jaxtyping import Bool, Float

from numpy_reference import multi_head_attention


def layer_norm(
    x: Float[np.ndarray, "*batch features"],
    gain: Float[np.ndarray, "features"],
    bias: Float[np.ndarray, "features"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch features"]:
    """Normalize each vector to mean 0 and variance 1, then apply a learned scale and shift.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    μ and σ² are taken over the last axis; σ² is the biased variance (divisor n).

    - `x` holds vectors in its last axis, with any leading dimensions; each is normalized separately.
    - `gain` is γ and `bias` is β, each of shape `(features,)`. `eps` is ε: a constant vector becomes
      `bias`, not NaN.
    - Return the shape and dtype of `x`, which is not changed in place.
    - A mean of 1000 with a standard deviation of 0.1 in float32 is normalized correctly.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not
    in the paper. https://arxiv.org/abs/1607.06450.
    """
    raise NotImplementedError


def feed_forward(
    x: Float[np.ndarray, "*batch d_model"],
    w_1: Float[np.ndarray, "d_model d_ff"],
    b_1: Float[np.ndarray, "d_ff"],
    w_2: Float[np.ndarray, "d_ff d_model"],
    b_2: Float[np.ndarray, "d_model"],
) -> Float[np.ndarray, "*batch d_model"]:
    """Apply the same two-layer feed-forward network at every position.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    - `x` is `(…, d_model)`, with any leading dimensions. `w_1` is `(d_model, d_ff)` and `w_2` is
      `(d_ff, d_model)`.
    - Return the shape and dtype of `x`. Each position is computed separately.

    Source: Vaswani et al. 2017, §3.3, eq. 2.
    """
    raise NotImplementedError


def encoder_layer(
    x: Float[np.ndarray, "B T d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T T"] | None = None,
) -> Float[np.ndarray, "B T d_model"]:
    """Apply self-attention and a feed-forward network, each with a residual connection and a norm.

        LN(x + Sublayer(x))     around each of the two sublayers

    `params` holds the parameters of attention (`w_q w_k w_v w_o b_q b_k b_v b_o`), of the
    feed-forward network (`w_1 b_1 w_2 b_2`), of the norm after attention (`gain_1 bias_1`), and of
    the norm after the feed-forward network (`gain_2 bias_2`).

    - `h` is the number of heads.
    - `mask` is True where a query may attend to a key, `(1|B, 1|T, T)`.
    - Both norms have the default `eps`. They follow the addition (post-norm), as in the paper.
    - Return the output only, `(B, T, d_model)`, in the dtype of `x`, which is not changed in place.

    Source: Vaswani et al. 2017, §3.1 (LayerNorm(x + Sublayer(x))) and figure 1.
    """
    raise NotImplementedError
