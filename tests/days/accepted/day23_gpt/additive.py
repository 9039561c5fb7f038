"""Einstein sums, a mask of 0 and −∞ that is added and kept as it grows, a softmax written out."""

import math

import torch
from torch import nn

from implementation import LayerNorm
from variants.gpt import Block, FeedForward


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.heads = n_heads
        self.w_qkv, self.w_o = nn.Linear(d_model, d_model * 3), nn.Linear(d_model, d_model)
        self.p = nn.Dropout(dropout)
        self.register_buffer("hidden", torch.zeros(0, 0), persistent=False)

    def forward(self, x):
        time = x.size(1)
        if len(self.hidden) < time:
            full = torch.full((time, time), -math.inf, device=x.device, dtype=torch.float32)
            self.hidden = full.triu(1)
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = self.w_qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(dim=2)  # (B, T, h, d_k)
        scores = torch.einsum("bihd,bjhd->bhij", q.to(wide), k.to(wide)) * q.size(-1) ** -0.5
        scores = scores + self.hidden[:time, :time].to(wide)
        if time:
            scores = scores - scores.amax(dim=-1, keepdim=True).detach()
        weights = scores.exp()
        weights = self.p((weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype))
        return self.w_o(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = self.config = config
        self.embed = nn.Embedding(c.vocab, c.d_model)
        self.positions = nn.Embedding(c.context, c.d_model)
        self.first = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList()
        for _ in range(c.n_layers):
            attention = CausalSelfAttention(c.d_model, c.n_heads, c.dropout)
            self.blocks.append(
                Block(c.d_model, attention, FeedForward(c.d_model, c.d_ff), c.dropout)
            )
        self.norm = LayerNorm(c.d_model)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                narrow = module.out_features == c.d_model  # those that write into the shortcut
                module.weight.data.normal_(0, 0.02 * ((2 * c.n_layers) ** -0.5 if narrow else 1))
                module.bias.data.zero_()
            elif isinstance(module, nn.Embedding):
                module.weight.data.normal_(0, 0.02)

    def forward(self, tokens):
        places = torch.ones_like(tokens).cumsum(dim=1) - 1
        x = self.first(self.positions(places) + self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return torch.tensordot(self.norm(x), self.embed.weight, dims=([2], [1]))
