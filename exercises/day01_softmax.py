"""Day 1 · Softmax

Lesson  course lesson 1
Hints   course hint 1     (one more each time; the first gives the steps of one way)
Check   course watch 1    (checks at every save; `course check 1` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import numpy as np
from jaxtyping import Float


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Turn scores into weights that sum to 1 along `axis`.

        softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)

    - `x` holds scores of any shape and any size: 1e4 and −1e4 are scores like any other.
    - `axis` is the axis along which the weights sum to 1.
    - Return weights of the shape and dtype of `x`. Adding a constant to all scores does not change them.
    - `x` is not changed in place.
    - The checks use no NaN, no row that contains only −∞, and no empty axis.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, eq. 4.1 and §4.1 (overflow).
    """
    raise NotImplementedError


def log_softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Compute the logarithm of `softmax(x, axis)`, also where a weight underflows to 0.

        log softmax(x)ᵢ = log( exp(xᵢ) / Σⱼ exp(xⱼ) )

    - `x` and `axis` are those of `softmax`.
    - Return log-weights of the shape and dtype of `x`. A score 1000 below the largest has a log-weight
      near −1000, not −∞: do not take the logarithm of a weight that underflowed to 0.
    - `x` is not changed in place.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, §4.1.
    """
    raise NotImplementedError
