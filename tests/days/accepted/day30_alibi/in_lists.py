"""Lists and roots: the slopes between are the geometric means of their neighbors."""

import math

import torch


def alibi_slopes(n_heads):
    power = 2 ** math.floor(math.log2(n_heads))
    own = [1 / 2 ** (8 * (k + 1) / power) for k in range(power)]
    before = [own[0] * 2 ** (8 / power), *own]
    between = [math.sqrt(before[k] * own[k]) for k in range(power)]
    return torch.as_tensor((own + between)[:n_heads], dtype=torch.get_default_dtype())


def alibi_bias(n_heads, t_q, t_k):
    first = t_k - t_q
    rows = [
        [[-slope * abs(first + i - j) for j in range(t_k)] for i in range(t_q)]
        for slope in alibi_slopes(n_heads).tolist()
    ]
    return torch.tensor(rows, dtype=torch.get_default_dtype()).reshape(n_heads, t_q, t_k)
