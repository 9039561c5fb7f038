"""Einstein sums with an axis for the group and one for the head in it; the softmax written out."""

import math

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.groups, self.h = n_kv_heads, n_heads
        for name, heads in (("q", n_heads), ("k", n_kv_heads), ("v", n_kv_heads)):
            self.add_module(f"w_{name}", nn.Linear(d_model, d_model // n_heads * heads, bias=False))
        self.add_module("w_o", nn.Linear(d_model, d_model, bias=False))

    def project(self, x):
        def heads(weight, n):
            return torch.einsum("btm,hdm->bhtd", x, weight.unflatten(0, (n, -1)))

        query = heads(self.w_q.weight, self.h)
        return query, heads(self.w_k.weight, self.groups), heads(self.w_v.weight, self.groups)

    def attend(self, query, key, value):
        wide = torch.promote_types(query.dtype, torch.float32)
        t_q, t_k = query.shape[2], key.shape[2]
        in_groups = query.unflatten(1, (self.groups, self.h // self.groups))
        scores = torch.einsum("bgstd,bgkd->bgstk", in_groups.to(wide), key.to(wide))
        place = torch.arange(t_k, device=query.device)
        later = place[None] > place[t_k - t_q :, None]
        scores = (scores / math.sqrt(query.shape[-1])).masked_fill(later, -math.inf)
        weights = scores.softmax(dim=-1).to(value.dtype)
        return torch.einsum("bgstk,bgkd->btgsd", weights, value).flatten(2)

    def forward(self, x):
        return self.w_o(self.attend(*self.project(x)))
