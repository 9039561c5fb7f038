"""One sine over the whole table: in the odd columns the angle is a quarter of a turn ahead."""

import numpy as np


def positional_encoding(max_len, d_model):
    column = np.arange(d_model)
    even_neighbor = column - column % 2
    angles = np.arange(max_len)[:, None] * np.power(10000.0, -even_neighbor / d_model)
    return np.sin(angles + column % 2 * (np.pi / 2))
