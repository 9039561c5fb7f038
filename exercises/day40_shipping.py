"""Day 40 · Shipping

Lesson  course lesson 40
Hints   course hint 40
Check   course watch 40    (checks at every save; `course check 40` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn


def quantize_int8(
    weight: Float[Tensor, "out in"],
) -> tuple[Int8[Tensor, "out in"], Float[Tensor, "out 1"]]:
    """Round each row of a matrix to integers from −127 to 127, times a scale of the row's own.

        sᵢ = maxⱼ |Wᵢⱼ| / 127,    qᵢⱼ = round(Wᵢⱼ / sᵢ)

    0 stays 0, and −w becomes −q (symmetric: there is no offset). −128 is left out, which has no
    counterpart. No weight is off by more than half a step: |Wᵢⱼ − sᵢ qᵢⱼ| ≤ sᵢ / 2, to rounding.

    Args:
        weight: W, `(out, in)`, float16, bfloat16, float32 or float64; in is at least 1, and out may be
            0. It may be a parameter, and stays as it is.

    Returns:
        q and s, in that order, on the device of `weight`. q is int8 `(out, in)`: the nearest integers, and
        where two are equally near, the even one, as `torch.round` does. s is `(out, 1)`, positive; float64
        where `weight` is, else float32, also for halves, whose quotients are computed in float32. A row of
        zeros has scale 1 and zeros. (So has a row whose scale would be below the smallest normal number,
        10⁻³⁸ in float32.) Neither has a gradient, or a history.

    Raises:
        ValueError: not two axes, no columns, no floating-point numbers, or infinity or NaN among them.

    Source: Wu et al. 2020, *Integer Quantization for Deep Learning Inference*, §3.1.2 (scale quantization,
    whose s is 1/s here) and §3.2 (a scale for each row); s as a step's width: Jacob et al. 2018,
    *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference*, eq. 1.
    """
    # 1. Leave the history behind, and widen halves.
    # 2. A row's scale: its largest magnitude is to become 127. Where all is 0, it is 1.
    # 3. Count in steps of the scale, and round. None can be beyond 127: nothing has to be cut off.
    raise NotImplementedError


def dequantize(
    quantized: Int8[Tensor, "*rows width"], scale: Float[Tensor, "*rows 1"]
) -> Float[Tensor, "*rows width"]:
    """The weights that the integers stand for.

        Ŵᵢⱼ = sᵢ qᵢⱼ

    Args:
        quantized: q, int8 `(…, in)`, most often `(out, in)`; any axis may be 0.
        scale: s, `(…, 1)`: one for each row.

    Returns:
        Ŵ, of q's shape and the dtype of `scale`. Gradients reach `scale`.

    Raises:
        ValueError: `quantized` is not int8, or `scale` is not q's shape with a last axis of 1.

    Source: Wu et al. 2020, §3.1.2; Jacob et al. 2018, eq. 1, with no offset.
    """
    # 1. From marks to real numbers, each row by its own ruler.
    raise NotImplementedError


class QuantizedLinear(nn.Module):
    """What stands for an `nn.Linear` whose weights are kept in eight bits.

        y = (x qᵀ) · s + b,    which is x Ŵᵀ + b

    The scale belongs to an output, and so waits until the sum over the inputs is done: `out` products more,
    instead of `out · in`.

    Args:
        linear: the `nn.Linear` that it is made from. It stays as it is, and nothing of it is kept: what
            later becomes of its weights and bias does not show here.

    Attributes:
        quantized: q, int8 `(out, in)`, a buffer.
        scale: s, `(out, 1)`, as `quantize_int8` gives it, a buffer.
        bias: a copy of the linear layer's, `(out,)`, in its dtype, a buffer; None where it has none.
        weight: Ŵ, `(out, in)`, made anew each time it is asked for. (A property: some models multiply by
            a layer's matrix themselves.)

        The first three stand in the state dict, the bias only where there is one, and nothing else. There are
        no parameters. No tensor of real numbers as large as the weights is kept: one is made anew in each
        call, and gone after it.

    Raises:
        ValueError: as `quantize_int8` does.

    Source: Wu et al. 2020, §3.2: a scale for each row of the weights can be taken out of the sum.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # 1. Quantise the weights, and copy the bias. Buffers: they are saved, and not trained.
        raise NotImplementedError

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Ŵ, as `dequantize` gives it, in the dtype of `scale`."""
        # 1. Back to real numbers.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """From `(…, in)` to `(…, out)`, with any leading axes, or none; each may be 0.

        Returns:
            What `F.linear(x, dequantize(quantized, scale), bias)` gives, to rounding, in the dtype of `x`.
            float16 and bfloat16 are computed in float32: sums of x q go beyond float16's 65504 where the
            outputs do not. float64 is computed in float64. Gradients reach `x`. The scale and the bias may be
            of another dtype than x, as after `module.half()`.
        """
        # 1. Sum over the inputs, by the integers as they are. Halves are widened first.
        # 2. Each output by its own scale, then the bias, and back to the dtype of x.
        raise NotImplementedError
