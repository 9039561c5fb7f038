"""Day 29 · Rotary positions

Lesson  course lesson 29
Hints   course hint 29
Check   course watch 29    (checks at every save; `course check 29` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


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
    # 1. One step's turn for each pair: 1 radian for the first, and less and less.
    # 2. Every position times every turn.
    raise NotImplementedError


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
    # 1. The angle of every token and pair. Rows that start at positions of their own have an axis
    #    in front, and as many axes of 1 behind it as x has between batch and time.
    # 2. Cosines and sines, in float32 at least, as what they are to turn.
    # 3. Split the features into pairs: the two of a pair lie side by side, or half a vector apart.
    # 4. Turn, and put the pairs back where they were.
    raise NotImplementedError
