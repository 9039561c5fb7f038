"""Cosines and sines as wide as x, and x with its pairs exchanged: x cos + rotated sin."""

import torch


def rope_angles(head_dim, max_len, base=10000.0):
    inverse = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
    return torch.einsum("t,i->ti", torch.arange(max_len).float(), inverse)


def rotated(x, layout):
    if layout == "halves":
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def apply_rope(x, angles, offset=0, layout="interleaved"):
    angles = angles.to(x.device)
    steps = torch.arange(x.size(-2), device=x.device)
    if isinstance(offset, torch.Tensor):
        turns = torch.stack([angles[steps + int(start)] for start in offset])
        while turns.dim() < x.dim():
            turns = turns.unsqueeze(1)
    else:
        turns = angles[steps + offset]
    wide = turns.repeat_interleave(2, dim=-1)
    if layout == "halves":
        wide = torch.cat((turns, turns), dim=-1)
    upcast = x.double() if x.dtype == torch.float64 else x.float()
    cos, sin = wide.cos().to(upcast.dtype), wide.sin().to(upcast.dtype)
    return (upcast * cos + rotated(upcast, layout) * sin).to(x.dtype)
