"""The fill of much published code, −1e9: lower than any score of any model, in a dtype that holds it."""

import math

import torch


def attention(query, key, value, mask=None, dropout=None):
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = torch.matmul(query.to(wide), key.to(wide).mT) / math.sqrt(query.shape[-1])
    hidden = None if mask is None else mask == 0
    if hidden is not None:
        scores = scores.masked_fill(hidden, -1e9)
    weights = torch.softmax(scores, dim=-1)
    if hidden is not None:
        weights = weights.masked_fill(hidden, 0.0)
    weights = weights.to(value.dtype)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights
