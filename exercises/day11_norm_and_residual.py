"""Day 11 · Norm and residual

Lesson  course lesson 11
Hints   course hint 11
Check   course watch 11    (checks at every save; `course check 11` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Give every vector mean 0 and variance 1, then a learnt scale and shift.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    Args:
        features: width of the vectors.
        eps: ε, inside the root.

    Attributes:
        gain: γ, `(features,)`, ones at the start.
        bias: β, `(features,)`, zeros at the start.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not in the paper.
    """

    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        # 1. Two parameters, and ε.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Norm the last axis. μ and σ² are each vector's own, σ² with the divisor n (biased).

        Returns:
            The shape and dtype of `x`. A mean of 1000 with a deviation of 0.1 in float32, or
            features of 300 in float16, whose squares it cannot hold, are no trouble.

        Raises:
            ValueError: vectors of another width than `features`.
        """
        # 1. Centre each vector by its own mean. Halves are widened first, as in attention.
        # 2. Its variance is the mean of the squares of what is left: its length squared, over n.
        #    Divide by the deviation.
        # 3. Scale and shift.
        raise NotImplementedError


class SublayerConnection(nn.Module):
    """A shortcut around a sublayer, and a norm.

        post-norm, as in the paper   LN(x + Dropout(Sublayer(x)))
        pre-norm                     x + Dropout(Sublayer(LN(x)))

    Args:
        size: d_model.
        dropout: the probability with which a feature of the sublayer's output is dropped.
        norm: `"post"` or `"pre"`.

    Attributes:
        norm: a `LayerNorm(size)`.
        dropout: an `nn.Dropout`.

    Raises:
        ValueError: a `norm` that is neither.

    Source: Vaswani et al. 2017, §3.1 and §5.4 (dropout, before the addition); pre-norm: Xiong et al.
    2020, *On Layer Normalization in the Transformer Architecture*, figure 1.
    """

    def __init__(self, size: int, dropout: float, norm: str = "post"):
        super().__init__()
        # 1. The norm, the dropout, and where the norm goes.
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "B T size"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T size"]:
        """Ask `sublayer` once, which maps `(B, T, size)` to the same shape, with a shortcut around it.

        Returns:
            The shape and dtype of `x`; `x` itself, and what `sublayer` gave, stay as they are.
        """
        # 1. Pre-norm: the sublayer sees a normed x, and the shortcut an untouched one.
        # 2. Post-norm: the sublayer sees x, and the sum is normed.
        raise NotImplementedError


def clones(module: nn.Module, n: int) -> nn.ModuleList:
    """n copies of a module with parameters of their own, none of them the original.

    Args:
        module: what to copy, as it is now.
        n: how many; 0 gives an empty list.

    Returns:
        An `nn.ModuleList`, so that the model finds the parameters. The copies start with equal
        values and share nothing.

    Source: Vaswani et al. 2017, §3.1: a stack of N layers that are alike and have different weights.
    """
    # 1. A deep copy each.
    raise NotImplementedError
