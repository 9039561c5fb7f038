"""Positions as powers of a rotation, a bias as one more column, the sum of a token's chosen rows."""

import torch
from torch import nn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        for name, width, out in (("w_1", d_model, d_ff), ("w_2", d_ff, d_model)):
            setattr(self, name, nn.Linear(width, out))

    def forward(self, x):
        hidden = x.matmul(self.w_1.weight.mT).add(self.w_1.bias)
        hidden = torch.where(hidden > 0, hidden, 0)
        return self.dropout(hidden).matmul(self.w_2.weight.mT).add(self.w_2.bias)


class Embeddings(nn.Embedding):
    """A table that is one itself, kept under the name of the exercise too."""

    def __init__(self, d_model, vocab):
        nn.Module.__init__(self)
        self.factor = torch.tensor(float(d_model)).sqrt().item()
        self.lut = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.lut.weight, mean=0.0, std=1 / self.factor)

    def forward(self, tokens):
        flat = self.lut.weight.index_select(0, tokens.flatten())
        return (flat * self.factor).view(*tokens.shape, -1)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pairs = torch.arange((d_model + 1) // 2, dtype=torch.double)
        angles = torch.outer(torch.arange(max_len).double(), 1e4 ** (-2 * pairs / d_model))
        circle = torch.polar(torch.ones_like(angles), angles)
        table = torch.stack([circle.imag, circle.real], dim=-1).flatten(1)[:, :d_model]
        self.register_buffer("pe", table.float()[None])

    def forward(self, x):
        return self.dropout(self.pe[:, : x.size(-2)] + x)
