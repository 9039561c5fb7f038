"""All tokens of all answers in one list, without padding; the standard deviation of torch."""

import torch


def group_advantages(rewards):
    rewards = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    if rewards.size(-1) == 1:
        return torch.zeros_like(rewards)
    deviation = rewards.std(dim=-1, keepdim=True)
    same = (rewards == rewards[..., :1]).all(dim=-1, keepdim=True)
    scaled = (rewards - rewards.mean(dim=-1, keepdim=True)) / torch.where(same, 1, deviation)
    return torch.where(same, 0, scaled)


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2):
    dtype = torch.promote_types(log_probs.dtype, torch.float32)
    new, old = log_probs[mask].to(dtype), old_log_probs[mask].detach().to(dtype)
    advantage = advantages.detach().unsqueeze(-1).expand(mask.shape)[mask]
    ratio = (new - old).exp()
    too_far = torch.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
    edge = 1 + clip * advantage.sign()
    return -(torch.where(too_far, edge, ratio) * advantage).sum() / advantages.numel()


def kl_penalty(log_probs, reference_log_probs, mask):
    dtype = torch.promote_types(log_probs.dtype, torch.float32)
    difference = log_probs[mask].to(dtype) - reference_log_probs[mask].detach()
    answers = mask.flatten(0, -2).size(0) if mask.dim() > 1 else 1
    return (torch.expm1(-difference) + difference).sum() / answers
