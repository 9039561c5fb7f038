"""Day 2 · Attention

Lesson  course lesson 2
Hints   course hint 2     (one more each time; the first gives the steps of one way)
Check   course watch 2    (checks at every save; `course check 2` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    softmax(x, axis=-1)
        Turn scores into weights that sum to 1 along `axis`.
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
    """Compute scaled dot-product attention: each query's output is a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`. A query that may attend to
        nothing gets exactly 0.

    - `query` is what each position looks for, `key` what each position can be found by, and `value`
      what each position passes on. They can have any leading batch dimensions; d_v may differ from d_k.
    - `mask` is True where a query may attend to a key; it broadcasts to `(…, T_q, T_k)`. A forbidden key
      has a weight of 0, however large the scores are: they may reach a million.
    - Return the output and the weights, in that order, in the inputs' dtype. The weights of a query sum
      to 1 over the keys.
    - A query that may attend to nothing has weights and output of exactly 0, never NaN.

    Raises:
        ValueError: shapes that do not match, or a mask that is not boolean.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1.
    """
    raise NotImplementedError
