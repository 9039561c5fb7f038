"""Blocks cloned from one, which then share its table again; each module starts itself, by `apply`."""

import torch
from torch import nn

from implementation import clones
from variants.kv_cache import past_length
from variants.llama import LLaMABlock
from variants.norms import RMSNorm
from variants.rope import rope_angles


class LLaMA(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = self.config = config
        with torch.device("cpu"):
            angles = rope_angles(head_dim=c.d_model // c.n_heads, max_len=c.context, base=c.base)
        self.head = nn.Linear(c.d_model, c.vocab, bias=False)
        self.norm = RMSNorm(c.d_model, c.eps)
        self.blocks = clones(LLaMABlock(c, angles), c.n_layers)
        for block in self.blocks:
            block.self_attn.angles = angles
        self.embed = nn.Embedding(c.vocab, c.d_model)
        self.apply(self.start)

    @staticmethod
    def start(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=0.02)

    def forward(self, tokens, cache=None):
        past_length(tokens, cache, self.config)
        x = self.embed.weight[tokens]
        for number in range(self.config.n_layers):
            x = self.blocks[number](x, cache=cache, layer=number)
        return torch.einsum("btd,vd->btv", self.norm(x), self.head.weight)
