"""A scan of its own in the layer, token by token, number by number of the state; the convolution as a sum."""

import math

import torch
from torch import nn

from variants.mamba import MambaState


def selective_scan(u, delta, a, b, c, d):
    return _scan(u, delta, a, b, c, d, None)[0]


def _scan(u, delta, a, b, c, d, h):
    """One column of the state after the other."""
    wide = torch.promote_types(torch.float32, u.dtype)
    rows, time, width = u.shape
    x, delta, a, b, c = u.to(wide), delta.to(wide), a.to(wide), b.to(wide), c.to(wide)
    y = d.to(wide) * x
    kept = []
    for n in range(a.size(1)):
        state = x.new_zeros(rows, width) if h is None else h[:, :, n].to(x)
        read = []
        for t in range(time):
            state = torch.exp(delta[:, t] * a[:, n]) * state
            state = state + delta[:, t] * x[:, t] * b[:, t, n, None]
            read.append(state * c[:, t, n, None])
        kept.append(state)
        if read:
            y = y + torch.stack(read, dim=1)
    return y.to(u.dtype), torch.stack(kept, dim=-1)


class Mamba(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width, n, rank = config.expand * config.d_model, config.d_state, config.dt_rank
        self.in_proj = nn.Linear(config.d_model, width + width, bias=False)
        self.conv1d = nn.Conv1d(width, width, config.d_conv, groups=width)
        self.x_proj = nn.Linear(width, rank + n + n, bias=False)
        self.dt_proj = nn.Linear(rank, width)
        self.a_log = nn.Parameter(torch.stack([torch.arange(1.0, n + 1.0).log()] * width))
        self.d = nn.Parameter(torch.full((width,), 1.0))
        self.out_proj = nn.Linear(width, config.d_model, bias=False)
        torch.nn.init.uniform_(self.dt_proj.weight, -1 / math.sqrt(rank), 1 / math.sqrt(rank))
        with torch.no_grad():
            step = 10 ** torch.empty(width).uniform_(-3, -1)
            self.dt_proj.bias[:] = torch.log(torch.exp(step.double()) - 1).to(step)

    def forward(self, x, state=None):
        width, k = self.d.numel(), self.config.d_conv
        state = MambaState(self.config, len(x)) if state is None else state
        both = self.in_proj(x)
        x, z = both[..., :width], both[..., width:]
        seen = torch.cat([state.window.to(dtype=x.dtype, device=x.device), x], dim=1)
        state.window = seen[:, seen.size(1) - (k - 1) :].detach().clone()
        weight = self.conv1d.weight[:, 0]
        x = self.conv1d.bias + sum(seen[:, i : i + x.size(1)] * weight[:, i] for i in range(k))
        x = nn.functional.silu(x)
        made = self.x_proj(x)
        rank, n = self.config.dt_rank, self.config.d_state
        delta = nn.functional.softplus(self.dt_proj(made[..., :rank]))
        b, c = made[..., rank : rank + n], made[..., rank + n :]
        y, h = _scan(x, delta, -self.a_log.exp(), b, c, self.d, state.h.to(x.device))
        state.h = h.detach()
        return self.out_proj(nn.functional.silu(z) * y)
