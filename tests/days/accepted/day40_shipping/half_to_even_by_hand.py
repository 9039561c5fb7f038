"""The nearest integer found by comparing both neighbors; the matrix product as a sum of outer products."""

import torch
from torch import nn


def nearest(steps):
    """Whole numbers; of two that are equally near, the even one."""
    below = steps.floor()
    past = steps - below
    odd = below.remainder(2) == 1
    return below + ((past > 0.5) | ((past == 0.5) & odd)).to(below.dtype)


def quantize_int8(weight):
    with torch.no_grad():
        wide = weight.to(torch.result_type(weight, torch.zeros(1, dtype=torch.float32)))
        scale = torch.linalg.vector_norm(wide, torch.inf, dim=1).div(127)
        scale[scale < torch.finfo(scale.dtype).tiny] = 1.0
        return nearest(wide / scale[:, None]).char(), scale[:, None]


def dequantize(quantized, scale):
    return quantized.to(scale) * scale.expand_as(quantized)


class QuantizedLinear(nn.Module):
    quantized: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear):
        super().__init__()
        state = dict(zip(("quantized", "scale"), quantize_int8(linear.weight), strict=True))
        bias = linear.bias
        state["bias"] = None if bias is None else bias.detach().to(bias.dtype, copy=True)
        for name, tensor in state.items():
            self.register_buffer(name, tensor)

    @property
    def weight(self):
        return dequantize(self.quantized, self.scale)

    def forward(self, x):
        wide = torch.promote_types(x.dtype, torch.float32)
        scaled = self.quantized.to(wide) * self.scale.to(wide)
        y = sum(
            (x[..., i : i + 1].to(wide) * scaled[:, i] for i in range(x.size(-1))),
            start=x.new_zeros(*x.shape[:-1], len(scaled), dtype=wide),
        )
        return (y if self.bias is None else y + self.bias.to(wide)).to(x.dtype)
