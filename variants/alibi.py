"""Attention with linear biases (ALiBi): the more distant a key, the lower its score.

It replaces `PositionalEncoding` of day 10: nothing is added to the embeddings, and in every layer the
bias is added to the scaled scores, before the softmax. Nothing is learned.

From symbols to names
    h               n_heads
    m               a head's slope
    i, j            positions of a query, of a key
"""

import torch
from jaxtyping import Float
from torch import Tensor

# --- Day 30 · Linear biases -----------------------------------------------------------------------


def alibi_slopes(n_heads: int) -> Float[Tensor, " n_heads"]:
    """Return how steeply each head's scores fall with distance: a geometric sequence, the steepest first.

        mₖ = 2^(−8k / h),    k = 1, 2, …, h,    where h is a power of two

    Any other number of heads takes the slopes of p, the greatest power of two below it, and for the missing
    heads those of 2p that are between them: the first, the third, the fifth …

    Raises:
        ValueError: `n_heads` below 1.

    Source: Press et al. 2021, *Train Short, Test Long*, §3, for powers of two; for the others the
    authors' own code.
    """
    if n_heads < 1:
        raise ValueError(f"n_heads must be at least 1, got {n_heads}")
    # 1. Start with the slopes of the greatest power of two that is not above n_heads.
    power = 2 ** (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * k / power) for k in range(1, power + 1)]
    # 2. Add every other slope of the next power of two: the odd k, as many as are missing.
    missing = n_heads - power
    slopes += [2 ** (-8 * k / (2 * power)) for k in range(1, 2 * missing, 2)]
    return torch.tensor(slopes)  # (n_heads,)


def alibi_bias(n_heads: int, t_q: int, t_k: int) -> Float[Tensor, "n_heads t_q t_k"]:
    """Return the bias to add to the scores: minus each head's slope times the distance of query and key.

        bias[head, i, j] = −m_head · |position of query i − j|

    The queries are the last t_q of the t_k positions. The bias hides nothing: a causal model needs its mask
    as well.

    Raises:
        ValueError: `n_heads` below 1, `t_q` below 0, or more queries than keys.

    Source: Press et al. 2021, *Train Short, Test Long*, §3 and figure 3.
    """
    if not 0 <= t_q <= t_k:
        raise ValueError(f"t_q must lie in 0 to t_k = {t_k}, got {t_q}")
    # 1. Compute the distance of every query and every key.
    key = torch.arange(t_k)  # (t_k,)
    query = key[t_k - t_q :]  # (t_q,)
    distance = (query.unsqueeze(1) - key).abs()  # (t_q, t_k)
    # 2. Multiply it by minus each head's slope.
    return -alibi_slopes(n_heads).view(-1, 1, 1) * distance  # (n_heads, t_q, t_k)
