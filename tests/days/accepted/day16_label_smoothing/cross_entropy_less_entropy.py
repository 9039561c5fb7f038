"""The cross-entropy by three sums, without any target distribution, less the entropy, known beforehand."""

import math

import torch
from torch import nn


def x_log_x(x):
    return x * math.log(x) if x > 0 else 0.0


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.padding_idx = padding_idx
        self.right = 1 - smoothing
        self.share = smoothing / (size - 2)
        self.minus_entropy = x_log_x(self.right) + (size - 2) * x_log_x(self.share)

    def forward(self, log_probs, target):
        real = target != self.padding_idx
        rows = log_probs[real].to(torch.promote_types(log_probs.dtype, torch.float))
        of_right = rows.gather(1, target[real][:, None]).sum()
        of_others = rows.sum() - rows[:, self.padding_idx].sum() - of_right
        cross_entropy = -self.right * of_right - self.share * of_others
        return (len(rows) * self.minus_entropy + cross_entropy).to(log_probs.dtype)
