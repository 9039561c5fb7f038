"""A rotation matrix of 2 × 2 for each position and pair; the other layout is a permutation of features."""

import torch


def rope_angles(head_dim, max_len, base=10000.0):
    rows = [[m * base ** (-2 * i / head_dim) for i in range(head_dim // 2)] for m in range(max_len)]
    return torch.tensor(rows, dtype=torch.float64).reshape(max_len, head_dim // 2)


def apply_rope(x, angles, offset=0, layout="interleaved"):
    if layout == "halves":
        half = x.size(-1) // 2
        there = [i // 2 + (i % 2) * half for i in range(x.size(-1))]
        back = [2 * (i % half) + i // half for i in range(x.size(-1))]
        return apply_rope(x[..., there], angles, offset)[..., back]
    if torch.is_tensor(offset):
        rows = [
            apply_rope(row, angles, start) for row, start in zip(x, offset.tolist(), strict=True)
        ]
        return torch.stack(rows)
    turns = angles.narrow(0, offset, x.size(-2))
    cos, sin = torch.cos(turns), torch.sin(turns)
    matrices = torch.stack((cos, -sin, sin, cos), dim=-1).unflatten(-1, (2, 2))  # (T, pairs, 2, 2)
    wide = torch.promote_types(torch.float32, x.dtype)
    pairs = x.to(wide).unflatten(-1, (angles.size(-1), 2))
    turned = torch.einsum("tpij,...tpj->...tpi", matrices.to(x.device, wide), pairs)
    return turned.flatten(-2).to(x.dtype)
