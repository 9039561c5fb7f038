"""Sums and powers, everything in float64 on the way, a mask for the dropout, copies through bytes."""

import io

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, start in (("gain", 1.0), ("bias", 0.0)):
            self.register_parameter(name, nn.Parameter(torch.full((features,), start)))

    def forward(self, x):
        n = x.shape[-1]
        away = x.double() - (x.double().sum(-1) / n)[..., None]
        spread = torch.einsum("...i,...i->...", away, away) / n
        normed = away * (spread[..., None] + self.eps) ** -0.5
        return (normed * self.gain.double() + self.bias.double()).type_as(x)


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout, norm="post"):
        super().__init__()
        self.where = norm
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        branch = sublayer(self.norm(x) if self.where == "pre" else x)
        kept = self.dropout(torch.ones_like(branch))
        total = torch.stack([x, kept * branch]).sum(dim=0)
        return total if self.where == "pre" else self.norm(total)


def clones(module, n):
    file = io.BytesIO()
    torch.save(module, file)
    copies = []
    for _ in range(n):
        file.seek(0)
        copies.append(torch.load(file, weights_only=False))
    return nn.ModuleList(copies)
