"""One head after the other, each told whose keys are its own."""

import torch
from torch import nn

from implementation import attention


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_k = n_heads, n_kv_heads, d_model // n_heads
        self.w_q, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        narrow = self.d_k * n_kv_heads
        self.w_k, self.w_v = (nn.Linear(d_model, narrow, bias=False) for _ in range(2))

    def cut(self, x):
        return torch.stack(x.split(self.d_k, dim=-1), dim=1)

    def project(self, x):
        return self.cut(self.w_q(x)), self.cut(self.w_k(x)), self.cut(self.w_v(x))

    def attend(self, query, key, value):
        t_q, t_k = query.size(2), key.size(2)
        earlier = torch.ones(t_k, t_k, dtype=torch.bool, device=query.device).tril()[t_k - t_q :]
        found = []
        for i in range(self.n_heads):
            j = i * self.n_kv_heads // self.n_heads
            found.append(attention(query[:, i], key[:, j], value[:, j], earlier)[0])
        return torch.cat(found, dim=-1)

    def forward(self, x):
        query, key, value = self.project(x)
        return self.w_o(self.attend(query, key, value))
