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
    """Compute the KL divergence from a smoothed target: 1 − ε on the right token, ε over the others.

        L = Σ over rows, Σ over classes  q · (log q − log p)
        q = 1 − ε at the target, ε / (size − 2) elsewhere, 0 at the padding

    - `size` is V, the number of classes: at least 3, a target, the padding, and one more.
    - `padding_idx` is the class of padding: never right, and never given a share. `smoothing` is ε.

    Raises:
        ValueError: fewer than 3 classes, an ε outside 0 to 1, or a padding that is not a class.

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
        """Return the summed divergence, computed in float32 or wider.

        - `log_probs` are finite log-probabilities, `(N, size)`. `target` is the right class of each row,
          `(N,)`; a row whose target is padding counts nothing.
        - Return a 0-d tensor of the inputs' dtype, the sum over all rows, also where nothing counts. It is
          computed in that dtype, for half precision in float32, because half precision cannot represent
          a small share of ε.
        - The inputs are not changed.

        Raises:
            ValueError: other shapes, or a target outside 0 to size − 1 (checked on the CPU only).
        """
        # 1. Every class its share of ε, the right one the rest. In float32 at least: shares of a
        #    large vocabulary are too small for halves.
        # 2. Nothing for the padding, neither as a class nor as a target.
        # 3. The divergence, in which 0 · log 0 is 0.
        raise NotImplementedError
