"""Day 17 · Learning rate

Lesson  course lesson 17
Hints   course hint 17
Check   course watch 17    (checks at every save; `course check 17` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""


def rate(step: int, model_size: int, factor: float, warmup: int) -> float:
    """The learning rate of an optimiser step: up in a straight line, then down like 1/√step.

        lrate = factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5)

    Args:
        step: optimiser steps, counted from 1; 0 is taken as 1. torch's `LambdaLR` counts from 0, so
            it is given `rate(step + 1, …)`.
        model_size: d_model.
        factor: 1 in the paper.
        warmup: the step at which the rate is highest; 4000 in the paper.

    Returns:
        The rate, highest at `step = warmup`, where it is factor / √(model_size · warmup).

    Raises:
        ValueError: a warm-up of less than one step, a negative step, or a model without a size.

    Source: Vaswani et al. 2017, §5.3, eq. 3.
    """
    # 1. Schedulers ask for the rate before the first step too.
    # 2. The smaller of the two curves, which meet at the warm-up.
    raise NotImplementedError
