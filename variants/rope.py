"""Rotary position embedding: queries and keys are rotated by their positions, in every layer.

It replaces `PositionalEncoding` of day 10: nothing is added to the embeddings. Rotate a query at position m
and a key at position n, and their dot product, the score, depends on the positions only by m − n. Values are
not rotated.

From symbols to names
    d               head_dim, width of a query or key inside one head; even
    pairs           d / 2
    θᵢ              the angle by which pair i is rotated per position, in radians
    m               position of a token, counted from 0; angles[m, i] is m θᵢ
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

# --- Day 29 · Rotary positions --------------------------------------------------------------------


def rope_angles(
    head_dim: int, max_len: int, base: float = 10000.0
) -> Float[Tensor, "max_len pairs"]:
    """Return the angle by which each pair of features is rotated at each position, in radians.

        angles[m, i] = m θᵢ,    θᵢ = base^(−2i / d),    i = 0, 1, …, d/2 − 1

    The angles are on the CPU in float64. Near position 10⁵, rounding an angle costs up to 0.004 radians in
    float32 and up to 256 in bfloat16.

    Raises:
        ValueError: `head_dim` is odd or below 2, `max_len` is below 0, or `base` is not above 0.

    Source: Su et al. 2021, *RoFormer*, §3.2.2 and eq. 15, where i counts from 1.
    """
    if head_dim < 2 or head_dim % 2 != 0:
        raise ValueError(f"head_dim must be even and at least 2, got {head_dim}")
    if max_len < 0:
        raise ValueError(f"max_len must be at least 0, got {max_len}")
    if not base > 0:
        raise ValueError(f"base must be above 0, got {base}")
    # 1. Compute each pair's angle per position: 1 radian for the first, and less for each further pair.
    even = torch.arange(0, head_dim, 2, dtype=torch.float64)  # (pairs,), the formula's 2i
    theta = base ** (-even / head_dim)  # (pairs,)
    # 2. Multiply every position by every angle.
    position = torch.arange(max_len, dtype=torch.float64)  # (max_len,)
    return torch.outer(position, theta)  # (max_len, pairs)


def apply_rope(
    x: Float[Tensor, "*batch T head_dim"],
    angles: Float[Tensor, "max_len pairs"],
    offset: int | Int[Tensor, " B"] = 0,
    layout: str = "interleaved",
) -> Float[Tensor, "*batch T head_dim"]:
    """Rotate each pair of features (a, b) by the angle of its position.

        a′ = a cos mθᵢ − b sin mθᵢ
        b′ = a sin mθᵢ + b cos mθᵢ

    Args:
        angles: `rope_angles(head_dim, max_len, …)`, on any device.
        offset: the position of the first token, one for all rows or one for each row of the first axis.
        layout: `"interleaved"`: pair i is features 2i and 2i + 1, as in the paper. `"halves"`: pair i is
            features i and i + head_dim/2, as in Hugging Face's LLaMA.

    Raises:
        ValueError: `layout` is neither; `angles` for a different `head_dim`; an offset tensor that is not
            `(B,)`, or for an `x` without a batch axis; positions outside 0 to max_len − 1 (those of an
            offset tensor on the CPU only: a GPU would have to wait).

    Source: Su et al. 2021, *RoFormer*, eqs. 15 and 34.
    """
    if layout not in ("interleaved", "halves"):
        raise ValueError(f'layout must be "interleaved" or "halves", got {layout!r}')
    if x.size(-1) != 2 * angles.size(-1):
        raise ValueError(f"x must have a head_dim of {2 * angles.size(-1)}, got {x.size(-1)}")
    _check_offset(x, angles.size(0), offset)
    # 1. Look up the angle of every token and pair. Rows with their own offsets have a batch axis in
    #    front, and behind it as many axes of size 1 as x has between batch and time.
    if isinstance(offset, int):
        rotation = angles[offset : offset + x.size(-2)]  # (T, pairs)
    else:
        steps = torch.arange(x.size(-2), device=offset.device)  # (T,)
        position = offset.unsqueeze(-1) + steps  # (B, T)
        rotation = angles[position.to(angles.device)]  # (B, T, pairs)
        rotation = rotation.view(
            len(rotation), *[1] * (x.dim() - 3), *rotation.shape[1:]
        )  # (B, 1 …, T, …)
    # 2. Compute cosines and sines, in float32 at least, as the features that they rotate.
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = rotation.cos().to(x.device, wide), rotation.sin().to(x.device, wide)  # (…, T, pairs)
    # 3. Split the features into pairs, which are side by side or half a vector apart.
    pairs = angles.size(-1)
    sizes, axis = ((pairs, 2), -1) if layout == "interleaved" else ((2, pairs), -2)
    a, b = x.to(wide).unflatten(-1, sizes).unbind(axis)  # (…, T, pairs)
    # 4. Rotate, and put the pairs back where they were.
    rotated = torch.stack(
        (a * cos - b * sin, a * sin + b * cos), dim=axis
    )  # (…, T, pairs, 2) or (…, T, 2, pairs)
    return rotated.flatten(-2).to(x.dtype)  # (…, T, head_dim)


def _check_offset(x: Tensor, max_len: int, offset: int | Tensor) -> None:
    """Refuse positions without an angle, where asking costs nothing."""
    first = last = offset
    if isinstance(offset, Tensor):
        if x.dim() < 3 or offset.shape != x.shape[:1]:
            raise ValueError(
                f"offset must be an int or have shape (B,), got {tuple(offset.shape)} for x of "
                f"{tuple(x.shape)}"
            )
        if offset.device.type != "cpu" or offset.numel() == 0 or torch.compiler.is_compiling():
            return
        first, last = (int(end) for end in offset.aminmax())
    if first < 0 or last + x.size(-2) > max_len:
        raise ValueError(
            f"positions must lie in 0 to {max_len - 1}, got {first} to {last + x.size(-2) - 1}"
        )
