"""One vector after the other, torch's variance, two forwards to choose from, copies by their states."""

import copy

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(features).fill_(1))
        self.bias = nn.Parameter(torch.empty(features).fill_(0))
        self.eps = eps

    def of_one(self, vector):
        variance, mean = torch.var_mean(vector, dim=0, correction=0)
        return (vector - mean) / torch.sqrt(variance + self.eps)

    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.to(torch.float32)
        rows = [self.of_one(vector) for vector in wide.reshape(-1, x.size(-1))]
        normed = torch.stack(rows).view(x.shape).to(x.dtype)
        return torch.addcmul(self.bias, self.gain, normed)


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout, norm="post"):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)
        self.arranged = {"post": self.post, "pre": self.pre}[norm]

    def post(self, x, sublayer):
        return self.norm(torch.add(x, self.dropout(sublayer(x))))

    def pre(self, x, sublayer):
        return torch.add(x, self.dropout(sublayer(self.norm(x))))

    def forward(self, x, sublayer):
        return self.arranged(x, sublayer)


def clones(module, n):
    copies = nn.ModuleList([copy.deepcopy(module) for _ in range(n)])
    for one in copies:
        one.load_state_dict(module.state_dict())
    return copies
