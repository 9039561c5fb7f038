"""Heads as more sequences of the batch, cut by chunk and stacked; the mask repeated for each of them."""

import torch
from torch import nn

from implementation import attention


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=True))
        self.h, self.dropout = h, nn.Dropout(dropout)
        self.weights = None

    def split(self, x):
        return torch.cat(x.chunk(self.h, dim=-1), dim=0)  # (h·B, T, d_k), head by head

    def forward(self, query, key, value, mask=None):
        batch = query.size(0)
        if mask is not None:
            mask = mask.expand(batch, -1, -1).repeat(self.h, 1, 1)
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        heads, weights = attention(self.split(q), self.split(k), self.split(v), mask, self.dropout)
        self.weights = torch.stack(weights.split(batch), dim=1).detach()
        return self.w_o(torch.cat(heads.split(batch), dim=-1))
