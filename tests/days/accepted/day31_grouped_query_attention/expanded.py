"""Keys with an axis more, stretched and not stored; all projections in one product."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import attention


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        assert d_model % n_heads == 0 and n_heads % n_kv_heads == 0
        self.shape = n_kv_heads, n_heads // n_kv_heads, d_model // n_heads
        kv = n_kv_heads * self.shape[2]
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, kv, bias=False)
        self.w_v = nn.Linear(d_model, kv, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def project(self, x):
        groups, share, d_k = self.shape
        weight = torch.cat((self.w_q.weight, self.w_k.weight, self.w_v.weight))
        heads = F.linear(x, weight).unflatten(-1, (groups * (share + 2), d_k)).transpose(1, 2)
        return heads.split((groups * share, groups, groups), dim=1)

    def attend(self, query, key, value):
        groups, share, d_k = self.shape
        mask = torch.ones(key.size(2), key.size(2), device=key.device).tril().bool()
        mask = mask[key.size(2) - query.size(2) :]
        key, value = (one.unsqueeze(2).expand(-1, -1, share, -1, -1) for one in (key, value))
        heads, _ = attention(query.unflatten(1, (groups, share)), key, value, mask)
        return heads.permute(0, 3, 1, 2, 4).reshape(
            query.size(0), query.size(2), groups * share * d_k
        )

    def forward(self, x):
        return self.w_o(self.attend(*self.project(x)))
