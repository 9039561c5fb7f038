"""Every row is the row before it, turned by the angle of one step: a running product of unit numbers."""

import numpy as np


def positional_encoding(max_len, d_model):
    step = np.array([10000 ** (-column / d_model) for column in range(0, d_model, 2)])
    turns = np.ones((max_len, len(step)), dtype=complex)
    turns[1:] = np.exp(1j * step)
    hands = np.cumprod(turns, axis=0)  # (max_len, pairs): exp(iθ) = cos θ + i sin θ
    return np.dstack([hands.imag, hands.real]).reshape(max_len, -1)[:, :d_model]
