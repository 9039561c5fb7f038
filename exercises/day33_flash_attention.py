"""Day 33 · Flash attention

Lesson  course lesson 33
Hints   course hint 33     (one more each time; the first gives the steps of one way)
Check   course watch 33    (checks at every save; `course check 33` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def flash_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    block: int = 64,
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Compute scaled dot-product attention in tiles of `block` queries and keys.

        softmax(Q Kᵀ / √d_k) V

    With `causal`, the last query belongs to the last key: query i sees keys 0 to T_k − T_q + i. A query that
    may attend to nothing gets exactly 0. Memory is linear in T_q and T_k.

    - `query` is `(…, T_q, d_k)`, `key` `(…, T_k, d_k)` and `value` `(…, T_k, d_v)`, with any leading
      batch dimensions, the same for all three. d_v may differ from d_k. T_q and T_k may be 0.
    - `block` is the number of queries, and of keys, of a tile. A length does not need to be a multiple
      of it, and may be shorter. The result depends on `block` only by rounding.
    - `causal` counts queries from 0. If T_k = 0, no query has a key; with `causal`, query i has no key
      if T_k − T_q + i is below 0.
    - Return only the output, `(…, T_q, d_v)`, in the inputs' dtype. The output and the gradients of
      query, key and value are those of `attention` of day 8.
    - A query that may attend to nothing has an output of exactly 0, never NaN, and passes no gradient
      on.
    - float16 and bfloat16 are upcast to float32 in each tile, and all sums are in float32: the result
      is the float32 result, rounded to the dtype. float64 is computed in float64.
    - Never have T_q × T_k numbers per leading index in memory at once, in one tensor or in several
      together: not in the forward pass, between the passes, or in the backward pass. Memory grows
      linearly with T_q and T_k, for lengths far above `block`, d_k and d_v.
    - For the backward pass only the inputs, the output, and one number per query are saved. You can
      write a custom autograd function (`torch.autograd.Function`) for that, next to `flash_attention`
      at the top level of the file: its `forward(ctx, …)` calls `ctx.save_for_backward`, and its
      `backward(ctx, grad_output)` returns one gradient for each argument of `forward`, None for those
      that are not tensors.

    Raises:
        ValueError: `block` below 1, shapes that do not fit together, or dtypes that are not the same
            floating-point dtype.

    Source: Dao et al. 2022, *FlashAttention*, §3.1, algorithm 1, and appendix B for the backward pass;
    queries in the outer loop and one number L per query: Dao 2023, *FlashAttention-2*, §3.1; the softmax:
    Milakov & Gimelshein 2018, *Online normalizer calculation for softmax*, §3.
    """
    raise NotImplementedError
