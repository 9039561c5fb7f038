"""The stack as a recursion, the parts kept through small functions, the mask always spelled out."""

import functools

import torch
from torch import nn

from implementation import LayerNorm, SublayerConnection, clones


class EncoderLayer(nn.Module):
    def __init__(self, size, self_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.add_module("sublayer", clones(SublayerConnection(size, dropout, norm), 2))
        self.add_module("self_attn", self_attn)
        self.add_module("feed_forward", feed_forward)
        self.size = size
        self.norm = norm

    def forward(self, x, mask=None):
        def look_around(tokens):
            whole = None if mask is None else mask.expand(x.size(0), x.size(1), x.size(1))
            return self.self_attn(tokens, tokens, tokens, whole)

        looked = self.sublayer[0](x, look_around)
        return self.sublayer[1](looked, lambda tokens: self.feed_forward(tokens))


class Encoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = nn.ModuleList(clones(layer, n))
        self.norm = LayerNorm(layer.size) if layer.norm == "pre" else None

    def forward(self, x, mask=None):
        def go_on(x, number):
            if number == 0:
                return x
            return self.layers[number - 1](go_on(x, number - 1), mask)

        x = go_on(x, len(self.layers))
        steps = [self.norm] if isinstance(self.norm, nn.Module) else []
        return functools.reduce(lambda y, step: step(y), steps, torch.as_tensor(x))
