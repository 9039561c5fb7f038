"""Day 1 · Softmax

Lesson  course lesson 1
Hints   course hint 1
Check   course watch 1    (checks at every save; `course check 1` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import numpy as np
from jaxtyping import Float


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Turn scores into weights: all positive, summing to 1 along `axis`.

        softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)

    Args:
        x: scores, of any shape and any size: 1e4 and −1e4 are scores like any other.
        axis: the axis along which the weights sum to 1.

    Returns:
        Weights of the shape and dtype of `x`, which stays as it is. Adding a constant to `x` does not
        change them.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, eq. 4.1 and §4.1 (overflow).
    """
    # 1. Subtract the largest score along the axis. The shift cancels in the fraction, and the
    #    largest exponential is then exp(0) = 1: nothing overflows.
    # 2. Exponentiate. What underflows becomes 0, which is right.
    # 3. Divide by the sum along the same axis, kept as an axis of length 1 so that it broadcasts.
    raise NotImplementedError


def log_softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """The logarithm of `softmax(x, axis)`, without ever taking the log of a weight that became 0.

        log softmax(x)ᵢ = xᵢ − log Σⱼ exp(xⱼ)

    Args:
        x: scores, of any shape and any size.
        axis: the axis along which the weights sum to 1.

    Returns:
        Log-weights of the shape and dtype of `x`, which stays as it is. A score 1000 below the
        largest has a log-weight near −1000, not −∞.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, §4.1.
    """
    # 1. Subtract the largest score along the axis, as in softmax.
    # 2. Subtract the log of the sum of exponentials. The sum is at least 1, so its log is safe.
    raise NotImplementedError
