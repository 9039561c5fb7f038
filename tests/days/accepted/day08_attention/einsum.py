"""Einstein sums, −∞ for what is hidden, NaN of empty rows taken out of the weights, mixing in float32."""

import torch


def attention(query, key, value, mask=None, dropout=None):
    kind = query.dtype
    if kind in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = torch.softmax(scores, dim=-1).nan_to_num(nan=0.0)
    if dropout is not None:
        weights = dropout(weights)
    output = torch.einsum("...qk,...kv->...qv", weights, value)
    return output.to(kind), weights.to(kind)
