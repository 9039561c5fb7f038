"""Row by row with a boolean mask; the number counted in whole hundred-millionths; parts called in turn."""

import torch
from torch import nn

from implementation import LayerNorm
from variants.gpt import CausalSelfAttention, FeedForward


class ParallelBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_attn = CausalSelfAttention(d_model, n_heads, dropout=dropout)
        self.norm = LayerNorm(d_model)

    def forward(self, x):
        read = self.norm(x)
        for part in (self.self_attn, self.feed_forward):
            x = x + self.dropout(part(read))
        return x


class MixtureOfDepths(nn.Module):
    def __init__(self, block, d_model, capacity):
        super().__init__()
        self.block, self.capacity = block, capacity
        self.router = nn.Linear(d_model, 1, bias=False)

    def scored(self, x):
        return torch.einsum("btd,d->bt", x, self.router.weight[0])

    def mask(self, scores):
        t = scores.shape[1]
        k = round(self.capacity * 1e8) * t // 10**8
        best = scores.argsort(dim=1, descending=True)[:, : min(t, k or 1)]
        mask = torch.zeros_like(scores, dtype=torch.bool)
        mask.scatter_(1, best, True)
        return mask, best.shape[1]

    def choose(self, x):
        scores = self.scored(x)
        mask, k = self.mask(scores)
        places = torch.arange(x.shape[1], device=x.device).expand(scores.shape)
        return scores[mask].view(len(x), k), places[mask].view(len(x), k)

    def forward(self, x):
        scores = self.scored(x)
        mask, k = self.mask(scores)
        tokens = x[mask].view(len(x), k, x.shape[-1])
        weights = scores[mask].view(len(x), k, 1)
        out = x.clone()
        out[mask] = (tokens + weights * (self.block(tokens) - tokens)).flatten(0, 1)
        return out
