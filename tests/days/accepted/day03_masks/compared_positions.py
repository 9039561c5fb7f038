"""Positions compared by broadcasting; the target mask starts from the triangle and clears columns."""

import numpy as np


def padding_mask(tokens, pad=0):
    return np.expand_dims(np.logical_not(np.equal(tokens, pad)), axis=1)


def subsequent_mask(size):
    position = np.arange(size)
    return (position[None, None, :] <= position[None, :, None]).astype(np.bool_)


def target_mask(tokens, pad=0):
    batch, time = tokens.shape
    mask = np.broadcast_to(subsequent_mask(time), (batch, time, time)).copy()
    sequence, key = np.nonzero(tokens == pad)
    mask[sequence, :, key] = False
    return mask
