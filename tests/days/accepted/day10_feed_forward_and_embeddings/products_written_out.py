"""Einstein sums, a mask instead of a ReLU, dropout before the cut, one-hot rows, a loop over columns."""

import math

import torch
from torch import nn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.w_1 = nn.Linear(d_model, d_ff)

    def forward(self, x):
        before = torch.einsum("fd,...d->...f", self.w_1.weight, x) + self.w_1.bias
        hidden = self.drop(before)
        hidden = hidden * (hidden > 0)
        return torch.einsum("df,...f->...d", self.w_2.weight, hidden) + self.w_2.bias


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        with torch.no_grad():
            self.lut.weight.copy_(torch.randn(vocab, d_model) / math.sqrt(d_model))

    def forward(self, tokens):
        table = self.lut.weight * self.lut.embedding_dim**0.5
        rows = nn.functional.one_hot(tokens, self.lut.num_embeddings).to(table.dtype)
        return rows @ table


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len)
        columns = []
        for column in range(d_model):
            angle = position / 10000 ** (column // 2 * 2 / d_model)
            columns.append(angle.cos() if column % 2 else angle.sin())
        self.register_buffer("pe", torch.stack(columns, dim=-1)[None])

    def forward(self, x):
        _, time, _ = x.shape
        return self.dropout(x + self.pe.narrow(1, 0, time).expand(len(x), -1, -1))
