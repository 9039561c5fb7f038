"""RMSNorm by the length of the vector, GroupNorm as small layer norms, curves from `torch.special`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT_2_PI = (2 / math.pi) ** 0.5


def widened(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class RMSNorm(nn.Module):
    def __init__(self, features: int, eps: float):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        wide = widened(x)
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = x.size(-1) ** 0.5 / torch.sqrt(length**2 + x.size(-1) * self.eps)
        return torch.mul(wide * scale, self.gain).to(x.dtype)


class GroupNorm(nn.Module):
    def __init__(self, groups: int, features: int, eps: float):
        super().__init__()
        self.shape = (groups, features // groups)
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        wide = widened(x).reshape(*x.shape[:-1], *self.shape)
        normed = F.layer_norm(wide, self.shape[1:], eps=self.eps)
        gain, bias = self.gain.view(self.shape), self.bias.view(self.shape)
        return (normed * gain + bias).to(x.dtype).reshape(x.shape)


def gelu(x, approximate):
    wide = widened(x)
    if approximate == "tanh":
        cubed = ROOT_2_PI * wide + ROOT_2_PI * 0.044715 * torch.pow(wide, 3)
        return (0.5 * wide * (1.0 + torch.tanh(cubed))).to(x.dtype)
    return (wide * torch.special.ndtr(wide)).to(x.dtype)


def mish(x):
    wide = widened(x)
    softplus = wide.clamp(min=0) + torch.log1p(torch.exp(-wide.abs()))
    return wide.mul(torch.tanh(softplus)).to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        opens = x @ self.w_gate.weight.T
        share = torch.exp(F.logsigmoid(opens))
        return (self.w_up(x) * opens * share) @ self.w_down.weight.mT
