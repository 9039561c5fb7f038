"""An answer that makes float64 the default dtype when it is imported."""

import math

import torch

torch.set_default_dtype(torch.float64)


def attention(query, key, value, mask=None, dropout=None):
    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    if dropout is not None:
        weights = dropout(weights)
    return (weights @ value).to(dtype), weights.to(dtype)
