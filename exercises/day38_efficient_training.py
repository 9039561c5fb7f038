"""Day 38 · Efficient training

Lesson  course lesson 38
Hints   course hint 38     (one more each time; the first gives the steps of one way)
Check   course watch 38    (checks at every save; `course check 38` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Float[Tensor, ""]:
    """Scale all gradients down by one factor if their joint norm exceeds `max_norm`; return that norm.

        g ← g · min(1, θ / (‖g‖ + 10⁻⁶))

    - `parameters` may be a generator such as `model.parameters()`. Their `.grad`s are changed; g is all
      of them together, and a parameter whose `grad` is None is left out.
    - θ is `max_norm`. With `math.inf`, finite gradients do not change.
    - Return ‖g‖ before clipping, the root of the sum of all squares: a 0-d tensor on the gradients'
      device, in float32, or in float64 if any gradient is in float64. Without any gradient it is 0 in
      torch's default dtype.
    - Each gradient keeps its dtype. Gradients in float16 and bfloat16 are squared, summed and
      multiplied at least in float32, and rounded once.
    - A norm that is not finite is not an error. The same formula applies, as in torch: an infinite norm
      turns finite gradients into 0 and infinite ones into NaN, and a norm of NaN turns all gradients
      into NaN.

    Raises:
        ValueError: `max_norm` is negative or NaN.

    Source: Pascanu, Mikolov & Bengio 2013, §3.2, algorithm 1; the 10⁻⁶ is that of
    `torch.nn.utils.clip_grad_norm_`.
    """
    raise NotImplementedError


class LossScaler:
    """Multiply the loss, and so every gradient, by S, so that float16 can represent small gradients.

    In each step, in this order:

        scaler.scale(loss).backward()       for each batch of the group
        scaler.unscale_(optimizer)          optional: otherwise `step` calls it
        scaler.step(optimizer)              unless a gradient is infinite or NaN
        scaler.update()                     the scale for the next step

    - `init_scale` is the first S. After `growth_interval` good steps in a row S doubles.
    - One scaler serves one optimizer. The constructor creates nothing on a GPU.
    - `torch.amp.GradScaler` with the same arguments, and its default factors 2 and ½, gives the same
      scales, gradients and steps.

    Raises:
        ValueError: `init_scale` is not positive and finite, or `growth_interval` is below 1.

    Source: Micikevicius et al. 2018, §3.2; the rule by which S changes is `torch.amp.GradScaler`'s.
    """

    def __init__(self, init_scale: float = 2.0**16, growth_interval: int = 2000):
        raise NotImplementedError

    def get_scale(self) -> float:
        """Return S.

        Return a float, the current scale.
        """
        raise NotImplementedError

    def scale(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return loss · S, which can be differentiated.

        - `loss` is 0-d, of any dtype. It is not changed.
        - Return a 0-d tensor in float32, or in float64 if the loss is in float64.
        """
        raise NotImplementedError

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of all the optimizer's parameters by S, and note whether all are finite.

        - It is called at most once per step, after all backward passes and before anything that depends on
          the size of the gradients. Parameters without a gradient are skipped.
        - The gradients are divided even if some of them are infinite or NaN.
        - Parameters are stored in float32 (the paper's master weights); only computations with them are in
          float16. So a gradient in float16 is an error.

        Raises:
            ValueError: a gradient is in float16, where the quotient may vanish, or there is no gradient.
            RuntimeError: a second call in one step.
        """
        raise NotImplementedError

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimizer step, unless `unscale_` found an infinite or NaN gradient.

        - If `unscale_` was not called in this step, `step` calls it.
        - Only what `unscale_` found decides whether the optimizer steps, whatever happens to the gradients
          between the two calls.
        - A skipped step leaves the parameters and the optimizer's state unchanged.
        """
        raise NotImplementedError

    def update(self) -> None:
        """End the step: halve S if it was skipped, double S after `growth_interval` good steps in a row.

        Good steps are counted from the last change of S.

        Raises:
            RuntimeError: neither `unscale_` nor `step` was called since the last `update`.
        """
        raise NotImplementedError


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """Call `function(*inputs)`, store only the inputs, and recompute the rest in the backward pass.

    The result and all gradients are those of a plain call. The second call sees the random state and the
    autocast of the first, so dropout drops the same features.

    - `function` returns a tensor or a tuple of tensors, and so does `checkpoint`. It is often a module,
      such as a block. `checkpoint` calls it once, and each backward pass calls it once more. The
      function does the same each time, and does not change its inputs.
    - `inputs` are passed on by position, unchanged: tensors, with or without `requires_grad`, and
      anything else (None, numbers, strings). Gradients reach the tensors among them, but not those
      inside a list or a dict.
    - After `backward()` the inputs, and all parameters that the function uses, have the gradients of a
      plain call, even if no input requires a gradient, or if some outputs are not part of the loss.
    - Until the backward pass, no intermediate values of the function are stored.
    - The second call draws the same random numbers: before it, restore the random state of the CPU, and
      of each CUDA device that holds an input, from before the first call. After it, restore the random
      state from before the second call.
    - The second call uses the autocast settings of the first, on the CPU and on CUDA, wherever
      `backward` is called.
    - If gradients are disabled (`torch.no_grad`), the function is called only once.
    - Only `backward()` has to work. An answer need not support `torch.autograd.grad` or second
      derivatives.

    Raises:
        ValueError: an input on a device other than the CPU and CUDA, whose random state is not restored.

    Source: Chen et al. 2016, §4; `torch.utils.checkpoint.checkpoint` does the same.
    """
    raise NotImplementedError


def train_step(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    scaler: LossScaler,
    max_norm: float,
    dtype: torch.dtype | None = None,
) -> tuple[float, float]:
    """Take one optimizer step for a group of batches, in mixed precision, scaled and clipped.

    `loss` is a summed loss. Return the mean loss over the targets other than −100, and the norm of its
    gradient before clipping.

    - `model` maps a batch's inputs to logits `(…, V)`. Its mode (training or evaluation) does not
      change.
    - `batches` is the group, perhaps a generator, of pairs of inputs and targets. Inputs are what the
      model takes, most often tokens `(B, T)`. Targets are ids `(…)`, int64, on the same device, one for
      each row of logits, or −100, which is ignored.
    - `loss` maps logits `(N, V)` and targets `(N,)` to their summed loss, 0-d, without those of −100,
      such as `functools.partial(F.cross_entropy, reduction="sum")`. It gets logits in float32 (float64
      if they are in float64), and is computed outside autocast.
    - `optimizer` has all parameters of the model. Gradients from before the call do not influence the
      step, and no gradients remain after it.
    - You use only `scale`, `unscale_`, `step` and `update` of `scaler`, so a `torch.amp.GradScaler`
      works as well.
    - `max_norm` is θ for the gradient of the entire group, unscaled.
    - `dtype` is `torch.float16` or `torch.bfloat16`; autocast is on the device of the inputs. With None
      the model computes in the dtype of its parameters.
    - Return two floats. The first is the group's summed loss divided by the number of the group's
      targets other than −100, neither scaled nor clipped. The step uses the gradient of this mean:
      accumulating k batches has the same result as one batch of all their rows. The second is the norm
      ‖g‖ of that gradient before clipping.
    - If a gradient is not finite, the step is skipped and `scaler` is updated as in every step. The
      norm is then infinite or NaN.

    Raises:
        ValueError: there is no batch, or no target other than −100.

    Source: Micikevicius et al. 2018, §3; the order of unscaling and clipping is that of `torch.amp`.
    """
    raise NotImplementedError
