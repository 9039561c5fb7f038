"""Einstein sums, powers, everything in float64, a table of which features share a group, erfc."""

import math

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.register_parameter("gain", nn.Parameter(torch.full((features,), 1.0)))
        self.features, self.eps = features, eps

    def forward(self, x):
        wide = x.double()
        squares = torch.einsum("...i,...i->...", wide, wide)[..., None]
        normed = wide * (squares / self.features + self.eps) ** -0.5
        return (normed * self.gain.double()).type_as(x)


class GroupNorm(nn.Module):
    def __init__(self, groups, features, eps):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.empty(features).fill_(1))
        self.bias = nn.Parameter(torch.empty(features).fill_(0))
        group = torch.arange(features) // (features // groups)
        self.register_buffer("together", group[:, None] == group, persistent=False)

    def forward(self, x):
        wide = x.double()
        mean_over = self.together.double()
        mean_over = mean_over / mean_over.sum(dim=-1, keepdim=True)
        away = wide - wide @ mean_over
        deviation = (away**2 @ mean_over + self.eps) ** 0.5
        return (away / deviation * self.gain.double() + self.bias.double()).type_as(x)


def gelu(x, approximate):
    wide = x.double()
    if approximate == "tanh":
        root = math.sqrt(2 / math.pi)
        bent = torch.tanh(root * wide * (1 + 0.044715 * wide * wide))
        return torch.lerp(torch.zeros_like(wide), wide, (1 + bent) / 2).type_as(x)
    return (wide / 2 * torch.erfc(-wide / 2**0.5)).type_as(x)


def mish(x):
    """With v = e^−|x| no power overflows: tanh ln(1 + eˣ) as a fraction, for either sign."""
    wide = x.double()
    v = torch.exp(-wide.abs())
    right = (1 + 2 * v) / (1 + 2 * v + 2 * v * v)
    left = (v * v + 2 * v) / (v * v + 2 * v + 2)
    return (wide * torch.where(wide >= 0, right, left)).type_as(x)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        both = torch.cat([self.w_gate.weight, self.w_up.weight])
        opens, opened = torch.einsum("...d,fd->...f", x, both).chunk(2, dim=-1)
        hidden = opens / 2 * (1 + torch.tanh(opens / 2)) * opened
        return torch.einsum("...f,df->...d", hidden, self.w_down.weight)
