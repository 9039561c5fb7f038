"""The height of the peak, times how far from it we are."""


def rate(step, model_size, factor, warmup):
    progress = (step or 1) / warmup
    peak = factor / (model_size * warmup) ** 0.5
    return peak * min(progress, progress**-0.5)
