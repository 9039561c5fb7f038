"""The ring turned around, to the process before; one buffer, its slices written in place."""

import math

import torch


def ring_all_reduce(tensor, group):
    if group.size == 1:
        return tensor.detach().clone()
    n, r = group.size, group.rank
    buffer = tensor.detach().flatten().clone()
    edges = [len(buffer) * i // n for i in range(n + 1)]

    def chunk(i):
        return buffer[edges[i % n] : edges[i % n + 1]]

    for k in range(n - 1):
        group.send(chunk(r + k), (r - 1) % n)
        chunk(r + k + 1).add_(group.receive((r + 1) % n))
    for k in range(n - 1):
        group.send(chunk(r + k - 1), (r - 1) % n)
        chunk(r + k).copy_(group.receive((r + 1) % n))
    return buffer.unflatten(0, tensor.shape) if tensor.dim() else buffer[0]


def average_gradients(model, group):
    wanted = [one for one in model.parameters() if one.requires_grad]
    for parameter in reversed(wanted):
        gradient = parameter.grad
        if gradient is None:
            gradient = parameter.detach() * 0
        parameter.grad = ring_all_reduce(gradient / group.size, group)


def shard(parameter, group):
    length = math.ceil(parameter.numel() / group.size)
    piece = torch.zeros(length, dtype=parameter.dtype, device=parameter.device)
    begin = length * group.rank
    for place, value in enumerate(parameter.detach().flatten()[begin : begin + length]):
        piece[place] = value
    return piece


def gather(piece, shape, group):
    n, r = group.size, group.rank
    found = [torch.empty_like(piece) for _ in range(n)]
    found[r].copy_(piece)
    for k in range(n - 1):
        group.send(found[(r + k) % n], (r - 1) % n)
        found[(r + k + 1) % n].copy_(group.receive((r + 1) % n))
    whole = torch.empty(shape, dtype=piece.dtype, device=piece.device)
    whole.view(-1).copy_(torch.cat(found)[: whole.numel()])
    return whole
