"""All choices sorted by expert, a stretch for each; the softmax of the largest scores, as Mixtral has it."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from variants.activations import SwiGLU


class TopKRouter(nn.Module):
    def __init__(self, d_model, n_experts, k):
        super().__init__()
        self.k = k
        self.w_r = nn.Linear(d_model, n_experts, bias=False)

    def forward(self, x):
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        scores = F.linear(x.to(wide), self.w_r.weight.to(wide))
        best, experts = torch.topk(scores, self.k)
        return best.softmax(-1).to(x.dtype), experts, scores.softmax(-1).to(x.dtype)


def load_balancing_loss(probs, experts):
    n = probs.shape[-1]
    wide = probs.flatten(0, -2) if probs.dim() > 1 else probs[None]
    wide = wide if probs.dtype == torch.float64 else wide.float()
    share = torch.zeros(n, dtype=wide.dtype, device=probs.device)
    chosen = experts.reshape(-1)
    share.scatter_add_(0, chosen, torch.ones_like(chosen, dtype=wide.dtype))
    return (torch.dot(share, wide.sum(0)) * n / chosen.numel() / len(wide)).to(probs.dtype)


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, n_experts, k, capacity_factor=None):
        super().__init__()
        self.experts = nn.ModuleList([SwiGLU(d_model, d_ff) for _ in range(n_experts)])
        self.router = TopKRouter(d_model, n_experts, k)
        self.factor = capacity_factor
        self.probs = self.chosen = None

    def forward(self, x):
        weights, self.chosen, self.probs = self.router(x)
        k, n = self.chosen.shape[-1], len(self.experts)
        flat, order = self.chosen.flatten().sort(stable=True)
        token = order.div(k, rounding_mode="floor")
        ends = torch.searchsorted(flat, torch.arange(n, device=x.device), right=True).tolist()
        room = order.numel()
        if self.factor is not None:
            room = math.ceil(self.factor * k * (x.numel() // x.shape[-1]) / n)
        tokens, said, whose = x.reshape(-1, x.shape[-1]), [], []
        for expert, start, end in zip(self.experts, [0, *ends], ends, strict=False):
            mine = slice(start, min(end, start + room))
            share = weights.flatten()[order[mine]]
            said.append(expert(tokens[token[mine]]) * share[:, None])
            whose.append(token[mine])
        mixed = torch.zeros_like(tokens).index_add(0, torch.cat(whose), torch.cat(said))
        return mixed.view(x.shape)
