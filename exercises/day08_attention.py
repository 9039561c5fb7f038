"""Day 8 · Attention

Lesson  course lesson 8
Hints   course hint 8     (one more each time; the first gives the steps of one way)
Check   course watch 8    (checks at every save; `course check 8` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "*batch T_q d_v"], Float[Tensor, "*batch T_q T_k"]]:
    """Compute scaled dot-product attention: each query's output is a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is masked.

    - `query`, `key` and `value` have any leading batch dimensions; d_v may differ from d_k.
    - `mask` is True where a query may attend to a key; it broadcasts to `(…, T_q, T_k)`.
    - `dropout`, such as an `nn.Dropout`, is applied to the weights; None means no dropout.
    - Return the output and the weights, in that order, in the inputs' dtype. The weights are those after
      dropout, by which the values were averaged.
    - A query that may attend to nothing has weights and output of exactly 0, never NaN. The gradients
      through it are 0 as well.
    - In float16 and bfloat16, the result is the float32 result, rounded: scores that float32 can
      represent must not overflow.

    Raises:
        ValueError: a mask that is not boolean, or does not broadcast to `(…, T_q, T_k)`.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1. Dropout on the weights is not in the text.
    """
    raise NotImplementedError
