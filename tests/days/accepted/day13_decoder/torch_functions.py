"""Connections of its own, on torch's functions; the mask from indices; an Identity for the missing norm."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import clones


def subsequent_mask(size):
    mask = torch.zeros(1, size, size, dtype=torch.bool)
    rows, columns = torch.tril_indices(size, size)
    mask[:, rows, columns] = True
    return mask


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, eps=1e-5)


class Connection(nn.Module):
    def __init__(self, size, dropout, pre):
        super().__init__()
        self.norm = Norm(size)
        self.share = dropout
        self.pre = pre

    def forward(self, x, part):
        found = part(self.norm(x) if self.pre else x)
        total = x + F.dropout(found, self.share, training=self.training)
        return total if self.pre else self.norm(total)


class DecoderLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward, dropout, norm="post"):
        super().__init__()
        self.size, self.norm = size, norm
        self.self_attn, self.src_attn, self.feed_forward = self_attn, src_attn, feed_forward
        self.sublayer = clones(Connection(size, dropout, norm == "pre"), 3)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        parts = (
            lambda x: self.self_attn(x, x, x, tgt_mask),
            lambda x: self.src_attn(x, memory, memory, src_mask),
            self.feed_forward,
        )
        for connection, part in zip(self.sublayer, parts, strict=True):
            x = connection(x, part)
        return x


class Decoder(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        self.layers = clones(layer, n)
        self.norm = {"pre": Norm, "post": nn.Identity}[layer.norm](layer.size)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.norm(x)
