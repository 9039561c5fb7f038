"""A loop over chunks that carries S and Z along, apart from each other; the mask entry by entry."""

import torch


def features(x):
    return torch.where(x < 0, torch.exp(torch.minimum(x, torch.zeros_like(x))), 1 + x)


def mean(numerator, denominator):
    """Without weights there is nothing to take a mean of."""
    nothing = denominator == 0
    return torch.where(nothing, 0.0, numerator / torch.where(nothing, 1.0, denominator))


def linear_attention(query, key, value, causal=False):
    if value.dtype in (torch.float16, torch.bfloat16):
        wide = linear_attention(query.float(), key.float(), value.float(), causal)
        return wide.to(value.dtype)
    query, key = features(query), features(key)
    if not causal:
        total = key.sum(dim=-2).unsqueeze(-1)  # (…, d_k, 1)
        return mean(query @ (key.mT @ value), query @ total)
    s = key.new_zeros(*key.shape[:-2], key.size(-1), value.size(-1))
    z = key.new_zeros(*key.shape[:-2], key.size(-1), 1)
    outputs = [value[..., :0, :]]
    for start in range(0, key.size(-2), 50):
        q, k, v = (x[..., start : start + 50, :] for x in (query, key, value))
        weights = torch.tril(q @ k.mT)
        above = weights @ v + q @ s
        below = weights.sum(dim=-1, keepdim=True) + q @ z
        outputs.append(mean(above, below))
        s = s + k.mT @ v
        z = z + k.sum(dim=-2).unsqueeze(-1)
    return torch.cat(outputs, dim=-2)


def sliding_window_mask(size, window, global_tokens=0):
    rows = [
        [max(i, j) - min(i, j) <= window or min(i, j) < global_tokens for j in range(size)]
        for i in range(size)
    ]
    return torch.tensor(rows, dtype=torch.bool).view(1, size, size)
