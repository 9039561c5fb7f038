"""Day 10 · Feed-forward and embeddings

Lesson  course lesson 10
Hints   course hint 10     (one more each time; the first gives the steps of one way)
Check   course watch 10    (checks at every save; `course check 10` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class PositionwiseFeedForward(nn.Module):
    """Apply the same two-layer feed-forward network at every position.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    - `w_1` is an `nn.Linear(d_model, d_ff)`, and `w_2` an `nn.Linear(d_ff, d_model)`. The paper's `d_ff`
      is 4 · d_model.
    - `dropout` is the probability of dropping a hidden activation in training, after the ReLU.

    Source: Vaswani et al. 2017, §3.3, eq. 2. The dropout inside is not in the paper's text; the
    authors' own code has it (`relu_dropout`).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position separately; positions do not see each other here.

        The result has the shape and dtype of `x`, `(…, d_model)`.
        """
        raise NotImplementedError


class Embeddings(nn.Module):
    """Look up a vector for each token, and multiply it by √d_model.

    - `lut` is the embedding matrix, `nn.Embedding(vocab, d_model)` without a padding index.
    - It is initialized from N(0, 1/d_model), so that after the factor every feature has variance 1, like
      the positions added to it, and the same matrix can serve as the output projection.

    Source: Vaswani et al. 2017, §3.4 (the factor); initialization: tensor2tensor.
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, tokens: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T d_model"]:
        """Return the tokens' vectors.

        Ids of any shape `(…, T)` become vectors `(…, T, d_model)` in the dtype of `lut`.
        """
        raise NotImplementedError


class PositionalEncoding(nn.Module):
    """Add sines and cosines of the position, with one wavelength for each pair of features.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    - `d_model` may be odd; then the last column is a sine.
    - `dropout` is the probability of dropping a feature of the sum in training.
    - `max_len` is the number of positions in the table, counted from 0.
    - `pe` is this table, a buffer `(1, max_len, d_model)` in PyTorch's default dtype (float32), correct to
      its rounding. Nothing is learned.

    Raises:
        ValueError: more than `max_len` positions, or a width other than `d_model`.

    Source: Vaswani et al. 2017, §3.5; dropout on the sum, §5.4.
    """

    pe: Tensor

    def __init__(self, d_model: int, dropout: float, max_len: int = 5000):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Add the first T positions, then apply dropout.

        The result has the shape of `x`, `(B, T, d_model)`. The table and `x` have the same dtype.
        """
        raise NotImplementedError
