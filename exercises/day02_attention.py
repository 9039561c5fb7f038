"""Day 2 · Attention

Lesson  course lesson 2
Hints   course hint 2
Check   course watch 2    (checks at every save; `course check 2` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    softmax(x, axis=-1)
        Turn scores into weights: all positive, summing to 1 along `axis`.
        Returns: Weights of the shape and dtype of `x`, which stays as it is.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from numpy_reference import softmax


def attention(
    query: Float[np.ndarray, "*batch T_q d_k"],
    key: Float[np.ndarray, "*batch T_k d_k"],
    value: Float[np.ndarray, "*batch T_k d_v"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[Float[np.ndarray, "*batch T_q d_v"], Float[np.ndarray, "*batch T_q T_k"]]:
    """Scaled dot-product attention: every query takes a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        mask: True where a query may attend to a key; broadcasts to `(…, T_q, T_k)`. A key that may
            not be attended to gets the weight 0, whatever the scores: they may reach a million.

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, in that order, in the inputs'
        dtype. The weights of a query sum to 1 over the keys. A query that may attend to nothing has
        weights and output of exactly 0, never NaN.

    Raises:
        ValueError: shapes that do not fit each other, or a mask that is not boolean.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1.
    """
    # 1. Compare every query with every key: a dot product each. Divide by √d_k, or the scores of
    #    wide vectors grow so large that the softmax saturates.
    # 2. Give each forbidden key the lowest score there is, before the softmax.
    # 3. Turn each query's scores into weights over the keys.
    # 4. Set forbidden weights to exactly 0. Only a query with no key at all needs this: its scores
    #    were all equally low, so its weights came out uniform.
    # 5. Mix the values by the weights. Return both.
    raise NotImplementedError
