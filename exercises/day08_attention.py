"""Day 8 · Attention

Lesson  course lesson 8
Hints   course hint 8
Check   course watch 8    (checks at every save; `course check 8` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
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
    """Compute scaled dot-product attention: every query takes a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, after dropout. A
        query that may attend to nothing gets exactly 0.

    - `query`, `key` and `value` have any leading batch dimensions; d_v may differ from d_k.
    - `mask` is True where a query may attend to a key; it broadcasts to `(…, T_q, T_k)`.
    - `dropout` is applied to the weights, such as an `nn.Dropout`; None for none.
    - Return the output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, in that order, in the inputs'
      dtype. The weights are those that the values were mixed by, after dropout.
    - A query that may attend to nothing has weights and output of exactly 0, never NaN, and so have
      the gradients through it.
    - In float16 and bfloat16 the result is that of float32 to the dtype's rounding: scores that
      float32 can represent do not overflow.

    Raises:
        ValueError: a mask that is not boolean, or does not broadcast to `(…, T_q, T_k)`.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1.
    """
    # 1. Compare every query with every key, and scale by 1/√d_k. Halves are widened first: a sum of
    #    d_k products overflows float16 at 65504, and bfloat16 has 3 digits.
    # 2. Give each forbidden key the lowest score there is, before the softmax. Not −∞: a row of
    #    nothing but −∞ is NaN, which spreads through what comes after it, forward and backward.
    # 3. Turn each query's scores into weights over the keys.
    # 4. Set forbidden weights to exactly 0, which a row with no key at all needs.
    # 5. Drop some weights, if asked to. Then mix the values by the weights, and return both.
    raise NotImplementedError
