"""Day 10 · Feed-forward and embeddings

Lesson  course lesson 10
Hints   course hint 10
Check   course watch 10    (checks at every save; `course check 10` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class PositionwiseFeedForward(nn.Module):
    """The same small two-layer network at every position: widen, cut off below 0, narrow again.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    Args:
        d_model: width of the tokens' vectors.
        d_ff: width of the hidden layer; 4 · d_model in the paper.
        dropout: the probability with which a hidden value is dropped in training, after the cut.

    Attributes:
        w_1: `nn.Linear(d_model, d_ff)`.
        w_2: `nn.Linear(d_ff, d_model)`.

    Source: Vaswani et al. 2017, §3.3, eq. 2. The dropout inside is not in the paper's text; the
    authors' own code has it (`relu_dropout`).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        # 1. Two linear layers, and the dropout between them.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype. Positions do not see each other here."""
        # 1. Widen, cut off below 0, drop some, and narrow back.
        raise NotImplementedError


class Embeddings(nn.Module):
    """A vector for each token of the vocabulary, times √d_model.

    Args:
        d_model: width of the vectors.
        vocab: V, the number of tokens.

    Attributes:
        lut: the look-up table, `nn.Embedding(vocab, d_model)` without a padding index. It starts at
            N(0, 1/d_model), so that after the factor every feature has variance 1, like the
            positions added to it; and the same table can serve as the output projection.

    Source: Vaswani et al. 2017, §3.4, has the factor; the start is tensor2tensor's.
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        # 1. The table, with a standard deviation of 1/√d_model at the start.
        raise NotImplementedError

    def forward(self, tokens: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T d_model"]:
        """Look the tokens up: ids of any shape, `(…, T)`, to vectors `(…, T, d_model)` in `lut`'s dtype.

        Raises:
            ValueError: an id outside 0 to vocab − 1. Only the CPU is asked: a GPU would have to wait.
        """
        # 1. Look up, and scale.
        raise NotImplementedError


class PositionalEncoding(nn.Module):
    """Add to each token a fingerprint of its position: sines and cosines of ever longer waves.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Args:
        d_model: width of the tokens' vectors, even or odd; an odd one ends on a sine.
        dropout: the probability with which a feature of the sum is dropped in training.
        max_len: the number of positions in the table, counted from 0.

    Attributes:
        pe: the table, a buffer `(1, max_len, d_model)` in the dtype that modules are made in, which
            is float32, and right to its rounding; nothing is learnt.

    Source: Vaswani et al. 2017, §3.5; dropout on the sum, §5.4.
    """

    pe: Tensor

    def __init__(self, d_model: int, dropout: float, max_len: int = 5000):
        super().__init__()
        # 1. One frequency for each pair of columns (2i, 2i + 1). In float64: the sine of position
        #    4999 is off by position × eps, which is 3 digits in float32.
        # 2. Sines in columns 0, 2, 4 …, cosines in columns 1, 3, 5 …
        # 3. A buffer moves with the module, and no optimiser ever sees it.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Add the first T positions to `(B, T, d_model)`, then drop. Table and `x` have one dtype.

        Raises:
            ValueError: more tokens than `max_len`, or vectors of another width than `d_model`.
        """
        # 1. Add, and drop some features of the sum.
        raise NotImplementedError
