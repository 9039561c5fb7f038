"""torch's own functions throughout, `nn.functional` for the norms, and GELU and SiLU as it has them."""

import torch
import torch.nn.functional as F
from torch import nn


def wider(x):
    return x if x.dtype == torch.float64 else x.float()


class RMSNorm(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        wide = wider(x)
        return F.rms_norm(wide, self.gain.shape, self.gain.to(wide.dtype), self.eps).to(x.dtype)


class GroupNorm(nn.Module):
    def __init__(self, groups, features, eps):
        super().__init__()
        self.groups, self.eps = groups, eps
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        tokens = wider(x.reshape(-1, x.shape[-1]))
        gain, bias = self.gain.to(tokens.dtype), self.bias.to(tokens.dtype)
        normed = F.group_norm(tokens, self.groups, gain, bias, self.eps)
        return normed.reshape(x.shape).to(x.dtype)


def gelu(x, approximate):
    return F.gelu(x, approximate=approximate)


def mish(x):
    return F.mish(x)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_down = nn.Linear(d_ff, d_model, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return self.w_down(F.silu(self.w_gate(x)) * self.w_up(x))
