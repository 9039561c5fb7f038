"""Tensors in float64."""

import torch


def rate(step, model_size, factor, warmup):
    step, size, warmup = (
        torch.tensor(number, dtype=torch.float64) for number in (step, model_size, warmup)
    )
    step = step.clamp(min=1)
    return (factor * size.rsqrt() * torch.minimum(step.rsqrt(), step / warmup**1.5)).item()
