"""Slopes by halving the problem, each the one before times a ratio; the bias by rolling a single row."""

import torch


def of_power(n):
    ratio = 0.5 ** (8 / n)
    slopes = [ratio]
    while len(slopes) < n:
        slopes.append(slopes[-1] * ratio)
    return slopes


def all_slopes(n):
    below = 1
    while 2 * below <= n:
        below *= 2
    if below == n:
        return of_power(n)
    return of_power(below) + all_slopes(2 * below)[::2][: n - below]


def alibi_slopes(n_heads):
    return torch.tensor(all_slopes(n_heads))


def alibi_bias(n_heads, t_q, t_k):
    slopes = alibi_slopes(n_heads)
    bias = slopes.new_zeros(n_heads, t_q, t_k)
    for i in range(t_q):
        here = t_k - t_q + i
        apart = [here - j if j < here else j - here for j in range(t_k)]
        bias[:, i] -= torch.outer(slopes, slopes.new_tensor(apart))
    return bias
