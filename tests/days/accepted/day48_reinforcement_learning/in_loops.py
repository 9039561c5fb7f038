"""A group and an answer at a time; clipping by cases."""

import torch


def wide(x):
    return x if x.dtype == torch.float64 else x.float()


def group_advantages(rewards):
    rows = wide(rewards).reshape(-1, rewards.shape[-1])
    result = torch.zeros_like(rows)
    for place, row in enumerate(rows):
        if len(row) > 1 and (row != row[0]).any():
            result[place] = (row - row.mean()) / row.std()
    return result.reshape(rewards.shape)


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2):
    log_probs, old_log_probs, advantages = map(wide, (log_probs, old_log_probs, advantages))
    total = log_probs.new_zeros(())
    length = log_probs.shape[-1]
    rows = (
        log_probs.reshape(-1, length),
        old_log_probs.reshape(-1, length),
        mask.reshape(-1, length),
    )
    for new, old, real, advantage in zip(*rows, advantages.flatten().detach(), strict=True):
        ratio = torch.exp(new[real] - old[real].detach())
        limited = ratio.clamp(max=1 + clip) if advantage > 0 else ratio.clamp(min=1 - clip)
        total = total - (limited * advantage).sum()
    return total / advantages.numel()


def kl_penalty(log_probs, reference_log_probs, mask):
    with torch.no_grad():
        reference = torch.where(mask, reference_log_probs, torch.zeros_like(reference_log_probs))
    new = torch.where(mask, log_probs, torch.zeros_like(log_probs))
    difference = wide(reference) - wide(new)
    k3 = torch.expm1(difference) - difference
    return k3.sum() / mask[..., 0].numel()
