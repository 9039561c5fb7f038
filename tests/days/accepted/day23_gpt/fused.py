"""Torch's fused kernel with its own triangle; a model whose modules start themselves, by `apply`."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import LayerNorm
from variants.gpt import Block, FeedForward


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        assert d_model % n_heads == 0
        self.h, self.d_k, self.p = n_heads, d_model // n_heads, dropout
        self.w_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.w_o.into_the_shortcut = True

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            one.view(batch, time, self.h, self.d_k).transpose(1, 2)
            for one in self.w_qkv(x).split(width, dim=2)
        )
        dropped = self.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped, is_causal=True)
        return self.w_o(heads.transpose(1, 2).reshape(batch, time, width))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([self.block() for _ in range(config.n_layers)])
        self.norm = LayerNorm(config.d_model)
        self.apply(self.start)

    def block(self):
        c = self.config
        network = FeedForward(c.d_model, c.d_ff)
        network.w_2.into_the_shortcut = True
        attention = CausalSelfAttention(c.d_model, c.n_heads, c.dropout)
        return Block(c.d_model, attention, network, c.dropout)

    def start(self, module):
        if isinstance(module, nn.Embedding | nn.Linear):
            std = 0.02
            if hasattr(module, "into_the_shortcut"):
                std *= (2 * self.config.n_layers) ** -0.5
            torch.nn.init.normal_(module.weight, mean=0.0, std=std)
        if isinstance(module, nn.Linear):
            torch.nn.init.zeros_(module.bias)

    def forward(self, tokens):
        time = tokens.size(1)
        if time > self.config.context:
            raise ValueError("too many tokens")
        x = self.drop(self.embed(tokens) + self.positions.weight[:time])
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.weight.t()
