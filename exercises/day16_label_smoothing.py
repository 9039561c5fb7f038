"""Day 16 · Label smoothing

Lesson  course lesson 16
Hints   course hint 16
Check   course watch 16    (checks at every save; `course check 16` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class LabelSmoothing(nn.Module):
    """The KL divergence from a softened target: 1 − ε on the right token, ε spread over the others.

        L = Σ over rows, Σ over classes  q · (log q − log p)
        q = 1 − ε at the target, ε / (size − 2) elsewhere, 0 at the padding

    Args:
        size: V, the number of classes.
        padding_idx: the class of padding: never right, and never given a share.
        smoothing: ε.

    Raises:
        ValueError: fewer than 3 classes (a target, the padding, and one more), an ε outside 0 to 1, or
            a padding that is none of the classes.

    Source: Vaswani et al. 2017, §5.4 (ε_ls = 0.1); Szegedy et al. 2016, *Rethinking the Inception
    Architecture*, §7. With q constant the divergence is the cross-entropy less a constant, and its
    minimum is 0.
    """

    def __init__(self, size: int, padding_idx: int, smoothing: float = 0.0):
        super().__init__()
        # 1. Keep what the target distribution is made from.
        raise NotImplementedError

    def forward(
        self, log_probs: Float[Tensor, "N size"], target: Int[Tensor, "N"]
    ) -> Float[Tensor, ""]:
        """The summed divergence.

        Args:
            log_probs: finite log-probabilities, `(N, size)`.
            target: the right class of each row, `(N,)`. Rows whose target is padding count nothing.

        Returns:
            A 0-d tensor of the inputs' dtype, the sum over all rows, also where nothing counts. It is
            computed in that dtype, for half precision in float32: a share of ε may be too small for a
            half. The inputs are as they were.

        Raises:
            ValueError: other shapes, or a target outside 0 to size − 1 (asked on the CPU only).
        """
        # 1. Every class its share of ε, the right one the rest. In float32 at least: shares of a
        #    large vocabulary are too small for halves.
        # 2. Nothing for the padding, neither as a class nor as a target.
        # 3. The divergence, in which 0 · log 0 is 0.
        raise NotImplementedError
