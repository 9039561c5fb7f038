"""What came after max(0, x): two smooth curves, and a feed-forward network with a gate.

`gelu` and `mish` stand where `PositionwiseFeedForward` of day 10 has its `relu`; `SwiGLU` stands for
the whole network.

From symbols to names
    x               a feature, or a vector of d_model features
    Φ               the normal distribution's share below x
    σ               the sigmoid, 1 / (1 + e⁻ˣ)
    W, V, W₂        the weights of w_gate, w_up, w_down
    d_ff            width of the hidden layer
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# --- Day 28 · Activations -------------------------------------------------------------------------


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
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate must be "none" or "tanh", not {approximate!r}')
    # 1. Widen halves: 1 + erf(…) is the difference of two near numbers where x is below 0.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # 2. A number from −1 to 1: the error function, or the curve close to it.
    if approximate == "none":
        signed = (wide / math.sqrt(2)).erf()  # (…)
    else:
        signed = (math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)).tanh()  # (…)
    # 3. From there to a share, from 0 to 1, and times x.
    return (wide * 0.5 * (1 + signed)).to(x.dtype)


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
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    softplus = F.softplus(wide)  # (…)
    # 2. Squash it, and multiply.
    return (wide * softplus.tanh()).to(x.dtype)


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
        if d_model < 1 or d_ff < 1:
            raise ValueError(f"d_model and d_ff must be at least 1, and are {d_model} and {d_ff}")
        # 1. Two projections up, and one down.
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype. Positions do not see each other here."""
        # 1. The gate: Swish of one projection.
        gate = self.w_gate(x)  # (…, d_ff)
        gate = gate * gate.sigmoid()  # (…, d_ff)
        # 2. Times the other projection, and narrow back.
        return self.w_down(gate * self.w_up(x))  # (…, d_model)
