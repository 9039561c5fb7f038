"""Rotary position embedding: a position turns queries and keys, instead of being added to the tokens.

Turn a query at position m and a key at position n, and their product, the score, knows m and n only
by the difference m − n. It replaces `PositionalEncoding` of day 10: nothing is added to the embeddings,
and in every layer queries and keys, not values, are turned before they meet.

From symbols to names
    d               head_dim, width of a query or key inside one head; even
    pairs           d / 2
    θᵢ              how far pair i turns at each step, in radians
    m               position of a token, counted from 0
    m θᵢ            angles[m, i]
    B, T            batch, time
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

# --- Day 29 · Rotary positions --------------------------------------------------------------------


def rope_angles(
    head_dim: int, max_len: int, base: float = 10000.0
) -> Float[Tensor, "max_len pairs"]:
    """How far each pair of features is turned at each position.

        angles[m, i] = m θᵢ,    θᵢ = base^(−2i / d),    i = 0, 1, …, d/2 − 1

    Args:
        head_dim: d, an even number.
        max_len: the number of positions, counted from 0; 0 gives an empty table.
        base: the larger, the slower the last pairs turn.

    Returns:
        `(max_len, head_dim / 2)`, radians, on the CPU. In float64; float32 is allowed, and nothing
        narrower: at position 10⁵ the angle is off by 0.004 in float32, and by 256 in bfloat16.

    Raises:
        ValueError: `head_dim` is odd or below 2, `max_len` is below 0, or `base` is not above 0.

    Source: Su et al. 2021, *RoFormer*, §3.2.2 and eq. 15, where i counts from 1.
    """
    if head_dim < 2 or head_dim % 2 != 0:
        raise ValueError(f"head_dim must be even, so that it falls into pairs, and is {head_dim}")
    if max_len < 0:
        raise ValueError(f"max_len must not be negative, and is {max_len}")
    if not base > 0:
        raise ValueError(f"base must be above 0, and is {base}")
    # 1. One step's turn for each pair: 1 radian for the first, and less and less.
    even = torch.arange(0, head_dim, 2, dtype=torch.float64)  # (pairs,), the formula's 2i
    theta = base ** (-even / head_dim)  # (pairs,)
    # 2. Every position times every turn.
    position = torch.arange(max_len, dtype=torch.float64)  # (max_len,)
    return torch.outer(position, theta)  # (max_len, pairs)


def apply_rope(
    x: Float[Tensor, "*batch T head_dim"],
    angles: Float[Tensor, "max_len pairs"],
    offset: int | Int[Tensor, " B"] = 0,
    layout: str = "interleaved",
) -> Float[Tensor, "*batch T head_dim"]:
    """Turn each pair of features (a, b) by the angle of its position and its place.

        a′ = a cos mθᵢ − b sin mθᵢ
        b′ = a sin mθᵢ + b cos mθᵢ

    Args:
        x: queries or keys, `(…, T, head_dim)`, most often `(B, h, T, head_dim)`. T may be 0.
        angles: `rope_angles(head_dim, max_len, …)`, on any device.
        offset: the position of the first token: an int for all rows, or one for each row of the
            first axis, an int64 tensor `(B,)`, as where prompts of different lengths are continued.
            Token t is then at position offset + t.
        layout: which features are pair i, in `x` and in the result alike.
            `"interleaved"`: features 2i and 2i + 1, as in the paper.
            `"halves"`: features i and i + head_dim/2, as in Hugging Face's LLaMA.

    Returns:
        The shape, dtype and device of `x`, which stays as it is; every pair keeps its length. float16
        and bfloat16 are turned in float32, float64 in float64; the cosines and sines are taken in the
        angles' dtype.

    Raises:
        ValueError: another `layout`; a `head_dim` that the angles are not for; an offset tensor of
            another shape than `(B,)`, or one for an `x` with no batch axis; positions outside 0 to
            max_len − 1 (of an offset tensor, only the CPU is asked: a GPU would have to wait).

    Source: Su et al. 2021, *RoFormer*, eqs. 15 and 34.
    """
    if layout not in ("interleaved", "halves"):
        raise ValueError(f'layout must be "interleaved" or "halves", not {layout!r}')
    if x.size(-1) != 2 * angles.size(-1):
        raise ValueError(
            f"x has a head_dim of {x.size(-1)}, and the angles are for {2 * angles.size(-1)}"
        )
    _check_offset(x, angles.size(0), offset)
    # 1. The angle of every token and pair. Rows that start at positions of their own have an axis
    #    in front, and as many axes of 1 behind it as x has between batch and time.
    if isinstance(offset, int):
        turns = angles[offset : offset + x.size(-2)]  # (T, pairs)
    else:
        steps = torch.arange(x.size(-2), device=offset.device)  # (T,)
        position = offset.unsqueeze(-1) + steps  # (B, T)
        turns = angles[position.to(angles.device)]  # (B, T, pairs)
        turns = turns.view(len(turns), *[1] * (x.dim() - 3), *turns.shape[1:])  # (B, 1 …, T, …)
    # 2. Cosines and sines, in float32 at least, as what they are to turn.
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = turns.cos().to(x.device, wide), turns.sin().to(x.device, wide)  # (…, T, pairs)
    # 3. Split the features into pairs: the two of a pair lie side by side, or half a vector apart.
    pairs = angles.size(-1)
    sizes, axis = ((pairs, 2), -1) if layout == "interleaved" else ((2, pairs), -2)
    a, b = x.to(wide).unflatten(-1, sizes).unbind(axis)  # (…, T, pairs)
    # 4. Turn, and put the pairs back where they were.
    turned = torch.stack(
        (a * cos - b * sin, a * sin + b * cos), dim=axis
    )  # (…, T, pairs, 2) or (…, T, 2, pairs)
    return turned.flatten(-2).to(x.dtype)  # (…, T, head_dim)


def _check_offset(x: Tensor, max_len: int, offset: int | Tensor) -> None:
    """Refuse positions without an angle, where asking costs nothing."""
    first = last = offset
    if isinstance(offset, Tensor):
        if x.dim() < 3 or offset.shape != x.shape[:1]:
            raise ValueError(
                f"offset must be an int, or have one position for each row of x, and has shape "
                f"{tuple(offset.shape)} for an x of {tuple(x.shape)}"
            )
        if offset.device.type != "cpu" or offset.numel() == 0 or torch.compiler.is_compiling():
            return
        first, last = (int(end) for end in offset.aminmax())
    if first < 0 or last + x.size(-2) > max_len:
        raise ValueError(
            f"positions must lie in 0 to {max_len - 1}, and x reaches from {first} to "
            f"{last + x.size(-2) - 1}"
        )
