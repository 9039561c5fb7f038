"""Everything through logarithms: log-weights are scores less a logsumexp; −∞ everywhere and no empty rows."""

import torch


def attention(query, key, value, mask=None, dropout=None):
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k = query.to(dtype), key.to(dtype)
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(dim=-1) / q.size(-1) ** 0.5
    if mask is not None:
        mask = mask.expand(scores.shape)
        empty = ~mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | empty), -torch.inf)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    if mask is not None:
        weights = weights.masked_fill(empty, 0)
    weights = weights.to(value.dtype)
    weights = weights if dropout is None else dropout(weights)
    return (weights.to(dtype) @ value.to(dtype)).to(value.dtype), weights
