"""A pair is a complex number, and a turn is a product with e^(imθ)."""

import math

import torch


def rope_angles(head_dim, max_len, base=10000.0):
    slower = torch.exp(torch.arange(head_dim // 2) * (-2 * math.log(base) / head_dim))
    return torch.arange(max_len).float()[:, None] * slower


def apply_rope(x, angles, offset=0, layout="interleaved"):
    tokens, pairs = x.shape[-2], angles.shape[-1]
    position = torch.arange(tokens) + (
        offset.cpu().view(-1, *[1] * (x.dim() - 2)) if torch.is_tensor(offset) else offset
    )
    turns = angles.cpu()[position]
    factor = torch.complex(turns.cos(), turns.sin())
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    numbers = x.to(wide)
    if layout == "interleaved":
        numbers = torch.complex(numbers[..., 0::2], numbers[..., 1::2])
    else:
        numbers = torch.complex(numbers[..., :pairs], numbers[..., pairs:])
    numbers = numbers * factor.to(x.device, numbers.dtype)
    both = torch.view_as_real(numbers)
    if layout == "halves":
        both = both.transpose(-2, -1)
    return both.reshape(x.shape).to(x.dtype)
