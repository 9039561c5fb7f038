"""Columns and rows filled by index, the divergence of each row by cross-entropy with probabilities."""

import torch
from torch import Tensor, nn


class LabelSmoothing(nn.Module):
    def __init__(self, size: int, padding_idx: int, smoothing: float = 0.0):
        super().__init__()
        self.size = size
        self.padding_idx = padding_idx
        self.share = smoothing / (size - 2)
        self.confidence = 1 - smoothing

    def forward(self, log_probs: Tensor, target: Tensor) -> Tensor:
        x = log_probs if log_probs.dtype in (torch.float32, torch.float64) else log_probs.float()
        with torch.no_grad():
            q = x.new_empty(x.shape)
            q[...] = self.share
            q[range(len(q)), target] = self.confidence
            q.index_fill_(1, torch.tensor([self.padding_idx], device=q.device), 0.0)
            q.index_fill_(0, torch.nonzero(target == self.padding_idx).flatten(), 0.0)
            log_q = torch.where(q > 0, q, torch.ones(()).to(q)).log()
        return torch.tensordot(q, log_q - x, dims=2).to(log_probs.dtype)
