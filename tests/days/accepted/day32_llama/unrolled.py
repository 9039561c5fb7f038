"""The block's two shortcuts written out; the last norm by hand; starts as it is made."""

import torch
import torch.nn.functional as F
from torch import nn

from variants.llama import LLaMABlock
from variants.norms import RMSNorm
from variants.rope import rope_angles


def drawn(module):
    """Its matrices at N(0, 0.02²)."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape) * 0.02)
    return module


class LLaMA(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width, heads = config.d_model, config.n_heads
        with torch.device("cpu"):
            table = rope_angles(width // heads, config.context, config.base)
        self.embed = drawn(nn.Embedding(config.vocab, width))
        self.blocks = nn.ModuleList()
        while len(self.blocks) < config.n_layers:
            self.blocks.append(drawn(LLaMABlock(config, table)))
        self.norm = RMSNorm(width, config.eps)
        self.head = drawn(nn.Linear(width, config.vocab, bias=False))

    def forward(self, tokens, cache=None):
        past = cache.length if cache is not None else 0
        if past + tokens.shape[1] > self.config.context:
            raise ValueError("too many tokens")
        x = F.embedding(tokens, self.embed.weight)
        for layer, block in enumerate(self.blocks):
            x = x + block.self_attn(block.attention_norm(x), cache, layer)
            x = x + block.feed_forward(block.ffn_norm(x))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        root = torch.sqrt(wide.pow(2).mean(-1, keepdim=True) + self.config.eps)
        normed = (wide / root * self.norm.gain).to(x.dtype)
        return torch.matmul(normed, self.head.weight.t())
