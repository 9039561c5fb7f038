"""Day 3 · Masks

Lesson  course lesson 3
Hints   course hint 3     (one more each time; the first gives the steps of one way)
Check   course watch 3    (checks at every save; `course check 3` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
"""

import numpy as np
from jaxtyping import Bool, Int


def padding_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B 1 T"]:
    """Return the mask `(B, 1, T)`, True at the keys that are real tokens, not padding.

    - `tokens` are ids `(B, T)`. `pad` is the id of the padding, which fills up the short sequences of a
      batch. This id is not always 0.
    - Return booleans `(B, 1, T)`. The axis of length 1 is that of the queries: all queries of a sequence
      see the same keys.

    Source: Vaswani et al. 2017, §3.2.3 (illegal connections are masked out before the softmax).
    """
    raise NotImplementedError


def subsequent_mask(size: int) -> Bool[np.ndarray, "1 T T"]:
    """Return the causal mask `(1, T, T)`: position i may attend to positions 0 … i.

    - `size` is T, the number of positions.
    - Return booleans `(1, T, T)`. Row i is query i, column j is key j. A position may attend to itself.

    Source: Vaswani et al. 2017, §3.1 (decoder: "masking … ensures that the predictions for position
    i can depend only on the known outputs at positions less than i") and §3.2.3.
    """
    raise NotImplementedError


def target_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B T T"]:
    """Return the decoder's mask `(B, T, T)`, True at real tokens that are not in the future.

    - `tokens` are the ids of the target sequences, `(B, T)`; `pad` is the id of the padding.
    - Return booleans `(B, T, T)`. Only keys are hidden: a padded query still sees its earlier real keys.

    Source: Vaswani et al. 2017, §3.2.3.
    """
    raise NotImplementedError
