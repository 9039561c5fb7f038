"""Masks always whole, a cache of masks that grows, the stack as a recursion."""

import torch
from torch import nn

from implementation import LayerNorm, SublayerConnection, clones

largest = torch.ones(1, 1, 1, dtype=torch.bool)


def subsequent_mask(size):
    global largest
    if largest.size(1) < size:
        largest = ~torch.triu(torch.ones(size, size), diagonal=1).bool().unsqueeze(0)
    return largest[:, :size, :size]


def spelt_out(mask, queries, keys):
    shape = queries.size(0), queries.size(1), keys.size(1)
    whole = torch.ones(shape, dtype=torch.bool, device=queries.device)
    return whole if mask is None else whole & mask


class DecoderLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.add_module("sublayer", clones(SublayerConnection(size, dropout, norm), 3))
        for name, part in (
            ("src_attn", src_attn),
            ("self_attn", self_attn),
            ("feed_forward", feed_forward),
        ):
            self.add_module(name, part)
        self.size = size
        self.norm = norm

    def look_back(self, x, mask):
        return self.self_attn(x, x, x, spelt_out(mask, x, x))

    def look_across(self, x, memory, mask):
        return self.src_attn(x, memory, memory, spelt_out(mask, x, memory))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        x = self.sublayer[0](x, lambda y: self.look_back(y, tgt_mask))
        x = self.sublayer[1](x, lambda y: self.look_across(y, memory, src_mask))
        return self.sublayer[2](x, lambda y: self.feed_forward(y))


class Decoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = nn.ModuleList(clones(layer, n))
        self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        def through(n):
            if n == 0:
                return x
            return self.layers[n - 1](through(n - 1), memory, src_mask, tgt_mask)

        return (
            through(len(self.layers)) if self.norm is None else self.norm(through(len(self.layers)))
        )
