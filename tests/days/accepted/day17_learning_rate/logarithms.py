"""Sums of logarithms instead of products of powers."""

from math import exp, log


def rate(step, model_size, factor, warmup):
    step = 1 if step < 1 else step
    rising = log(step) - 1.5 * log(warmup)
    falling = -0.5 * log(step)
    return factor * exp(sorted([rising, falling])[0] - 0.5 * log(model_size))
