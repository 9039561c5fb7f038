"""transformers' own rotation of pairs that are halves apart; interleaved pairs are sorted and sorted back."""

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


def rope_angles(head_dim, max_len, base=10000.0):
    inverse = base ** (-torch.arange(0, head_dim, 2) / head_dim)
    return torch.outer(torch.arange(max_len).float(), inverse)


def apply_rope(x, angles, offset=0, layout="interleaved"):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if layout == "interleaved":
        wide = wide.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)
    steps = torch.arange(x.size(-2), device=x.device)
    if isinstance(offset, torch.Tensor):
        steps = steps + offset.to(x.device).view(-1, *[1] * (x.dim() - 2))
    else:
        steps = steps + offset
    rotation = torch.cat([angles.to(x.device)[steps]] * 2, dim=-1)
    cos, sin = rotation.cos().to(wide.dtype), rotation.sin().to(wide.dtype)
    # It inserts an axis for the heads: of no axis, where `cos` and `sin` have one for each of x's.
    output = apply_rotary_pos_emb(wide.unsqueeze(0), wide.unsqueeze(0), cos, sin, unsqueeze_dim=0)[
        0
    ]
    if layout == "interleaved":
        output = output.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)
    return output.view(x.shape).to(x.dtype)
