"""Day 33 · Flash attention

Lesson  course lesson 33
Hints   course hint 33
Check   course watch 33    (checks at every save; `course check 33` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    by_hand(forward, backward, *inputs)
        Call `forward`, and let autograd differentiate the result by `backward`, not by its own record.
        Returns: The output.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from variants.flash import by_hand


def flash_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    block: int = 64,
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Scaled dot-product attention, tile by tile: softmax(Q Kᵀ / √d_k) V, and no matrix of weights.

    For each tile of scores S with values V, beginning at m = −∞, ℓ = 0, O = 0:

        m' = max(m, rowmax S)      P = exp(S − m')
        ℓ ← exp(m − m') ℓ + rowsum P      O ← exp(m − m') O + P V      m ← m'

    and at the end O / ℓ, and L = m + log ℓ. Backward, with P = exp(S − L) and D = rowsum(dO · O):

        dV += Pᵀ dO      dS = P · (dO Vᵀ − D)      dQ += dS K / √d_k      dK += dSᵀ Q / √d_k

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        block: queries, and keys, of a tile. No length need be a multiple of it, or as long. The result
            depends on it by no more than rounding.
        causal: True hides later keys. The last query belongs to the last key, so that query i, counted
            from 0, sees keys 0 to T_k − T_q + i.

    Returns:
        The output alone, `(…, T_q, d_v)`, in the inputs' dtype. It is that of `attention` of day 8, and
        so are the gradients of query, key and value. A query that may attend to nothing (a causal one
        with T_q > T_k + i, or any where T_k = 0) has an output of exactly 0, never NaN, and passes no
        gradient on. T_q may be 0. Halves are widened to float32 in each tile, and all sums are in it:
        the result is that of float32 to the dtype's rounding. float64 is computed in float64.

        At no time does the function hold T_q × T_k numbers for each leading index, in one tensor or in
        several together: not in the forward pass, not between the passes, not in the backward pass.
        What it holds grows linearly with T_q and T_k. (That is said of lengths far above `block`, d_k
        and d_v.) For the backward pass it keeps the inputs, the output, and one number a query.

    Raises:
        ValueError: a `block` below 1; leading dimensions that are not equal; query and key of unequal
            width; key and value of unequal length; dtypes that are not one and the same, or not of
            real numbers.

    Source: Dao et al. 2022, *FlashAttention*, §3.1, algorithm 1, and appendix B for the backward pass;
    queries in the outer loop and one number L a query: Dao 2023, *FlashAttention-2*, §3.1; the softmax:
    Milakov & Gimelshein 2018, *Online normalizer calculation for softmax*, §3.
    """
    # 1. Say which tiles there are: each block of queries with the blocks of keys that it sees, wholly
    #    or in part.
    # 2. The scores of one tile. Later keys get −∞; most tiles have none.
    # 3. A block of queries has seen no key yet: nothing is summed, and the highest score is the
    #    lowest that there is. Not −∞: −∞ − (−∞) is NaN.
    # 4. Where there is a higher score, scale down what was summed under the old maximum.
    # 5. Add this tile's weights, and the values mixed by them.
    # 6. Divide once, at the end. The total is at least 1, or 0 where no key was seen. Keep the
    #    logarithm of Σ exp(S): +∞ where no key was seen, so that exp(S − L) will be 0.
    # 7. The mean of a query's grad_weights under its weights, without either of them.
    # 8. The tile again, and its weights at once: their sum is known by now.
    # 9. Through the mixture, the softmax and the scores, as on day 7.
    # 10. One batch dimension in place of all the leading ones, and both passes together: `by_hand` calls
    #     forward(query, key, value), and for the gradients backward(grad_output, query, key, value,
    #     output, …) with whatever forward returned behind the output. It keeps these, and nothing else.
    raise NotImplementedError
