"""Chunks as rows of a padded matrix; all gradients of a dtype side by side in one bucket."""

import math

import torch
import torch.nn.functional as F


def ring_all_reduce(tensor, group):
    n, r = group.size, group.rank
    flat = tensor.detach().reshape(-1)
    width = -(-flat.numel() // n)
    rows = F.pad(flat, (0, n * width - flat.numel())).reshape(n, width).clone()
    for k in range(n - 1):
        group.send(rows[r - k], (r + 1) % n)
        rows[(r - k - 1) % n] += group.receive((r - 1) % n)
    for k in range(n - 1):
        group.send(rows[(r + 1 - k) % n], (r + 1) % n)
        rows[(r - k) % n] = group.receive((r - 1) % n)
    return rows.reshape(-1)[: flat.numel()].reshape(tensor.shape)


def average_gradients(model, group):
    buckets = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            buckets.setdefault(parameter.dtype, []).append(parameter)
    for parameters in buckets.values():
        bucket = torch.cat([(one.grad / group.size).flatten() for one in parameters])
        parts = ring_all_reduce(bucket, group).split([one.numel() for one in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad.copy_(part.view_as(parameter))


def shard(parameter, group):
    n = group.size
    width = -(-parameter.numel() // n)
    flat = parameter.detach().reshape(-1)
    return F.pad(flat, (0, n * width - flat.numel())).reshape(n, width)[group.rank].clone()


def gather(piece, shape, group):
    n, r = group.size, group.rank
    rows = piece.new_zeros(n, piece.numel())
    rows[r] = piece.detach()
    for k in range(n - 1):
        group.send(rows[r - k], (r + 1) % n)
        rows[(r - k - 1) % n] = group.receive((r - 1) % n)
    return rows.flatten()[: math.prod(shape)].reshape(shape)
