"""NumPy in float64, rounded at the very end."""

import numpy as np
import torch


def slopes_of(n_heads):
    power = 1 << int(np.floor(np.log2(n_heads)))
    ladder = np.logspace(-8 / (2 * power), -8, 2 * power, base=2)
    return np.concatenate([ladder[1::2], ladder[::2]])[:n_heads]


def alibi_slopes(n_heads):
    return torch.from_numpy(slopes_of(n_heads)).to(torch.get_default_dtype())


def alibi_bias(n_heads, t_q, t_k):
    i = np.arange(t_k - t_q, t_k).reshape(1, t_q, 1)
    j = np.arange(t_k).reshape(1, 1, t_k)
    m = slopes_of(n_heads).reshape(n_heads, 1, 1)
    return torch.from_numpy(-m * np.abs(i - j)).to(torch.get_default_dtype())
