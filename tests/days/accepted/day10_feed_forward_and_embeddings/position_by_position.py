"""Loops over positions and sequences, a clamp for the cut, indexing for the look-up, numbers from `math`."""

import math

import torch
from torch import nn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.after_the_cut = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))

    def forward(self, x):
        vectors = x.reshape(-1, x.size(-1))
        outputs = [self.w_2(self.after_the_cut(self.w_1(vector))) for vector in vectors]
        return torch.stack(outputs).reshape(x.shape)


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.scale = d_model**0.5
        for row in self.lut.weight.data:
            row.normal_(0, 1 / self.scale)

    def forward(self, tokens):
        return self.lut.weight[tokens] * self.scale


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        frequencies = [10000.0 ** (-column / d_model) for column in range(0, d_model, 2)]
        rows = []
        for position in range(max_len):
            angles = [position * frequency for frequency in frequencies]
            row = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
            rows.append(row[:d_model])
        self.register_buffer("pe", torch.tensor(rows).view(1, max_len, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return torch.stack([self.dropout(sequence + self.pe[0, : len(sequence)]) for sequence in x])
