"""Points on the unit circle, exp(iθ) = cos θ + i sin θ, read off as sine and cosine."""

import numpy as np


def positional_encoding(max_len, d_model):
    pairs = -(-d_model // 2)
    turning = 1j / np.float_power(10000, np.linspace(0, 2 * (pairs - 1), pairs) / d_model)
    circle = np.exp(np.arange(max_len)[:, None] * turning)
    table = np.empty((max_len, 2 * pairs))
    table[:, ::2], table[:, 1::2] = circle.imag, circle.real
    return np.delete(table, -1, axis=1) if d_model % 2 else table
