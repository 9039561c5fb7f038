"""`torch.nn.functional` throughout, frequencies by exp and log in float32, dropout by a mask of one's own."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.p = dropout
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = F.relu(F.linear(x, self.w_1.weight, self.w_1.bias), inplace=True)
        hidden = F.dropout(hidden, self.p, training=self.training)
        return F.linear(hidden, self.w_2.weight, self.w_2.bias)


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.lut.weight.data.mul_(d_model**-0.5)

    def forward(self, tokens):
        return math.sqrt(self.lut.weight.size(1)) * F.embedding(tokens, self.lut.weight)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.p = dropout
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * frequency)
        pe[:, 1::2] = torch.cos(position * frequency[: pe[:, 1::2].size(1)])
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        total = self.pe[:, : x.shape[1], :] + x
        if not self.training or self.p == 0:
            return total
        kept = torch.rand_like(total) >= self.p
        return total * kept / (1 - self.p) if self.p < 1 else torch.zeros_like(total)
