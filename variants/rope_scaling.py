"""Stretched angles: rotary positions for texts longer than those a model was first trained on.

A model that has seen 8,192 positions knows no larger angles. Slower rotation brings more positions into
the range that it knows:

    θᵢ′ = θᵢ / sᵢ,    sᵢ = the divisor of pair i

Linear scaling divides all pairs alike. LLaMA 3.1 leaves the fast pairs, which tell neighbors apart, and
divides only the slow ones, which have not completed a rotation within the first context.

From symbols to names
    d               head_dim, width of a query or key inside one head; even
    pairs           d / 2
    θᵢ              the angle of pair i per position, in radians: base^(−2i / d)
    λᵢ              its wavelength, in positions: 2π / θᵢ
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def linear_divisors(head_dim: int, factor: float) -> Float[Tensor, " pairs"]:
    """Return the same divisor for every pair: position m is rotated as position m / factor.

    Source: Chen et al. 2023, *Extending Context Window of Large Language Models via Positional
    Interpolation*, eq. 4.
    """
    return torch.full((head_dim // 2,), float(factor), dtype=torch.float64)


def llama3_divisors(
    head_dim: int, base: float, factor: float, low: float, high: float, original: int
) -> Float[Tensor, " pairs"]:
    """Return LLaMA 3.1's divisors: 1 for fast pairs, `factor` for slow ones, a smooth change between.

        tᵢ = clamp((original / λᵢ − low) / (high − low), 0, 1)
        1 / sᵢ = (1 − tᵢ) / factor + tᵢ

    Args:
        low: pairs with at most this many rotations in the original context are divided by `factor`.
        high: pairs with at least this many rotations keep their angles; above `low`.
        original: the context length of pretraining.

    Source: Grattafiori et al. 2024, *The Llama 3 Herd of Models*, §3.4.2; the formula: `apply_scaling` in
    Meta's published code, `rope_scaling` in its configurations.
    """
    even = torch.arange(0, head_dim, 2, dtype=torch.float64)  # (pairs,)
    wavelength = 2 * math.pi * base ** (even / head_dim)  # (pairs,)
    smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)  # (pairs,)
    return 1 / ((1 - smooth) / factor + smooth)


def stretch(model: nn.Module, divisors: Float[Tensor, " pairs"]) -> None:
    """Divide the angles of every layer of a `LLaMA`; the layers still share one tensor.

    Raises:
        ValueError: the number of divisors is not the model's number of pairs.
    """
    angles = model.blocks[0].self_attn.angles  # (context, pairs)
    if divisors.shape != angles.shape[1:]:
        raise ValueError(f"divisors must have {angles.size(1)} pairs, got {len(divisors)}")
    stretched = angles / divisors.to(angles)  # (context, pairs)
    for block in model.blocks:
        block.self_attn.angles = stretched
    model.to(model.embed.weight.device)  # a `LLaMA` computes its cosines and sines again
