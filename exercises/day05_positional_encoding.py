"""Day 5 · Positional encoding

Lesson  course lesson 5
Hints   course hint 5     (one more each time; the first gives the steps of one way)
Check   course watch 5    (checks at every save; `course check 5` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
"""

import numpy as np
from jaxtyping import Float


def positional_encoding(max_len: int, d_model: int) -> Float[np.ndarray, "max_len d_model"]:
    """Return sines and cosines of the positions, with wavelengths from 2π to 10000·2π.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    - `max_len` is the number of positions, counted from 0. `d_model` is the width of a token's vector,
      even or odd.
    - Return a float64 array `(max_len, d_model)`. For an odd d_model, the last column is a sine.

    Source: Vaswani et al. 2017, §3.5.
    """
    raise NotImplementedError
