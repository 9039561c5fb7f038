"""No connection is ever called: norms, dropout and sums are written out, post- and pre-norm apart."""

import copy

from torch import nn

from implementation import LayerNorm, SublayerConnection


class EncoderLayer(nn.Module):
    def __init__(self, size, self_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.norm = norm
        self.size = size
        connections = [SublayerConnection(size, dropout, norm) for _ in range(2)]
        self.sublayer = nn.ModuleList(connections)
        self.feed_forward = feed_forward
        self.self_attn = self_attn

    def forward(self, x, mask=None):
        around_attention, around_network = self.sublayer
        if self.norm == "pre":
            y = around_attention.norm(x)
            found = self.self_attn(query=y, key=y, value=y, mask=mask)
            x = around_attention.dropout(found) + x
            thought = self.feed_forward(around_network.norm(x))
            return around_network.dropout(thought) + x
        found = self.self_attn(query=x, key=x, value=x, mask=mask)
        x = around_attention.norm(around_attention.dropout(found) + x)
        thought = self.feed_forward(x)
        return around_network.norm(around_network.dropout(thought) + x)


class Encoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(n):
            self.layers.append(copy.deepcopy(layer))
        if layer.norm == "pre":
            self.norm = LayerNorm(layer.size)

    def forward(self, x, mask=None):
        for number in range(len(self.layers)):
            x = self.layers[number](x, mask=mask)
        return self.norm(x) if hasattr(self, "norm") else x
