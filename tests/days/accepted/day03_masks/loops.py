"""Entry by entry, each mask for itself."""

import numpy as np


def padding_mask(tokens, pad=0):
    batch, time = tokens.shape
    mask = np.zeros((batch, 1, time), dtype=bool)
    for b in range(batch):
        for key in range(time):
            mask[b, 0, key] = tokens[b, key] != pad
    return mask


def subsequent_mask(size):
    return np.array([[[key <= query for key in range(size)] for query in range(size)]])


def target_mask(tokens, pad=0):
    batch, time = tokens.shape
    mask = np.zeros((batch, time, time), dtype=bool)
    for b, query, key in np.ndindex(batch, time, time):
        mask[b, query, key] = key <= query and tokens[b, key] != pad
    return mask
