"""Day 30 · ALiBi

Lesson  course lesson 30
Hints   course hint 30     (one more each time; the first gives the steps of one way)
Check   course watch 30    (checks at every save; `course check 30` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def alibi_slopes(n_heads: int) -> Float[Tensor, " n_heads"]:
    """Return how steeply each head's scores fall with distance: a geometric sequence, the steepest first.

        mₖ = 2^(−8k / h),    k = 1, 2, …, h,    where h is a power of two

    Any other number of heads takes the slopes of p, the greatest power of two below it, and for the missing
    heads those of 2p that are between them: the first, the third, the fifth …

    - `n_heads` is h, at least 1; it need not be a power of 2.
    - Return `(n_heads,)`, positive, in PyTorch's default dtype (float32), correct to its rounding. For
      8 heads the slopes are ½, ¼, …, 1/256; for 12 heads they are these, followed by 2^−0.5, 2^−1.5,
      2^−2.5 and 2^−3.5, in that order.

    Raises:
        ValueError: `n_heads` below 1.

    Source: Press et al. 2021, *Train Short, Test Long*, §3, for powers of two; for the others the
    authors' own code.
    """
    raise NotImplementedError


def alibi_bias(n_heads: int, t_q: int, t_k: int) -> Float[Tensor, "n_heads t_q t_k"]:
    """Return the bias to add to the scores: minus each head's slope times the distance of query and key.

        bias[head, i, j] = −m_head · |position of query i − j|

    The queries are the last t_q of the t_k positions. The bias hides nothing: a causal model needs its mask
    as well.

    - `t_q` is the number of queries: query i is at position t_k − t_q + i. `t_k` is the number of
      keys, at positions 0 to t_k − 1.
    - Return `(n_heads, t_q, t_k)` in the dtype of `alibi_slopes`. It is 0 where query and key are at
      the same position.
    - Keys after the query have a bias, too, like keys before it. With no queries the result is an empty
      tensor of this shape.

    Raises:
        ValueError: `n_heads` below 1, `t_q` below 0, or more queries than keys.

    Source: Press et al. 2021, *Train Short, Test Long*, §3 and figure 3.
    """
    raise NotImplementedError
