"""One vector after the other, one group after the other; two roundings; shares of a normal distribution."""

import math

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def of_one(self, vector):
        wide = vector.double() if vector.dtype == torch.float64 else vector.float()
        normed = wide / torch.sqrt(torch.dot(wide, wide) / len(wide) + self.eps)
        return (normed.to(vector.dtype) * self.gain).to(vector.dtype)

    def forward(self, x):
        rows = [self.of_one(vector) for vector in x.reshape(-1, x.size(-1))]
        return torch.stack(rows).reshape(x.shape)


class GroupNorm(nn.Module):
    def __init__(self, groups, features, eps):
        super().__init__()
        self.size = features // groups
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        wide = x.to(torch.promote_types(torch.float32, x.dtype))
        normed = []
        for group in wide.split(self.size, dim=-1):
            variance, mean = torch.var_mean(group, dim=-1, correction=0, keepdim=True)
            normed.append((group - mean) / torch.sqrt(variance + self.eps))
        return torch.addcmul(self.bias, self.gain, torch.cat(normed, dim=-1)).to(x.dtype)


def gelu(x, approximate):
    wide = x.double()
    if approximate == "tanh":
        share = torch.sigmoid(2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide.pow(3)))
    else:
        share = torch.distributions.Normal(0.0, 1.0).cdf(wide)
    return (wide * share).to(x.dtype)


def mish(x):
    wide = x.double()
    return (wide * torch.tanh(torch.logaddexp(wide, torch.zeros_like(wide)))).to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate, self.w_up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.w_down = nn.Linear(d_ff, d_model, bias=False)
        self.swish = nn.SiLU()

    def forward(self, x):
        tokens = [
            self.w_down(self.w_up(token) * self.swish(self.w_gate(token)))
            for token in x.reshape(-1, x.size(-1))
        ]
        return torch.stack(tokens).reshape(x.shape)
