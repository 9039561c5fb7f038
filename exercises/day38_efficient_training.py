"""Day 38 · Efficient training

Lesson  course lesson 38
Hints   course hint 38
Check   course watch 38    (checks at every save; `course check 38` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
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
    """Shorten the gradient where it is longer than `max_norm`; its direction stays.

        g ← g · min(1, θ / (‖g‖ + 10⁻⁶))

    Args:
        parameters: those whose `.grad` is changed, perhaps from a generator such as
            `model.parameters()`. All their gradients together are g; one that has none (`grad` is None)
            is left out.
        max_norm: θ, the length that g may have; `math.inf` only measures.

    Returns:
        ‖g‖ before clipping, the root of the sum of all squares, a 0-d tensor on the gradients' device:
        in float32, or in float64 where a gradient is in float64. 0 in torch's default dtype where there is
        no gradient at all.

        Each gradient keeps its dtype. Those in float16 and bfloat16 are squared, added up and
        multiplied in float32 at least, and rounded once. A norm that is not finite is no error: the
        same formula applies, so that an infinite one makes finite gradients 0 and infinite ones NaN,
        and one that is NaN makes all of them NaN.

    Raises:
        ValueError: a negative `max_norm`, or one that is NaN.

    Source: Pascanu, Mikolov & Bengio 2013, §3.2, algorithm 1; the 10⁻⁶ and what happens to infinities are
    those of `torch.nn.utils.clip_grad_norm_`.
    """
    # 1. The gradients that there are. Read the parameters once: a generator is empty afterwards.
    # 2. One norm for all of them: the norm of their norms. In float32 at least: a square overflows
    #    float16 from 256 on, and is 0 below 0.0002.
    # 3. The same factor for every gradient, and never more than 1: what is short enough stays. No `if`,
    #    for which a GPU would have to wait.
    raise NotImplementedError


class LossScaler:
    """Multiply the loss, and with it every gradient, so that small ones do not vanish in float16.

    In each step, in this order:

        scaler.scale(loss).backward()       for each batch of the group
        scaler.unscale_(optimizer)          may be left out: `step` then does it
        scaler.step(optimizer)              unless a gradient is infinite or NaN
        scaler.update()                     the scale for the next step

    Args:
        init_scale: S at the start, above 0.
        growth_interval: how many good steps in a row let S double.

    The constructor makes nothing on a GPU, and a scaler serves one optimiser. `torch.amp.GradScaler`
    of the same arguments, with its usual factors 2 and ½, gives the same scales, gradients and steps.

    Raises:
        ValueError: an `init_scale` that is not above 0, or a `growth_interval` below 1.

    Source: Micikevicius et al. 2018, §3.2; the rule by which S changes is `torch.amp.GradScaler`'s.
    """

    def __init__(self, init_scale: float = 2.0**16, growth_interval: int = 2000):
        # 1. The scale, and how many steps in a row have been good. Whether this step's gradients are
        #    unscaled is not known yet, nor whether they are all finite.
        raise NotImplementedError

    def get_scale(self) -> float:
        """S, as it is now."""
        # 1. A number, of which `scale`, `unscale_` and `update` all speak.
        raise NotImplementedError

    def scale(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The loss times S, to be differentiated.

        Args:
            loss: 0-d, of any dtype. It is not changed.

        Returns:
            loss · S, 0-d, in float32, or in float64 where the loss is: 65536 itself is infinite in float16.
        """
        # 1. Widen first, then multiply.
        raise NotImplementedError

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of all the optimiser's parameters by S, and see whether all are finite.

        Call it at most once in a step, when all backward passes are done, and before anything that looks at
        the gradients' size. Parameters without a gradient are passed over. The gradients are divided also
        where some of them are infinite or NaN.

        Raises:
            ValueError: a gradient in float16, in which a small number would be lost after all: parameters
                are kept in float32 (the paper's master weights), and only what is computed with them is
                in float16. Or no gradient at all.
            RuntimeError: it was called already in this step.
        """
        # 1. The gradients of every parameter of every group.
        # 2. Divide each of them, and note whether all are finite: on their device, without waiting.
        raise NotImplementedError

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimiser step with unscaled gradients, but not if one of them is infinite or NaN.

        The gradients are unscaled first, where `unscale_` was not called in this step. A step is judged by
        what `unscale_` has seen: what is done to the gradients between the two does not count. A
        skipped step leaves parameters and optimiser as they are.
        """
        # 1. Unscale, if nobody has. Then step, or not.
        raise NotImplementedError

    def update(self) -> None:
        """End the step: S for the next one.

        After a step that was skipped S is halved. After `growth_interval` good steps in a row, counted from
        the last change of S, it is doubled.

        Raises:
            RuntimeError: neither `unscale_` nor `step` was called since the last `update`.
        """
        # 1. Half after a bad step, and count from 0 again.
        # 2. Count a good step. Enough of them: double, and count from 0 again.
        # 3. The next step's gradients are not unscaled yet.
        raise NotImplementedError


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """Call `function(*inputs)`, keep only the inputs, and compute the rest again for the backward pass.

    Args:
        function: gives a tensor, or a tuple of tensors. Called once now, and once more in each backward
            pass, it must do the same both times, and not change its inputs: most often a module, such as
            a block.
        inputs: passed on by position as they are: tensors, with or without a gradient of their own, and
            anything else (None, numbers, words). Gradients reach the tensors among them, not those inside a
            list or a dict.

    Returns:
        What `function(*inputs)` returns. After `backward()` inputs, and all parameters that the function
        uses, have the gradients that they would have without checkpoint, also where no input asks for one,
        or some outputs have no part in the loss.

        Until the backward pass nothing is kept for it that the function computed. What the function draws
        at random, as dropout does, it draws again: for the second call the random state of the CPU, and
        of each CUDA device that an input lies on, is set back to what it was before the first; afterwards
        it is what it was before the second. The second call has the autocast of the first, on the CPU and on
        CUDA, wherever `backward` is called. Where gradients are disabled (`torch.no_grad`) the function is
        simply called.

        Only `backward()` need work: neither `torch.autograd.grad` nor a second derivative is asked of an
        answer.

    Source: Chen et al. 2016, §4; it does what `torch.utils.checkpoint.checkpoint` does.
    """
    # 1. Note what the result depends on beside the inputs: the random states, and autocast. (Where
    #    gradients are disabled that is all: autograd keeps nothing, and there is no second call.)
    # 2. The second call. Put back what was noted, for as long as it lasts; gradients are on, which they
    #    are not in a backward pass. Collect, in their order, the tensors that autograd wants to keep.
    # 3. The first call: for each tensor that autograd wants to keep it gets a number instead. When the
    #    backward pass hands one in, the tensor is that of this number in the second call: the first
    #    number causes it, and each tensor is let go of once it was asked for. (What is kept, and what is
    #    handed out, `torch.autograd.graph.saved_tensors_hooks` lets one say. A `torch.autograd.Function`
    #    is another way to write all this.)
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
    """One step of the optimiser for a group of batches, in mixed precision, scaled and clipped.

    Args:
        model: from a batch's inputs to logits, `(…, V)`. Its mode is the caller's business.
        batches: the group: pairs of inputs and targets, perhaps from a generator. Inputs are what the
            model takes, most often tokens `(B, T)`; targets are ids `(…)` on the same device, int64, one for
            each row of logits, −100 where nothing is to be predicted.
        loss: from logits `(N, V)` and targets `(N,)` to their *summed* loss, 0-d, to which targets of −100
            add nothing: `functools.partial(F.cross_entropy, reduction="sum")`. It gets logits in float32 (or
            in float64, where they come in float64), and is computed outside autocast.
        optimizer: holds all parameters of the model. Gradients from before the call have no part in the
            step, and none are left behind.
        scaler: used by its methods `scale`, `unscale_`, `step` and `update` alone, so that a
            `torch.amp.GradScaler` would do as well.
        max_norm: θ, what the gradient is clipped to: the whole group's, unscaled.
        dtype: what the model's forward pass is autocast to, on the device of its inputs: `torch.float16` or
            `torch.bfloat16`. None: no autocast, the parameters' own dtype.

    Returns:
        Two floats. First the mean loss: the group's summed loss over the group's targets other than −100,
        neither scaled nor clipped. Its gradient is the step's: k batches accumulated give the step that one
        batch of all their rows would. Second ‖g‖, the norm of that gradient before clipping. A step whose
        gradients are not all finite is skipped, and the scaler told, as in every step; the norm is then
        infinite or NaN.

    Raises:
        ValueError: no batch, or no target but −100 in all of them.

    Source: Micikevicius et al. 2018, §3; the order of unscaling and clipping is torch.amp's.
    """
    # 1. The group, and how many targets it has: to be known before the first backward pass.
    # 2. Forward, perhaps in half precision.
    # 3. The summed loss, in float32 at least: exponentials and long sums are not for halves.
    # 4. Backward: each batch adds its part of the group's mean loss, scaled.
    # 5. Unscale, then clip: `max_norm` is meant for the true gradient.
    # 6. Step, or skip it. Then the scale for the next one, and no gradient left behind.
    raise NotImplementedError
