"""The largest score and the sum in a single pass: the sum is rescaled whenever a larger score comes."""

import numpy as np


def largest_and_sum(x, axis):
    scores = np.moveaxis(x, axis, 0)
    largest, total = scores[0].copy(), np.ones_like(scores[0])
    for score in scores[1:]:
        new = np.maximum(largest, score)
        total = total * np.exp(largest - new) + np.exp(score - new)
        largest = new
    return np.expand_dims(largest, axis), np.expand_dims(total, axis)


def softmax(x, axis=-1):
    largest, total = largest_and_sum(x, axis)
    return np.exp(x - largest) / total


def log_softmax(x, axis=-1):
    largest, total = largest_and_sum(x, axis)
    return x - (largest + np.log(total))
