"""Frequencies as exp(−ln 10000 · 2i / d_model); pairs stacked, laid flat, and cut to an odd width."""

import math

import numpy as np


def positional_encoding(max_len, d_model):
    pairs = (d_model + 1) // 2
    frequency = np.exp(-math.log(10000.0) * 2 * np.arange(pairs) / d_model)
    angles = np.outer(np.arange(max_len, dtype=np.float64), frequency)
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # (max_len, pairs, 2)
    return both.reshape(max_len, 2 * pairs)[:, :d_model]
