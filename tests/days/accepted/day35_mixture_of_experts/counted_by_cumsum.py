"""Marks for each expert and token; a running count along the tokens says who still fits."""

import torch
from torch import nn

from variants.activations import SwiGLU


class TopKRouter(nn.Module):
    def __init__(self, d_model, n_experts, k):
        super().__init__()
        self.w_r, self.k = nn.Linear(d_model, n_experts, bias=False), k

    def forward(self, x):
        weight = self.w_r.weight
        if x.dtype in (torch.float16, torch.bfloat16):
            weight, wide = weight.float(), x.float()
        else:
            wide = x
        powers = torch.einsum("...d,nd->...n", wide, weight)
        powers = (powers - powers.amax(dim=-1, keepdim=True)).exp()
        probs = powers / powers.sum(dim=-1, keepdim=True)
        experts = probs.argsort(dim=-1, descending=True)[..., : self.k]
        mine = probs.gather(-1, experts)
        return (
            (mine / mine.sum(-1, keepdim=True)).to(x.dtype),
            experts,
            probs.to(x.dtype),
        )


def load_balancing_loss(probs, experts):
    n = probs.size(-1)
    marks = nn.functional.one_hot(experts, n).double()
    f = marks.reshape(-1, n).mean(dim=0)
    p = probs.double().reshape(-1, n).mean(dim=0)
    return sum(n * f[i] * p[i] for i in range(n)).to(probs.dtype)


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, n_experts, k, capacity_factor=None):
        super().__init__()
        self.n, self.k, self.c = n_experts, k, capacity_factor
        self.router = TopKRouter(d_model, n_experts, k)
        self.experts = nn.ModuleList()
        for _ in range(n_experts):
            self.experts.append(SwiGLU(d_model, d_ff))
        self.probs, self.chosen = None, None

    def forward(self, x):
        shares, self.chosen, self.probs = self.router(x)
        tokens = x.contiguous().view(-1, x.size(-1))
        count = tokens.size(0)
        table = torch.zeros(count, self.n, dtype=x.dtype, device=x.device)
        table = table.scatter(1, self.chosen.reshape(count, self.k), shares.reshape(count, self.k))
        marked = torch.zeros(count, self.n, dtype=torch.long, device=x.device)
        marked = marked.scatter(1, self.chosen.reshape(count, self.k), 1)
        if self.c is not None:
            room = -int(-self.c * self.k * count // self.n)  # rounded up
            marked = marked * (marked.cumsum(0) <= room)
        y = torch.zeros_like(tokens)
        for i in range(self.n):
            who = marked[:, i].bool()
            if who.any():
                said = table[who, i, None] * self.experts[i](tokens[who])
                y = y + torch.zeros_like(y).masked_scatter(who[:, None], said)
        return y.view_as(x)
