"""Day 16 · Label smoothing

Lesson  course lesson 16
Hints   course hint 16     (one more each time; the first gives the steps of one way)
Check   course watch 16    (checks at every save; `course check 16` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class LabelSmoothing(nn.Module):
    """Compute the KL divergence from a smoothed target: 1 − ε on the right token, ε over the others.

        L = Σ over rows, Σ over classes  q · (log q − log p)
        q = 1 − ε at the target, ε / (size − 2) elsewhere, 0 at the padding

    - `size` is V, the number of classes, at least 3: a target, the padding, and one other class.
    - `padding_idx` is the class of the padding, which always gets probability 0. `smoothing` is ε.

    Raises:
        ValueError: fewer than 3 classes, or an argument out of range or of the wrong shape.

    Source: Vaswani et al. 2017, §5.4 (ε_ls = 0.1); Szegedy et al. 2016, *Rethinking the Inception
    Architecture*, §7, spread ε over all classes; to leave out target and padding is The Annotated
    Transformer's. The divergence is the cross-entropy minus the entropy of q: its minimum is 0.
    """

    def __init__(self, size: int, padding_idx: int, smoothing: float = 0.0):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, log_probs: Float[Tensor, "N size"], target: Int[Tensor, "N"]
    ) -> Float[Tensor, ""]:
        """Return the summed divergence of finite `log_probs`, computed in float32 or wider.

        - `log_probs` are finite log-probabilities, `(N, size)`. `target` is the right class of each row,
          `(N,)`; a row whose target is padding contributes nothing.
        - Return a 0-d tensor of the inputs' dtype, the sum over all rows; it is 0 if no row contributes. For
          half precision it is computed in float32, because half precision cannot represent a small share of
          ε; otherwise it is computed in the inputs' dtype.
        - The inputs are not changed.
        """
        raise NotImplementedError
