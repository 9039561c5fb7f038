"""Two cases, each with its own formula."""

import math


def rate(step, model_size, factor, warmup):
    if step == 0:
        step = 1
    if step >= warmup:
        return factor / math.sqrt(model_size * step)
    return factor / math.sqrt(model_size) * step / (warmup * math.sqrt(warmup))
