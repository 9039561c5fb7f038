"""Einstein sums with matrices cut into heads, a softmax written out, projections of its own kind."""

import math

import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def into_heads(self, x, h):
        """From (B, T, d_model) to (B, h, T, d_k)."""
        weight = self.weight.unflatten(0, (h, -1))
        return torch.einsum("btm,hdm->bhtd", x, weight) + self.bias.unflatten(0, (h, -1))[:, None]


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.heads = h
        self.w_q, self.w_k, self.w_v = Affine(d_model), Affine(d_model), Affine(d_model)
        self.w_o = Affine(d_model)
        self.drop = nn.Dropout(p=dropout)
        self.register_buffer("weights", None, persistent=False)

    def forward(self, query, key, value, mask=None):
        q = self.w_q.into_heads(query, self.heads)
        k = self.w_k.into_heads(key, self.heads)
        v = self.w_v.into_heads(value, self.heads)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = torch.einsum("bhqd,bhkd->bhqk", q.to(wide), k.to(wide)) * q.size(-1) ** -0.5
        if mask is not None:
            mask = mask[:, None]
            scores = torch.where(mask, scores, torch.finfo(wide).min)
        weights = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
        if mask is not None:
            weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        weights = (weights / total.masked_fill(total == 0, 1)).to(v.dtype)
        self.weights = weights.detach()
        heads = torch.einsum("bhqk,bhkd->bqhd", self.drop(weights), v)
        mix = self.w_o.weight.unflatten(1, (self.heads, -1))
        return torch.einsum("bqhd,mhd->bqm", heads, mix) + self.w_o.bias
