"""Day 40 · Shipping

Lesson  course lesson 40
Hints   course hint 40     (one more each time; the first gives the steps of one way)
Check   course watch 40    (checks at every save; `course check 40` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn


def quantize_int8(
    weight: Float[Tensor, "out in"],
) -> tuple[Int8[Tensor, "out in"], Float[Tensor, "out 1"]]:
    """Quantize each row of a matrix to integers from −127 to 127; return them and their scales.

        sᵢ = maxⱼ |Wᵢⱼ| / 127,    qᵢⱼ = round(Wᵢⱼ / sᵢ)

    The quantization is symmetric: there is no offset. No weight is off by more than half a step, sᵢ / 2.

    - `weight` is W, `(out, in)`, in float16, bfloat16, float32 or float64, possibly a parameter. `in`
      is at least 1; `out` may be 0. The weight is not changed.
    - Return q and s, in that order, on the device of `weight`. Neither requires a gradient or has a
      computation graph.
    - q is int8 `(out, in)`: the nearest integers, rounding halfway cases to even, as `torch.round`
      does. −w becomes −q; −128 is not used. The bound of half a step holds up to rounding.
    - s is `(out, 1)`, positive, in float64 if `weight` is, otherwise in float32. The quotients of
      float16 and bfloat16 are computed in float32.
    - A row of zeros has scale 1 and integers 0. The same holds for a row whose scale would be below the
      smallest normal number (about 10⁻³⁸ in float32).

    Raises:
        ValueError: `weight` is not a matrix with columns, not floating-point, or not finite.

    Source: Wu et al. 2020, *Integer Quantization for Deep Learning Inference*, §3.1.2 (whose s is 1/s here)
    and §3.2 (a scale per row); s as a step: Jacob et al. 2018, *Quantization and Training of Neural
    Networks for Efficient Integer-Arithmetic-Only Inference*, eq. 1.
    """
    raise NotImplementedError


def dequantize(
    quantized: Int8[Tensor, "*rows width"], scale: Float[Tensor, "*rows 1"]
) -> Float[Tensor, "*rows width"]:
    """Return the weights that the integers represent, in the dtype of `scale`.

        Ŵᵢⱼ = sᵢ qᵢⱼ

    - `quantized` is q, int8 `(…, in)`, most often `(out, in)`; any axis may be 0.
    - `scale` is s, `(…, 1)`, one for each row.
    - Return Ŵ in q's shape and the dtype of `scale`. Gradients reach `scale`.

    Raises:
        ValueError: `quantized` is not int8, or `scale` is not q's shape with a last axis of 1.

    Source: Wu et al. 2020, §3.1.2; Jacob et al. 2018, eq. 1, with no offset.
    """
    raise NotImplementedError


class QuantizedLinear(nn.Module):
    """Replace an `nn.Linear` by one whose weights are int8.

        y = (x qᵀ) · s + b,    which is x Ŵᵀ + b

    A row's scale is the same for all inputs, so it multiplies the sum: `out` more products instead of
    `out · in`.

    - `linear` is the `nn.Linear` to be quantized. It is not changed, and no reference to it or to its
      tensors is stored: later changes of its weights and bias have no effect here. If `quantize_int8`
      raises a ValueError for the weights, the constructor raises it, too.
    - `quantized` is q, a buffer, int8 `(out, in)`, and `scale` is s, a buffer, `(out, 1)`, both as
      `quantize_int8` returns them.
    - `bias`, also a buffer, is a copy of the layer's bias, `(out,)`, in its dtype; it is None if the
      layer has no bias.
    - The state dict holds `quantized`, `scale` and, if there is a bias, `bias`, and nothing else. There
      are no parameters.
    - `weight` is Ŵ, a property `(out, in)`, for models that multiply by a layer's matrix themselves. No
      floating-point tensor of the size of the weights is stored: one is created in each call, and freed
      after it.

    Source: Wu et al. 2020, §3.2.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        raise NotImplementedError

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """Return Ŵ, in the dtype of `scale`."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """Map `(…, in)` to `(…, out)`, in the dtype of `x`; half-precision inputs are computed in float32.

        - `x` may have any number of leading axes, of any size, including 0.
        - Return `F.linear(x, dequantize(quantized, scale), bias)`, up to rounding, in the dtype of `x`.
          Gradients reach `x`.
        - float16 and bfloat16 are computed in float32, because sums of x q may exceed float16's 65504 when
          the outputs do not. float64 is computed in float64.
        - `scale` and `bias` may have a different dtype than `x`, as after `module.half()`.
        """
        raise NotImplementedError
