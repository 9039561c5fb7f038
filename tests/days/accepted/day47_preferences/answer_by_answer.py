"""Loops over answers and pairs; the likelihood as softplus, DPO as a difference of log-ratios."""

import torch
import torch.nn.functional as F


def wide(x):
    return x if x.dtype == torch.float64 else x.float()


def sequence_log_probs(logits, labels):
    rows = wide(logits).reshape(-1, *logits.shape[-2:])
    sums = [
        -F.cross_entropy(row, kept, reduction="sum", ignore_index=-100)
        for row, kept in zip(rows, labels.reshape(-1, labels.shape[-1]), strict=True)
    ]
    return torch.stack(sums).reshape(labels.shape[:-1])


def bradley_terry_loss(chosen, rejected):
    losses = [
        F.softplus(wide(worse) - wide(better))
        for better, worse in zip(chosen.reshape(-1), rejected.reshape(-1), strict=True)
    ]
    return sum(losses) / len(losses)


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    with torch.no_grad():
        before = wide(reference_chosen) - wide(reference_rejected)
    now = wide(policy_chosen) - wide(policy_rejected)
    return F.softplus(-beta * (now - before)).mean()
