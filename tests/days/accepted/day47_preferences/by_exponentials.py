"""Normalizers by logsumexp: of the vocabulary for an answer, of the two rewards for a pair."""

import torch


def in_float32(*tensors):
    return torch.stack(tensors).to(torch.promote_types(tensors[0].dtype, torch.float32))


def sequence_log_probs(logits, labels):
    (logits,) = in_float32(logits)
    wanted = torch.nn.functional.one_hot(labels.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    of_label = torch.einsum("...v,...v->...", logits, wanted)
    known = of_label - torch.logsumexp(logits, dim=-1)
    return torch.where(labels == -100, torch.zeros_like(known), known).sum(dim=-1)


def bradley_terry_loss(chosen, rejected):
    both = in_float32(chosen, rejected)
    return (torch.logsumexp(both, dim=0) - both[0]).sum() / chosen.numel()


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    policy = in_float32(policy_chosen, policy_rejected)
    reference = in_float32(reference_chosen, reference_rejected).detach()
    return bradley_terry_loss(*((policy - reference) * beta))
