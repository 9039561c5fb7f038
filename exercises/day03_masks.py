"""Day 3 · Masks

Lesson  course lesson 3
Hints   course hint 3
Check   course watch 3    (checks at every save; `course check 3` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import numpy as np
from jaxtyping import Bool, Int


def padding_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B 1 T"]:
    """Which keys are real tokens: padding fills short sequences of a batch and must not be read.

    Args:
        tokens: token ids, `(B, T)`.
        pad: the id that stands for padding.

    Returns:
        Boolean `(B, 1, T)`, True at real tokens. The axis of length 1 is that of the queries: every
        query of a sequence sees the same keys.

    Source: Vaswani et al. 2017, §3.2.3 (illegal connections are masked out before the softmax).
    """
    # 1. True where the token is not padding; then make room for the axis of the queries.
    raise NotImplementedError


def subsequent_mask(size: int) -> Bool[np.ndarray, "1 T T"]:
    """Which keys lie in the past: position i may attend to positions 0 … i, itself included.

    Args:
        size: the number of positions T.

    Returns:
        Boolean `(1, T, T)`: row i (a query) is True in its first i + 1 columns (keys).

    Source: Vaswani et al. 2017, §3.1 (decoder: "masking … ensures that the predictions for position
    i can depend only on the known outputs at positions less than i") and §3.2.3.
    """
    # 1. Keep the lower triangle of a square of True, diagonal included; the batch axis broadcasts.
    raise NotImplementedError


def target_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B T T"]:
    """What a decoder may look at: keys that are real tokens *and* not in the future.

    Args:
        tokens: token ids of the target sequences, `(B, T)`.
        pad: the id that stands for padding.

    Returns:
        Boolean `(B, T, T)`. It hides keys only: a padded query still sees its real earlier keys.

    Source: Vaswani et al. 2017, §3.2.3.
    """
    # 1. Both conditions must hold: (B, 1, T) and (1, T, T) broadcast to (B, T, T).
    raise NotImplementedError
