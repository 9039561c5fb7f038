"""Torch's own multi-head attention, whose three projections are packed in this order; blocks in a row."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from implementation import LayerNorm
from variants.gpt import Block, FeedForward


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.w_o = nn.Linear(d_model, d_model)
        self.w_qkv = nn.Linear(d_model, 3 * d_model)

    def forward(self, x):
        if x.size(1) == 0:
            return self.w_o(x)
        y = x.transpose(0, 1)  # (T, B, d_model), as this function wants it
        hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        output, _ = F.multi_head_attention_forward(
            y,
            y,
            y,
            embed_dim_to_check=x.size(2),
            num_heads=self.n_heads,
            in_proj_weight=self.w_qkv.weight,
            in_proj_bias=self.w_qkv.bias,
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=self.dropout,
            out_proj_weight=self.w_o.weight,
            out_proj_bias=self.w_o.bias,
            training=self.training,
            need_weights=False,
            attn_mask=hidden,
        )
        return output.transpose(0, 1)


def started(module, std):
    """A matrix at N(0, std²), and its bias at 0."""
    with torch.no_grad():
        module.weight.copy_(torch.randn(module.weight.shape) * std)
        if getattr(module, "bias", None) is not None:
            module.bias.fill_(0)
    return module


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.norm = LayerNorm(config.d_model)
        self.blocks = nn.Sequential(*map(self.block, range(config.n_layers)))
        self.positions = started(nn.Embedding(config.context, config.d_model), 0.02)
        self.embed = started(nn.Embedding(config.vocab, config.d_model), 0.02)

    def block(self, _):
        config, small = self.config, 0.02 / math.sqrt(2 * self.config.n_layers)
        attention = CausalSelfAttention(config.d_model, config.n_heads, config.dropout)
        network = FeedForward(config.d_model, config.d_ff)
        for layer, std in (
            (attention.w_qkv, 0.02),
            (attention.w_o, small),
            (network.w_1, 0.02),
            (network.w_2, small),
        ):
            started(layer, std)
        return Block(config.d_model, attention, network, config.dropout)

    def forward(self, tokens):
        where = torch.arange(tokens.shape[-1], device=tokens.device).expand_as(tokens)
        x = self.positions(where) + self.embed(tokens)
        x = self.blocks(F.dropout(x, self.config.dropout, self.training))
        return torch.einsum("btd,vd->btv", self.norm(x), self.embed.weight)
