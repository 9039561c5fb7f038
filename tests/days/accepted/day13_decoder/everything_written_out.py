"""No connection is ever called: norms, dropout and sums are written out. The mask is a comparison."""

import copy

import torch
from torch import nn

from implementation import LayerNorm, SublayerConnection


def subsequent_mask(size):
    position = torch.arange(size)
    return (position[None, :, None] >= position[None, None, :]).contiguous()


class DecoderLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.norm = norm
        self.size = size
        self.feed_forward = feed_forward
        self.src_attn = src_attn
        self.self_attn = self_attn
        self.sublayer = nn.ModuleList(SublayerConnection(size, dropout, norm) for _ in range(3))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        own, source, network = self.sublayer
        pre = self.norm == "pre"

        asking = own.norm(x) if pre else x
        found = self.self_attn(query=asking, key=asking, value=asking, mask=tgt_mask)
        x = own.dropout(found) + x
        x = x if pre else own.norm(x)

        asking = source.norm(x) if pre else x
        found = self.src_attn(query=asking, key=memory, value=memory, mask=src_mask)
        x = source.dropout(found) + x
        x = x if pre else source.norm(x)

        thought = self.feed_forward(network.norm(x) if pre else x)
        x = network.dropout(thought) + x
        return x if pre else network.norm(x)


class Decoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = nn.ModuleList()
        while len(self.layers) < n:
            self.layers.append(copy.deepcopy(layer))
        if layer.norm == "pre":
            self.norm = LayerNorm(layer.size)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        for layer in self.layers:
            x = layer(x, memory, tgt_mask=tgt_mask, src_mask=src_mask)
        return self.norm(x) if hasattr(self, "norm") else x
