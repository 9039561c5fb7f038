"""PyTorch's own Kullback–Leibler divergence from targets that `scatter` fills."""

import torch
import torch.nn.functional as F
from torch import nn


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.padding_idx, self.smoothing = padding_idx, smoothing
        self.share = smoothing / (size - 2)

    def forward(self, log_probs, target):
        wide = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
        smoothed = torch.full_like(wide, self.share, requires_grad=False)
        smoothed.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        smoothed[:, self.padding_idx] = 0
        smoothed[target == self.padding_idx] = 0
        return F.kl_div(wide, smoothed, reduction="sum").to(log_probs.dtype)
