"""Day 29 · Rotary positions

Lesson  course lesson 29
Hints   course hint 29     (one more each time; the first gives the steps of one way)
Check   course watch 29    (checks at every save; `course check 29` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def rope_angles(
    head_dim: int, max_len: int, base: float = 10000.0
) -> Float[Tensor, "max_len pairs"]:
    """Return the angle by which each pair of features is rotated at each position, in radians.

        angles[m, i] = m θᵢ,    θᵢ = base^(−2i / d),    i = 0, 1, …, d/2 − 1

    The angles are on the CPU in float64. Near position 10⁵, rounding an angle costs up to 0.004 radians in
    float32 and up to 256 in bfloat16.

    - `head_dim` is d, an even number. The positions are 0 to `max_len` − 1; a `max_len` of 0 returns an
      empty tensor.
    - The larger `base` is, the more slowly the last pairs rotate.
    - Return `(max_len, head_dim / 2)`, on the CPU, in float64. float32 is allowed too, but nothing
      less precise.

    Raises:
        ValueError: `head_dim` is odd or below 2, `max_len` is below 0, or `base` is not above 0.

    Source: Su et al. 2021, *RoFormer*, §3.2.2 and eq. 15, where i counts from 1.
    """
    raise NotImplementedError


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

    - `x` holds queries or keys, `(…, T, head_dim)`, usually `(B, h, T, head_dim)`. T may be 0.
    - `offset` is an int for all rows, or an int64 tensor `(B,)` with one position for each row of the
      first axis, as for prompts of different lengths. Token t is at position offset + t.
    - `layout` is the layout of both `x` and the result.
    - The result has the shape, dtype and device of `x`, which is not changed. Every pair keeps its
      length.
    - Cosines and sines are computed in the dtype of the angles. Then float16 and bfloat16 are rotated
      in float32, and float64 in float64.

    Raises:
        ValueError: `layout` is neither; `angles` for a different `head_dim`; an offset tensor that is not
            `(B,)`, or for an `x` without a batch axis; positions outside 0 to max_len − 1 (those of an
            offset tensor on the CPU only: a GPU would have to wait).

    Source: Su et al. 2021, *RoFormer*, eqs. 15 and 34.
    """
    raise NotImplementedError
