"""Both answers stacked and dropped at once; the gain as a blend of before and after, rows one by one."""

import torch
from torch import nn

from implementation import LayerNorm
from variants.gpt import CausalSelfAttention, FeedForward


class ParallelBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.self_attn = CausalSelfAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm = LayerNorm(d_model)
        self.p = dropout

    def forward(self, x):
        y = self.norm(x)
        answers = torch.stack((self.self_attn(y), self.feed_forward(y)))
        return x + nn.functional.dropout(answers, self.p, self.training).sum(dim=0)


class MixtureOfDepths(nn.Module):
    def __init__(self, block, d_model, capacity):
        super().__init__()
        self.router = nn.Linear(d_model, 1, bias=False)
        self.block = block
        self.capacity = capacity

    def choose(self, x):
        rows, places = [], []
        for row in self.router(x).squeeze(2):
            t = len(row)
            k = int(round(self.capacity * t, 6))
            k = min(t, k if k > 0 else 1)
            order = sorted(range(t), key=row.tolist().__getitem__, reverse=True)[:k]
            places.append(torch.tensor(sorted(order), dtype=torch.int64, device=x.device))
            rows.append(row[places[-1]])
        return torch.stack(rows), torch.stack(places)

    def forward(self, x):
        weights, places = self.choose(x)
        rows = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        before = x[rows, places]
        r = weights.unsqueeze(2)
        after = (1 - r) * before + r * self.block(before)
        return torch.index_put(x, (rows, places), after)
