"""Day 4 · Multi-head attention

Lesson  course lesson 4
Hints   course hint 4
Check   course watch 4    (checks at every save; `course check 4` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    attention(query, key, value, mask=None)
        Scaled dot-product attention: every query takes a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, in that order, in the inputs'
        dtype.
"""

import numpy as np
from jaxtyping import Bool, Float

from numpy_reference import attention


def split_heads(x: Float[np.ndarray, "B T d_model"], h: int) -> Float[np.ndarray, "B h T d_k"]:
    """Cut each token's vector into h pieces, one a head, and put the heads before time.

    Args:
        x: token vectors, `(B, T, d_model)`.
        h: the number of heads; it divides d_model.

    Returns:
        `(B, h, T, d_k)`, d_k = d_model / h, in the dtype of `x`. Head 0 holds the first d_k features
        of every token.

    Raises:
        ValueError: h does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    # 1. Cut the last axis, d_model, into h pieces of d_k.
    # 2. Swap time and heads, so that each head holds a whole sequence.
    raise NotImplementedError


def join_heads(x: Float[np.ndarray, "B h T d_k"]) -> Float[np.ndarray, "B T d_model"]:
    """Undo `split_heads`: lay the heads' results side by side again.

    Args:
        x: one vector a head and token, `(B, h, T, d_k)`.

    Returns:
        `(B, T, d_model)`, d_model = h · d_k, in the dtype of `x`.

    Source: Vaswani et al. 2017, §3.2.2 (Concat).
    """
    # 1. Swap heads and time back, so that a token's pieces lie next to each other.
    # 2. Merge the last two axes.
    raise NotImplementedError


def multi_head_attention(
    query: Float[np.ndarray, "B T_q d_model"],
    key: Float[np.ndarray, "B T_k d_model"],
    value: Float[np.ndarray, "B T_k d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T_q T_k"] | None = None,
) -> Float[np.ndarray, "B T_q d_model"]:
    """Attention in h subspaces at once, each with projections of its own.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    Args:
        query: `(B, T_q, d_model)`.
        key: `(B, T_k, d_model)`.
        value: `(B, T_k, d_model)`.
        params: `w_q w_k w_v w_o`, `(d_model, d_model)` each, and `b_q b_k b_v b_o`, `(d_model,)`
            each. The h matrices Wᵢ of the paper lie side by side in one: head i, counted from 0,
            owns columns i·d_k to (i+1)·d_k − 1.
        h: the number of heads; it divides d_model.
        mask: True where a query may attend to a key, `(1|B, 1|T_q, T_k)`, the same for every head.

    Returns:
        The output only, `(B, T_q, d_model)`, in the inputs' dtype. Where a query may attend to
        nothing the heads give 0, so the output is `b_o`.

    Raises:
        ValueError: h does not divide d_model, or a mask that is not boolean or has not three axes.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    # 1. Project, then split into heads. Biases are not in the paper's formula, but in many
    #    implementations, torch's among them.
    # 2. Give the mask an axis for the heads, after the batch.
    # 3. Attend: the heads are one more batch dimension.
    # 4. Join the heads and mix them by the output projection.
    raise NotImplementedError
