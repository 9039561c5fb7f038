"""Ones and zeros, multiplied, and made boolean last."""

import numpy as np


def padding_mask(tokens, pad=0):
    return np.sign(np.abs(tokens.astype(int) - pad))[:, None].astype(bool)


def subsequent_mask(size):
    return np.cumsum(np.eye(size, dtype=int), axis=1).T.reshape(1, size, size) > 0


def target_mask(tokens, pad=0):
    return (
        np.einsum("bk,qk->bqk", (tokens != pad).astype(int), np.tri(tokens.shape[1], dtype=int))
        == 1
    )
