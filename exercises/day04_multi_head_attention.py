"""Day 4 · Multi-head attention

Lesson  course lesson 4
Hints   course hint 4     (one more each time; the first gives the steps of one way)
Check   course watch 4    (checks at every save; `course check 4` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    attention(query, key, value, mask=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`.
"""

import numpy as np
from jaxtyping import Bool, Float

from numpy_reference import attention


def split_heads(x: Float[np.ndarray, "B T d_model"], h: int) -> Float[np.ndarray, "B h T d_k"]:
    """Split token vectors `(B, T, d_model)` into h heads, `(B, h, T, d_k)`, d_k = d_model / h.

    - `h`, the number of heads, divides d_model.
    - Head 0 holds the first d_k features of every token, head 1 the next d_k, and so on.
    - The result has the dtype of `x`.

    Raises:
        ValueError: h does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    raise NotImplementedError


def join_heads(x: Float[np.ndarray, "B h T d_k"]) -> Float[np.ndarray, "B T d_model"]:
    """Undo `split_heads`: concatenate the heads `(B, h, T, d_k)` to `(B, T, d_model)`.

    d_model is h · d_k, and the result has the dtype of `x`. `join_heads(split_heads(x, h))` equals `x`.

    Source: Vaswani et al. 2017, §3.2.2 (Concat).
    """
    raise NotImplementedError


def multi_head_attention(
    query: Float[np.ndarray, "B T_q d_model"],
    key: Float[np.ndarray, "B T_k d_model"],
    value: Float[np.ndarray, "B T_k d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T_q T_k"] | None = None,
) -> Float[np.ndarray, "B T_q d_model"]:
    """Attend in h subspaces at once, each with its own projections, and return the output only.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    `params` holds `w_q w_k w_v w_o`, `(d_model, d_model)` each, and `b_q b_k b_v b_o`, `(d_model,)`
    each. The paper's h matrices Wᵢ are side by side in one.

    - A projection is `x @ w + b`. Head i, counted from 0, owns columns i·d_k to (i+1)·d_k − 1 of `w_q`,
      `w_k` and `w_v`.
    - `h`, the number of heads, divides d_model.
    - `mask` is True where a query may attend to a key, `(1|B, 1|T_q, T_k)`; it is the same for
      every head.
    - Return `(B, T_q, d_model)` in the inputs' dtype. Where a query may attend to
      nothing, the heads return 0, so the output is `b_o`.

    Raises:
        ValueError: h does not divide d_model, or a mask that is not boolean or not 3-dimensional.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    raise NotImplementedError
