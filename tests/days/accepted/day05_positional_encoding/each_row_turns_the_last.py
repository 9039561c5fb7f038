"""Sine and cosine by recurrence: every row is the row before it, turned by the angle of one step."""

import numpy as np


def positional_encoding(max_len, d_model):
    step = np.array([10000 ** (-column / d_model) for column in range(0, d_model, 2)])
    sine, cosine = np.sin(step), np.cos(step)
    rows = [(np.zeros(len(step)), np.ones(len(step)))]
    for _ in range(max_len - 1):
        s, c = rows[-1]
        rows.append((s * cosine + c * sine, c * cosine - s * sine))
    return np.array(rows).transpose(0, 2, 1).reshape(max_len, -1)[:, :d_model]
