"""Channels before time, as the published kernels have it; a scan in ever longer strides."""

import torch
import torch.nn.functional as F
from torch import nn

from variants.mamba import MambaState, parallel_scan


def selective_scan(u, delta, a, b, c, d):
    """Every token looks back by 1, by 2, by 4 …: after ⌈log₂ T⌉ rounds each has seen all before it."""
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, b, c = (one.to(wide).transpose(1, 2) for one in (u, delta, b, c))
    decay = torch.exp(delta.unsqueeze(2) * a.to(wide).unsqueeze(-1))  # (B, D, N, T)
    h = (delta * x).unsqueeze(2) * b.unsqueeze(1)  # (B, D, N, T)
    back = 1
    while back < x.size(-1):
        h = h + decay * F.pad(h, (back, 0))[..., :-back]
        decay = decay * F.pad(decay, (back, 0), value=1.0)[..., :-back]
        back *= 2
    y = (h * c.unsqueeze(1)).sum(dim=2) + d.to(wide).unsqueeze(-1) * x  # (B, D, T)
    return y.transpose(1, 2).to(u.dtype)


class Mamba(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        inner = config.d_inner
        self.in_proj = nn.Linear(config.d_model, inner * 2, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, kernel_size=config.d_conv, groups=inner)
        self.x_proj = nn.Linear(inner, config.dt_rank + config.d_state * 2, bias=False)
        self.dt_proj = nn.Linear(config.dt_rank, inner)
        a = torch.arange(1, config.d_state + 1, dtype=torch.float32).repeat(inner, 1)
        self.a_log = nn.Parameter(a.log())
        self.d = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, config.d_model, bias=False)
        nn.init.uniform_(self.dt_proj.weight, -(config.dt_rank**-0.5), config.dt_rank**-0.5)
        steps = torch.empty(inner).uniform_(-6.907755, -2.302585).exp()
        self.dt_proj.bias.data = steps + (-(-steps).expm1()).log()

    def forward(self, x, state=None):
        t = x.size(1)
        state = state if state is not None else MambaState(self.config, x.size(0))
        x, z = self.in_proj(x).transpose(1, 2).chunk(2, dim=1)  # (B, D, T)
        x = torch.cat([state.window.transpose(1, 2).to(x), x], dim=2)
        state.window = x[..., t:].transpose(1, 2).detach()
        x = F.silu(self.conv1d(x)) if t else x[..., :0]
        made = torch.einsum("ed,bdt->bet", self.x_proj.weight, x)
        sizes = (self.config.dt_rank, self.config.d_state, self.config.d_state)
        r, b, c = made.split(sizes, dim=1)
        delta = F.softplus(self.dt_proj.weight @ r + self.dt_proj.bias.unsqueeze(-1))
        y, last = parallel_scan(
            x.transpose(1, 2),
            delta.transpose(1, 2),
            -self.a_log.exp(),
            b.transpose(1, 2),
            c.transpose(1, 2),
            self.d,
            state.h.to(x.device),
        )
        state.h = last.detach()
        return self.out_proj(y * F.silu(z.transpose(1, 2)))
