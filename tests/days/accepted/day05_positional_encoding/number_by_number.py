"""One number at a time with the math module, column by column."""

import math

import numpy as np


def positional_encoding(max_len, d_model):
    table = np.zeros((max_len, d_model))
    for column in range(d_model):
        pair, is_cosine = divmod(column, 2)
        wave = math.cos if is_cosine else math.sin
        wavelength = math.pow(10000.0, 2 * pair / d_model)
        for position in range(max_len):
            table[position, column] = wave(position / wavelength)
    return table
