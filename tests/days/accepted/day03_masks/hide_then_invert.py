"""What is hidden first, as many libraries have it, and everything turned round at the end."""

import numpy as np


def hidden_padding(tokens, pad):
    return np.isin(tokens, [pad]).reshape(tokens.shape[0], 1, -1)


def hidden_future(size):
    return np.triu(np.full((size, size), True), k=1)[np.newaxis, ...]


def padding_mask(tokens, pad=0):
    return ~hidden_padding(tokens, pad)


def subsequent_mask(size):
    return ~hidden_future(size)


def target_mask(tokens, pad=0):
    return ~(hidden_padding(tokens, pad) | hidden_future(tokens.shape[-1]))
