"""Cross-entropy against 1 − ε and ε / (V − 1), padded rows left out: what fairseq computes, written anew."""

import torch
from torch import nn


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.size, self.pad, self.eps = size, padding_idx, smoothing

    def forward(self, log_probs, target):
        real = target != self.pad
        rows, right = log_probs[real], target[real]
        expected = torch.full_like(rows, self.eps / (self.size - 1))
        expected[torch.arange(len(right)), right] = 1 - self.eps
        return -(expected * rows).sum()
