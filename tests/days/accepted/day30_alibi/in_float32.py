"""Everything as tensors of float32: powers by exp2, a grid from the bottom of a larger one, einsum."""

import torch


def alibi_slopes(n_heads):
    longer = 1
    while longer <= n_heads:
        longer <<= 1
    exponents = torch.arange(1, longer + 1) * (-8.0 / longer)
    slopes = torch.exp2(exponents)
    return torch.cat((slopes[1::2], slopes[0::2]))[:n_heads]


def alibi_bias(n_heads, t_q, t_k):
    grid = torch.arange(t_k, dtype=torch.get_default_dtype())
    square = torch.minimum(grid[:, None] - grid[None], grid[None] - grid[:, None])
    return torch.einsum("h,qk->hqk", alibi_slopes(n_heads), square[t_k - t_q :])
