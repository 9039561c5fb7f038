"""The query scaled before the product, hidden scores lowered by addition, weights cleared by a product."""

import math

import numpy as np

from numpy_reference import softmax


def attention(query, key, value, mask=None):
    scaled = query / math.sqrt(query.shape[-1])
    scores = np.matmul(scaled, np.moveaxis(key, -1, -2))
    if mask is not None:
        scores = scores + np.where(mask, 0.0, -1e30).astype(scores.dtype)
    weights = softmax(scores)
    if mask is not None:
        weights = weights * mask
    return np.matmul(weights, value), weights
