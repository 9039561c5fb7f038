"""Connections of its own, on torch's functions, and a final norm that may be an Identity."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import clones


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, eps=1e-5)


class Connection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = Norm(size)
        self.share = dropout

    def drop(self, x):
        return F.dropout(x, self.share, training=self.training)


class EncoderLayer(nn.Module):
    def __init__(self, size, self_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.size, self.norm = size, norm
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.sublayer = clones(Connection(size, dropout), 2)

    def attend(self, x, mask):
        return self.self_attn(x, x, x, mask)

    def forward(self, x, mask=None):
        for connection, part in zip(
            self.sublayer, (lambda x: self.attend(x, mask), self.feed_forward), strict=True
        ):
            if self.norm == "pre":
                x = x + connection.drop(part(connection.norm(x)))
            else:
                x = connection.norm(x + connection.drop(part(x)))
        return x


class Encoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = clones(layer, n)
        self.norm = {"pre": Norm, "post": nn.Identity}[layer.norm](layer.size)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
