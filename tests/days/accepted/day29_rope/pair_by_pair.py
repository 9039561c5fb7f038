"""One pair after the other, written into an empty tensor; positions gathered from the table."""

import torch


def rope_angles(head_dim, max_len, base=10000.0):
    table = torch.zeros(max_len, head_dim // 2, dtype=torch.float64)
    for i in range(head_dim // 2):
        table[:, i] = torch.arange(max_len) / base ** (2 * i / head_dim)
    return table


def apply_rope(x, angles, offset=0, layout="interleaved"):
    half = x.size(-1) // 2
    start = torch.as_tensor(offset, device=x.device)
    start = start.reshape(*start.shape, *[1] * (x.dim() - 1 - start.dim()))
    position = start + torch.arange(x.size(-2), device=x.device)  # (B|1 …, T)
    out = torch.empty_like(x)
    for i in range(half):
        one, other = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, half + i)
        angle = angles[:, i].to(x.device)[position]
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., one], x[..., other]
        out[..., one] = (a * cos - b * sin).to(x.dtype)
        out[..., other] = (b * cos + a * sin).to(x.dtype)
    return out
