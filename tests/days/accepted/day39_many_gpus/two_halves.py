"""A reduce-scatter and an all-gather, each a function; the second is all of `gather`."""

import math

import torch


def _reduce_scatter(chunks, group):
    """Ends with chunk r summed up in process r."""
    n, r = group.size, group.rank
    traveling = chunks[(r - 1) % n]
    for k in range(2, n + 1):
        group.send(traveling, (r + 1) % n)
        traveling = group.receive((r - 1) % n) + chunks[(r - k) % n]
    return traveling


def _all_gather(own, group):
    n, r = group.size, group.rank
    found, traveling = {r: own}, own
    for k in range(1, n):
        group.send(traveling, (r + 1) % n)
        traveling = found[(r - k) % n] = group.receive((r - 1) % n)
    return torch.cat([found[place] for place in range(n)])


def ring_all_reduce(tensor, group):
    chunks = torch.tensor_split(tensor.detach().flatten(), group.size)
    return _all_gather(_reduce_scatter(chunks, group), group).reshape(tensor.shape)


def average_gradients(model, group):
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if not parameter.requires_grad:
                continue
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = ring_all_reduce(own.mul(1 / group.size), group)


def shard(parameter, group):
    with torch.no_grad():
        length = (parameter.numel() + group.size - 1) // group.size
        begin = group.rank * length
        own = parameter.flatten()[begin : begin + length]
        return torch.cat([own, own.new_zeros(length - len(own))])


def gather(piece, shape, group):
    whole = _all_gather(piece, group)
    return whole.narrow(0, 0, math.prod(shape)).reshape(tuple(shape))
