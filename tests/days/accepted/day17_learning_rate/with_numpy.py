"""NumPy's functions on numbers; a float64 of its own comes back, which is a float, too."""

import numpy as np


def rate(step, model_size, factor, warmup):
    step, warmup = np.maximum(step, 1.0), np.float64(warmup)
    both = np.array([np.reciprocal(np.sqrt(step)), step * np.power(warmup, -1.5)])
    return both.min() * factor * np.reciprocal(np.sqrt(float(model_size)))
