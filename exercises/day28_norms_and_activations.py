"""Day 28 · Norms and activations

Lesson  course lesson 28
Hints   course hint 28
Check   course watch 28    (checks at every save; `course check 28` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Give every vector a mean square of 1, then a learnt scale. Nothing is centred, nothing shifted.

        RMSNorm(x) = γ · x / √(mean(x²) + ε)

    Args:
        features: n, the width of the vectors.
        eps: ε, inside the root.

    Attributes:
        gain: γ, `(features,)`, ones at the start; the only parameter.

    Raises:
        ValueError: `features` below 1.

    Source: Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*, eq. 4; ε is not in it.
    """

    def __init__(self, features: int, eps: float):
        super().__init__()
        # 1. One parameter, and ε.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Norm the last axis; the mean square is each vector's own.

        Returns:
            The shape and dtype of `x`, whatever the dtype of `gain`. float16 and bfloat16 are
            computed in float32, float64 in float64: the result is right to the dtype's rounding, and
            features of 300, whose squares float16 cannot hold, are no trouble. A vector of zeros
            gives zeros, where ε is above 0.

        Raises:
            ValueError: vectors of another width than `features`.
        """
        # 1. Widen halves. The mean of the squares, over the features.
        # 2. Divide by its root, scale, and only then go back to the input's dtype.
        raise NotImplementedError


class GroupNorm(nn.Module):
    """Share a vector's features out into groups, and give each group mean 0 and variance 1.

        GN(x) = γ · (x − μ) / √(σ² + ε) + β,    μ and σ² those of the feature's own group

    One group is LayerNorm. The paper norms pictures, and takes μ and σ² over the pixels as well; here
    every token is normed alone, or it would see those after it.

    Args:
        groups: G, which divides `features`. A group is n / G neighbours: group g, counted from 0, has
            the features g·n/G to (g+1)·n/G − 1.
        features: n, the width of the vectors.
        eps: ε, inside the root.

    Attributes:
        gain: γ, `(features,)`, ones at the start: one for each feature, not for each group.
        bias: β, `(features,)`, zeros at the start.

    Raises:
        ValueError: `groups` does not divide `features`, or either is below 1.

    Source: Wu & He 2018, *Group Normalization*, §3.
    """

    def __init__(self, groups: int, features: int, eps: float):
        super().__init__()
        # 1. The number of groups, two parameters, and ε.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Norm the groups of the last axis. σ² has the group's size for its divisor (biased).

        Returns:
            The shape and dtype of `x`, computed in float32 at least, as in `RMSNorm`. A mean of 1000
            with a deviation of 0.1 in float32 is no trouble. Groups of one feature give the bias.

        Raises:
            ValueError: vectors of another width than `features`.
        """
        # 1. Widen halves, and split the last axis into groups.
        # 2. Centre each group by its own mean, and divide by its own deviation.
        # 3. Scale and shift every feature, and only then go back to the input's dtype.
        raise NotImplementedError


def gelu(x: Float[Tensor, "..."], approximate: str) -> Float[Tensor, "..."]:
    """The Gaussian error linear unit: each feature times the share of the normal distribution below it.

        "none"    GELU(x) = x Φ(x) = x · ½ (1 + erf(x / √2))
        "tanh"    GELU(x) ≈ x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))

    Args:
        x: features of any shape, empty ones too.
        approximate: `"none"` for the definition, as in BERT, or `"tanh"`, as in GPT-2. The two are
            less than 0.001 apart everywhere.

    Returns:
        The shape and dtype of `x`. float16 and bfloat16 are computed in float32: the result is right
        to the dtype's rounding. Far above 0 it is x, far below 0 it is 0.

    Raises:
        ValueError: an `approximate` that is neither.

    Source: Hendrycks & Gimpel 2016, *Gaussian Error Linear Units (GELUs)*, §2.
    """
    # 1. Widen halves: 1 + erf(…) is the difference of two near numbers where x is below 0.
    # 2. A number from −1 to 1: the error function, or the curve close to it.
    # 3. From there to a share, from 0 to 1, and times x.
    raise NotImplementedError


def mish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A smooth curve through 0 that dips below it on the left, to −0.31, and is x on the right.

        mish(x) = x · tanh(softplus(x)),    softplus(x) = ln(1 + eˣ)

    Args:
        x: features of any shape, empty ones too.

    Returns:
        The shape and dtype of `x`. float16 and bfloat16 are computed in float32: the result is right
        to the dtype's rounding. Features of ±10⁴, where eˣ overflows, give x and 0, and gradients
        of 1 and 0.

    Source: Misra 2019, *Mish: A Self Regularized Non-Monotonic Activation Function*.
    """
    # 1. Widen halves. The softplus, by a function that does not compute eˣ where x is large.
    # 2. Squash it, and multiply.
    raise NotImplementedError


class SwiGLU(nn.Module):
    """A feed-forward network whose hidden values are gated: one projection opens or shuts the other.

        FFN(x) = (Swish(x W) ⊗ x V) W₂,    Swish(x) = x · σ(x)

    Three matrices instead of two: with a d_ff of ⅔ of the old one there are as many weights as before.

    Args:
        d_model: width of the tokens' vectors.
        d_ff: width of the hidden layer.

    Attributes:
        w_gate: W, `nn.Linear(d_model, d_ff, bias=False)`; its outputs go through Swish.
        w_up: V, `nn.Linear(d_model, d_ff, bias=False)`.
        w_down: W₂, `nn.Linear(d_ff, d_model, bias=False)`. There are no other parameters, and no
            dropout; the initial weights are those of `nn.Linear`.

    Raises:
        ValueError: `d_model` or `d_ff` below 1.

    Source: Shazeer 2020, *GLU Variants Improve Transformer*, §2, eq. 6.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        # 1. Two projections up, and one down.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype. Positions do not see each other here."""
        # 1. The gate: Swish of one projection.
        # 2. Times the other projection, and narrow back.
        raise NotImplementedError
