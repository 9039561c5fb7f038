"""The way of Hugging Face's block: a mask by expert, `torch.where`, experts without tokens left out."""

from math import ceil

import torch
from torch import nn

from variants.activations import SwiGLU


class TopKRouter(nn.Module):
    def __init__(self, d_model, n_experts, k):
        super().__init__()
        self.top_k = k
        self.w_r = nn.Linear(d_model, n_experts, bias=False)

    def forward(self, x):
        exact = x.dtype if x.dtype == torch.float64 else torch.float
        logits = nn.functional.linear(x.to(exact), self.w_r.weight.to(exact))
        routing_weights = torch.softmax(logits, dim=-1)
        top, selected = routing_weights.topk(self.top_k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)
        return top.to(x.dtype), selected, routing_weights.to(x.dtype)


def load_balancing_loss(probs, experts):
    n, k = probs.shape[-1], experts.shape[-1]
    wide = torch.promote_types(probs.dtype, torch.float32)
    expert_mask = torch.nn.functional.one_hot(experts.reshape(-1, k), n)
    tokens_per_expert = expert_mask.to(wide).mean(dim=0)
    router_prob_per_expert = probs.reshape(-1, n).to(wide).mean(dim=0)
    loss = n * (tokens_per_expert * router_prob_per_expert.unsqueeze(0)).sum()
    return (loss / k).to(probs.dtype)


class MixtureOfExperts(nn.Module):
    def __init__(self, d_model, d_ff, n_experts, k, capacity_factor=None):
        super().__init__()
        self.router = TopKRouter(d_model, n_experts, k)
        self.experts = nn.ModuleList([SwiGLU(d_model, d_ff) for _ in range(n_experts)])
        self.capacity_factor = capacity_factor
        self.probs = None
        self.chosen = None

    def forward(self, x):
        n = len(self.experts)
        routing_weights, self.chosen, self.probs = self.router(x)
        hidden = x.reshape(-1, x.shape[-1])
        k = self.chosen.shape[-1]
        routing_weights, chosen = routing_weights.reshape(-1, k), self.chosen.reshape(-1, k)
        expert_mask = torch.nn.functional.one_hot(chosen, n).permute(2, 0, 1)
        final = torch.zeros_like(hidden)
        for i in range(n):
            token, place = torch.where(expert_mask[i])
            if self.capacity_factor is not None:
                fits = ceil(hidden.shape[0] * k * self.capacity_factor / n)
                token, place = token[:fits], place[:fits]
            if len(token) == 0:
                continue
            update = self.experts[i](hidden[token]) * routing_weights[token, place, None]
            final.index_add_(0, token, update.to(hidden.dtype))
        return final.reshape(*x.shape)
