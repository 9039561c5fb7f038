"""torch's fused kernel, which knows groups by itself, with a mask of numbers."""

import torch
import torch.nn.functional as F
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.d_k = d_model // n_heads
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, self.d_k * n_kv_heads, bias=False)
        self.w_k = nn.Linear(d_model, self.d_k * n_kv_heads, bias=False)
        self.w_q = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        return self.w_o(self.attend(*self.project(x)))

    def project(self, x):
        def in_heads(linear):
            b, t, _ = x.shape
            return linear(x).view(b, t, linear.out_features // self.d_k, self.d_k).movedim(1, 2)

        return in_heads(self.w_q), in_heads(self.w_k), in_heads(self.w_v)

    def attend(self, query, key, value):
        b, h, t_q, d_k = query.shape
        t_k = key.size(-2)
        future = query.new_full((t_q, t_k), -torch.inf).triu(1 + t_k - t_q)
        heads = F.scaled_dot_product_attention(query, key, value, future, enable_gqa=True)
        return heads.permute(0, 2, 1, 3).reshape(b, t_q, h * d_k)
