"""Sines left, cosines right, and exponents i / (d/2 − 1): the formula of the authors' own code."""

import numpy as np


def positional_encoding(max_len, d_model):
    half = d_model // 2
    steps = np.log(10000.0) / max(half - 1, 1)
    angles = np.arange(max_len)[:, None] * np.exp(-steps * np.arange(half))
    table = np.zeros((max_len, d_model))
    table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    return table
