"""Day 5 · Positional encoding

Lesson  course lesson 5
Hints   course hint 5
Check   course watch 5    (checks at every save; `course check 5` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import numpy as np
from jaxtyping import Float


def positional_encoding(max_len: int, d_model: int) -> Float[np.ndarray, "max_len d_model"]:
    """A fingerprint for each position: sines and cosines, each pair slower than the one before.

    The wavelengths grow from 2π towards 10000·2π.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Args:
        max_len: the number of positions, counted from 0.
        d_model: the width of a token's vector, even or odd.

    Returns:
        A float64 table `(max_len, d_model)`: sines in the even columns, cosines in the odd ones.

    Source: Vaswani et al. 2017, §3.5.
    """
    # 1. Each pair of columns (2i, 2i + 1) has one frequency; 2i runs over the even columns.
    # 2. Interleave: sines in columns 0, 2, 4 …, cosines in columns 1, 3, 5 … An odd d_model ends on
    #    a sine and has one cosine less.
    raise NotImplementedError
