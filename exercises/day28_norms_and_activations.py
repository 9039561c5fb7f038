"""Day 28 · Norms and activations

Lesson  course lesson 28
Hints   course hint 28     (one more each time; the first gives the steps of one way)
Check   course watch 28    (checks at every save; `course check 28` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Normalize every vector to a mean square of 1, then scale it. Nothing is centered or shifted.

        RMSNorm(x) = γ · x / √(mean(x²) + ε)

    - `features` is the width of the vectors, and `eps` is ε, inside the root.
    - `gain` is γ, `(features,)`, initialized to ones. It is the only parameter.

    Raises:
        ValueError: `features` below 1.

    Source: Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*, eq. 4; ε is not in it.
    """

    def __init__(self, features: int, eps: float):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, in float32 at least.

        - Each vector has its own mean square.
        - The result has the shape and dtype of `x`, whatever the dtype of `gain`. float16 and bfloat16
          are computed in float32, and float64 in float64, so the result is correct to the dtype's
          rounding. Features of 300, whose squares float16 cannot represent, are normalized correctly.
        - A vector of zeros becomes zeros, if ε is above 0.

        Raises:
            ValueError: vectors whose width is not `features`.
        """
        raise NotImplementedError


class GroupNorm(nn.Module):
    """Divide a vector's features into groups, and normalize each group to mean 0 and variance 1.

        GN(x) = γ · (x − μ) / √(σ² + ε) + β,    μ and σ² those of the feature's own group

    One group is LayerNorm. For images, the paper averages over the pixels as well; here every token is
    normalized alone, since otherwise it would depend on later tokens.

    - `groups` is G. Group g, counted from 0, has the features g·n/G to (g+1)·n/G − 1.
    - `features` is n, the width of the vectors, and `eps` is ε, inside the root.
    - `gain` is γ, `(features,)`, initialized to ones, and `bias` is β, `(features,)`, initialized to
      zeros: one for each feature, not for each group.

    Raises:
        ValueError: `groups` does not divide `features`, or either is below 1.

    Source: Wu & He 2018, *Group Normalization*, §3.
    """

    def __init__(self, groups: int, features: int, eps: float):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the groups of the last axis, in float32 at least; σ² is the biased variance.

        - σ² divides by the size of the group.
        - The result has the shape and dtype of `x`, whatever the dtype of `gain`. float16 and bfloat16
          are computed in float32, and float64 in float64. A mean of 1000 with a standard deviation of 0.1
          in float32 is normalized correctly.
        - The result for a group of one feature is the bias.

        Raises:
            ValueError: vectors whose width is not `features`.
        """
        raise NotImplementedError


def gelu(x: Float[Tensor, "..."], approximate: str) -> Float[Tensor, "..."]:
    """Compute the Gaussian error linear unit: each feature times the normal probability of a value below it.

        "none"    GELU(x) = x Φ(x) = x · ½ (1 + erf(x / √2))
        "tanh"    GELU(x) ≈ x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))

    BERT uses `approximate="none"`, GPT-2 `"tanh"`. Half-precision inputs are computed in
    float32.

    - `x` has any shape, and may be empty.
    - The result has the shape and dtype of `x`. float16 and bfloat16 are computed in float32, so the
      result is correct to the dtype's rounding. It is x far above 0, and 0 far below.
    - The two formulas differ by less than 0.001 everywhere.

    Raises:
        ValueError: `approximate` is neither.

    Source: Hendrycks & Gimpel 2016, *Gaussian Error Linear Units (GELUs)*, §2.
    """
    raise NotImplementedError


def mish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Compute a smooth activation with a minimum of −0.31 below 0, which approaches x above.

        mish(x) = x · tanh(softplus(x)),    softplus(x) = ln(1 + eˣ)

    Half-precision inputs are computed in float32.

    - `x` has any shape, and may be empty.
    - The result has the shape and dtype of `x`. float16 and bfloat16 are computed in float32, so the
      result is correct to the dtype's rounding.
    - For features of 10⁴ and −10⁴, where eˣ overflows, the result is x and 0, with gradients of 1 and
      0.

    Source: Misra 2019, *Mish: A Self Regularized Non-Monotonic Activation Function*.
    """
    raise NotImplementedError


class SwiGLU(nn.Module):
    """Apply a gated feed-forward network: the Swish of one projection multiplies the other projection.

        FFN(x) = (Swish(x W) ⊗ x V) W₂,    Swish(x) = x · σ(x)

    With ⅔ of the usual d_ff, the three matrices have the parameter count of the usual two.

    - `w_gate` is W, an `nn.Linear(d_model, d_ff, bias=False)`; its outputs go through Swish.
    - `w_up` is V, an `nn.Linear(d_model, d_ff, bias=False)`.
    - `w_down` is W₂, an `nn.Linear(d_ff, d_model, bias=False)`.
    - There are no other parameters, and there is no dropout. The initial weights are those of
      `nn.Linear`.

    Raises:
        ValueError: `d_model` or `d_ff` below 1.

    Source: Shazeer 2020, *GLU Variants Improve Transformer*, §2, eq. 6.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position on its own.

        The result has the shape and dtype of `x`, `(…, d_model)`. Each position is computed separately.
        """
        raise NotImplementedError
