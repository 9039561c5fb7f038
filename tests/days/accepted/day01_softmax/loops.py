"""One row at a time in plain Python floats, with the axis moved to the end and back."""

import math

import numpy as np


def along_rows(function, x, axis):
    moved = np.moveaxis(x, axis, -1)
    result = np.empty(moved.shape, dtype=x.dtype)
    for place in np.ndindex(moved.shape[:-1]):
        result[place] = function([float(score) for score in moved[place]])
    return np.moveaxis(result, -1, axis)


def weights_of_row(row):
    largest = max(row)
    total = math.fsum(math.exp(score - largest) for score in row)
    return [math.exp(score - largest) / total for score in row]


def log_weights_of_row(row):
    largest = max(row)
    log_total = math.log(math.fsum(math.exp(score - largest) for score in row))
    return [score - (largest + log_total) for score in row]


def softmax(x, axis=-1):
    return along_rows(weights_of_row, x, axis)


def log_softmax(x, axis=-1):
    return along_rows(log_weights_of_row, x, axis)
