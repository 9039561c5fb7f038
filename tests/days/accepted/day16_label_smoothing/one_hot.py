"""The target as a mixture of a one-hot and an even distribution, the two logs written out."""

import torch
import torch.nn.functional as F
from torch import nn


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.size, self.padding_idx, self.smoothing = size, padding_idx, smoothing

    def forward(self, log_probs, target):
        dtype = log_probs.dtype if log_probs.dtype == torch.float64 else torch.float32
        p = log_probs.to(dtype)
        right = F.one_hot(target, self.size).to(dtype)
        padding = torch.arange(self.size, device=target.device) == self.padding_idx
        others = (1 - right) * ~padding / (self.size - 2)
        q = torch.lerp(right, others, self.smoothing)
        q = torch.where((target == self.padding_idx)[:, None], torch.zeros_like(q), q)
        return (torch.special.xlogy(q, q) - torch.einsum("nv,nv->nv", q, p)).sum().to(log_probs)
