"""Whole rows of scores, a block of queries at a time; torch's own checkpoint computes them again."""

import torch
from torch.utils.checkpoint import checkpoint

from implementation import attention


def rows(query, key, value, start, t_q, causal):
    if not causal:
        return attention(query, key, value)[0]
    t_k = key.size(-2)
    place = torch.arange(start, start + query.size(-2), device=query.device).unsqueeze(-1)
    mask = torch.arange(t_k, device=query.device) <= place + t_k - t_q
    wide = torch.promote_types(query.dtype, torch.float32)
    output, _ = attention(query.to(wide), key.to(wide), value.to(wide), mask)
    return output.to(query.dtype)


def flash_attention(query, key, value, block=64, causal=False):
    t_q = query.size(-2)
    if t_q == 0 or key.size(-2) == 0:
        return query.new_zeros(*query.shape[:-1], value.size(-1))
    # half precision: add the blocks' gradients up in float32
    wide = torch.promote_types(query.dtype, torch.float32)
    key, value = key.to(wide), value.to(wide)
    found = []
    for start in range(0, t_q, block):
        one = query[..., start : start + block, :].to(wide)
        arguments = one, key, value, start, t_q, causal
        found.append(checkpoint(rows, *arguments, use_reentrant=False).to(query.dtype))
    return torch.cat(found, dim=-2)
