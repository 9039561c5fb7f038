"""torch's layer norm and dropout as functions, one formula with the norm in either place, a growing list."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout, norm="post"):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm = LayerNorm(size)
        self.norm_first = norm == "pre"

    def forward(self, x, sublayer):
        before, after = (
            (self.norm, nn.Identity()) if self.norm_first else (nn.Identity(), self.norm)
        )
        found = F.dropout(sublayer(before(x)), self.dropout.p, self.training)
        return after(found + x)


def clones(module, n):
    copies = nn.ModuleList()
    while len(copies) < n:
        copies.append(deepcopy(module))
    return copies
