"""Each token in turn attends to what came before it, without any mask; heads one by one, and summed."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from implementation import LayerNorm, attention, clones
from variants.gpt import Block, FeedForward


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.w_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)
        d_k = d_model // n_heads
        self.own = [slice(i * d_k, (i + 1) * d_k) for i in range(n_heads)]

    def forward(self, x):
        query, key, value = torch.tensor_split(self.w_qkv(x), 3, dim=-1)
        rows = [x[:, :0]]
        for t in range(x.size(1)):
            row = self.w_o.bias
            for own in self.own:
                past = key[:, : t + 1, own], value[:, : t + 1, own]
                head, _ = attention(query[:, t : t + 1, own], *past, dropout=self.drop)
                row = row + head @ self.w_o.weight[:, own].T
            rows.append(row)
        return torch.cat(rows, dim=1)


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.blocks = clones(
            Block(
                size=config.d_model,
                self_attn=CausalSelfAttention(config.d_model, config.n_heads, config.dropout),
                feed_forward=FeedForward(config.d_model, config.d_ff),
                dropout=config.dropout,
            ),
            config.n_layers,
        )
        self.norm = LayerNorm(config.d_model)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.constant_(parameter, 0)
        with torch.no_grad():
            for block in self.blocks:
                for layer in (block.self_attn.w_o, block.feed_forward.w_2):
                    layer.weight.div_(math.sqrt(2 * config.n_layers))

    @property
    def head(self):
        return self.embed.weight

    def forward(self, tokens):
        x = F.embedding(tokens, self.embed.weight)
        x = x + self.positions.weight.narrow(0, 0, tokens.size(1)).unsqueeze(0)
        x = F.dropout(x, p=self.config.dropout, training=self.training)
        for number in range(self.config.n_layers):
            x = self.blocks[number](x)
        return (self.head @ self.norm(x).mT).mT
