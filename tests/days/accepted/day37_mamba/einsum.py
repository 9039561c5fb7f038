"""Einstein sums; the decays of all tokens first, as in the published slow path; a padded convolution."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from variants.mamba import MambaState, parallel_scan


def selective_scan(u, delta, a, b, c, d):
    dtype = u.dtype if u.dtype == torch.float64 else torch.float32
    u_, delta, a, b, c, d = (x.to(dtype) for x in (u, delta, a, b, c, d))
    decay = torch.exp(torch.einsum("btd,dn->btdn", delta, a))
    written = torch.einsum("btd,btn,btd->btdn", delta, b, u_)
    h = torch.zeros_like(written[:, 0]) if u.size(1) else None
    y = []
    for t in range(u.size(1)):
        h = decay[:, t] * h + written[:, t]
        y.append(torch.einsum("bdn,bn->bd", h, c[:, t]))
    scanned = torch.stack(y, dim=1) if y else torch.zeros_like(u_)
    return (scanned + u_ * d).to(u.dtype)


class Mamba(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        inner, n = config.d_inner, config.d_state
        self.a_log = nn.Parameter(
            torch.log(torch.arange(1, n + 1).float()).expand(inner, n).clone()
        )
        self.d = nn.Parameter(torch.ones(inner))
        self.in_proj = nn.Linear(config.d_model, inner * 2, bias=False)
        self.conv1d = nn.Conv1d(
            inner, inner, config.d_conv, groups=inner, padding=config.d_conv - 1
        )
        self.x_proj = nn.Linear(inner, config.dt_rank + 2 * n, bias=False)
        self.dt_proj = nn.Linear(config.dt_rank, inner, bias=True)
        self.out_proj = nn.Linear(inner, config.d_model, bias=False)
        bound = config.dt_rank**-0.5
        with torch.no_grad():
            self.dt_proj.weight.uniform_(-bound, bound)
            dt = torch.exp(
                torch.rand(inner) * (math.log(0.1) - math.log(0.001)) + math.log(0.001)
            ).clamp(min=1e-4)
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))

    def forward(self, x, state=None):
        k, t = self.config.d_conv - 1, x.size(1)
        if state is None:
            state = MambaState(self.config, x.size(0))
        xz = torch.einsum("btm,em->bte", x, self.in_proj.weight)
        x, z = xz.split(self.config.d_inner, dim=-1)
        whole = torch.cat((state.window.to(x.device, x.dtype), x), dim=1)
        state.window = whole.detach()[:, whole.size(1) - k :]
        # The convolution fills up both ends with k zeros; the first k outputs see too few, the last too much.
        x = self.conv1d(whole.mT)[..., k : k + t].mT
        x = x * torch.sigmoid(x)
        r, b, c = torch.tensor_split(
            self.x_proj(x), (self.config.dt_rank, self.config.dt_rank + self.config.d_state), dim=-1
        )
        delta = F.softplus(F.linear(r, self.dt_proj.weight, self.dt_proj.bias))
        y, h = parallel_scan(x, delta, -torch.exp(self.a_log), b, c, self.d, state.h.to(x.device))
        state.h = h.detach()
        return self.out_proj(y * (z * torch.sigmoid(z)))
