"""Day 6 · Encoder layer

Lesson  course lesson 6
Hints   course hint 6
Check   course watch 6    (checks at every save; `course check 6` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    multi_head_attention(query, key, value, params, h, mask=None)
        Attention in h subspaces at once, each with projections of its own.
        Returns: The output only, `(B, T_q, d_model)`, in the inputs' dtype.
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
    """Give every vector mean 0 and variance 1, then a learnt scale and shift.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    Args:
        x: vectors in the last axis, any leading dimensions. Their mean may dwarf their deviation:
            a mean of 1000 with a deviation of 0.1 in float32 is no trouble.
        gain: γ, `(features,)`.
        bias: β, `(features,)`.
        eps: ε, inside the root, so that a constant vector gives `bias` and not NaN.

    Returns:
        The shape and dtype of `x`, which stays as it is. μ and σ² are taken over the last axis, σ²
        with the divisor n (biased), each vector by itself.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not
    in the paper. https://arxiv.org/abs/1607.06450.
    """
    # 1. Centre each vector by its own mean, over the features.
    # 2. Its variance is the mean of the squares of what is left.
    # 3. Divide by the deviation, then scale and shift.
    raise NotImplementedError


def feed_forward(
    x: Float[np.ndarray, "*batch d_model"],
    w_1: Float[np.ndarray, "d_model d_ff"],
    b_1: Float[np.ndarray, "d_ff"],
    w_2: Float[np.ndarray, "d_ff d_model"],
    b_2: Float[np.ndarray, "d_model"],
) -> Float[np.ndarray, "*batch d_model"]:
    """The same small two-layer network at every position: widen, cut off below 0, narrow again.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    Args:
        x: `(…, d_model)`.
        w_1: `(d_model, d_ff)`.
        b_1: `(d_ff,)`.
        w_2: `(d_ff, d_model)`.
        b_2: `(d_model,)`.

    Returns:
        The shape and dtype of `x`. Positions do not see each other here.

    Source: Vaswani et al. 2017, §3.3, eq. 2.
    """
    # 1. Widen to d_ff and cut off below 0 (ReLU).
    # 2. Narrow back to d_model.
    raise NotImplementedError


def encoder_layer(
    x: Float[np.ndarray, "B T d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T T"] | None = None,
) -> Float[np.ndarray, "B T d_model"]:
    """One layer of the encoder: look around, then think; each with a shortcut around it and a norm
    after.

        x ← LN(x + MultiHead(x, x, x))
        x ← LN(x + FFN(x))

    Args:
        x: token vectors, `(B, T, d_model)`.
        params: those of `multi_head_attention` (`w_q w_k w_v w_o b_q b_k b_v b_o`), of
            `feed_forward` (`w_1 b_1 w_2 b_2`) and of the two layer norms (`gain_1 bias_1` after
            attention, `gain_2 bias_2` after the feed-forward network).
        h: the number of heads.
        mask: True where a query may attend to a key, `(1|B, 1|T, T)`.

    Returns:
        The output only, `(B, T, d_model)`, in the dtype of `x`, which stays as it is; normed as the
        paper has it: after the addition (post-norm).

    Source: Vaswani et al. 2017, §3.1 (LayerNorm(x + Sublayer(x))) and figure 1.
    """
    # 1. Self-attention: queries, keys and values are the same tokens. Add what it found to x, then
    #    norm.
    # 2. The feed-forward network works on the normed sum, and is added to that same sum. Norm
    #    again.
    raise NotImplementedError
