"""What came after max(0, x): two smooth activations, and a feed-forward network with a gate.

`gelu` and `mish` replace the ReLU of day 10's `PositionwiseFeedForward`; `SwiGLU` replaces the network.

From symbols to names
    x               a feature, or a vector of d_model features
    Φ               the distribution function of the standard normal distribution
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
    """Compute the Gaussian error linear unit: each feature times the normal probability of a value below it.

        "none"    GELU(x) = x Φ(x) = x · ½ (1 + erf(x / √2))
        "tanh"    GELU(x) ≈ x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))

    BERT uses `approximate="none"`, GPT-2 `"tanh"`. Half-precision inputs are computed in
    float32.

    Raises:
        ValueError: `approximate` is neither.

    Source: Hendrycks & Gimpel 2016, *Gaussian Error Linear Units (GELUs)*, §2.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
    # 1. Upcast half precision: where x is below 0, 1 + erf(…) is the difference of two close numbers.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # 2. A number from −1 to 1: the error function, or the curve close to it.
    if approximate == "none":
        signed = (wide / math.sqrt(2)).erf()  # (…)
    else:
        signed = (math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)).tanh()  # (…)
    # 3. Turn it into a probability, from 0 to 1, and multiply by x.
    return (wide * 0.5 * (1 + signed)).to(x.dtype)


def mish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Compute a smooth activation with a minimum of −0.31 below 0, which approaches x above.

        mish(x) = x · tanh(softplus(x)),    softplus(x) = ln(1 + eˣ)

    Half-precision inputs are computed in float32.

    Source: Misra 2019, *Mish: A Self Regularized Non-Monotonic Activation Function*.
    """
    # 1. Upcast half precision. Compute the softplus by a function that avoids eˣ where x is large.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    softplus = F.softplus(wide)  # (…)
    # 2. Apply tanh, and multiply.
    return (wide * softplus.tanh()).to(x.dtype)


class SwiGLU(nn.Module):
    """Apply a gated feed-forward network: the Swish of one projection multiplies the other projection.

        FFN(x) = (Swish(x W) ⊗ x V) W₂,    Swish(x) = x · σ(x)

    With ⅔ of the usual d_ff, the three matrices have the parameter count of the usual two.

    Raises:
        ValueError: `d_model` or `d_ff` below 1.

    Source: Shazeer 2020, *GLU Variants Improve Transformer*, §2, eq. 6.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        if d_model < 1 or d_ff < 1:
            raise ValueError(f"d_model and d_ff must be at least 1, got {d_model=}, {d_ff=}")
        # 1. Two projections up, and one down.
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position on its own."""
        # 1. Compute the gate: the Swish of one projection.
        gate = self.w_gate(x)  # (…, d_ff)
        gate = gate * gate.sigmoid()  # (…, d_ff)
        # 2. Multiply by the other projection, and project back to d_model.
        return self.w_down(gate * self.w_up(x))  # (…, d_model)
