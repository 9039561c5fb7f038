"""The query scaled before the product, a mask filled in place, dropout before the forbidden weights go."""

import math

import torch
import torch.nn.functional as F

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def attention(query, key, value, mask=None, dropout=None):
    wide = WIDER.get(query.dtype, query.dtype)
    scaled = query.to(wide).div(math.sqrt(query.shape[-1]))
    scores = torch.matmul(scaled, key.to(wide).mT)
    if mask is not None:
        hidden = torch.logical_not(mask)
        scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=scores.dim() - 1)
    if dropout is not None:
        weights = dropout(weights)
    if mask is not None:
        weights = weights * mask
    output = torch.matmul(weights, value.to(wide))
    return output.to(value.dtype), weights.to(value.dtype).detach()
