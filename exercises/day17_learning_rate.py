"""Day 17 · Learning rate

Lesson  course lesson 17
Hints   course hint 17     (one more each time; the first gives the steps of one way)
Check   course watch 17    (checks at every save; `course check 17` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""


def rate(step: int, model_size: int, factor: float, warmup: int) -> float:
    """Compute the learning rate of an optimizer step: linear warm-up, then decay like 1/√step.

        lrate ∝ step        up to the warm-up's end
        lrate ∝ 1/√step     from there on

    - `step` counts optimizer steps from 1; treat 0 as 1. PyTorch's `LambdaLR` counts from 0, so pass it
      a function that returns `rate(step + 1, …)`.
    - `model_size` is d_model. `factor` is 1 in the paper.
    - `warmup` is the step at which the learning rate is highest, 4000 in the paper. At this step, the
      learning rate is factor / √(model_size · warmup).

    Raises:
        ValueError: a warm-up of less than one step, a negative step, or a `model_size` below 1.

    Source: Vaswani et al. 2017, §5.3, eq. 3.
    """
    raise NotImplementedError
