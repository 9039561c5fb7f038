"""Efficient training: gradient clipping, loss scaling for float16, activation checkpointing.

The model stays as it is. A gradient that is too long is scaled down, a loss is scaled up so that its
gradients can be represented in float16, and activations are recomputed in the backward pass instead of
stored. `train_step` combines the three with the gradient accumulation of day 18.

Papers: Pascanu, Mikolov & Bengio 2013, *On the Difficulty of Training Recurrent Neural Networks*
(clipping); Micikevicius et al. 2018, *Mixed Precision Training* (loss scaling); Chen et al. 2016,
*Training Deep Nets with Sublinear Memory Cost* (checkpointing).

From symbols to names
    B, T            batch, time
    V               vocab, tokens in the vocabulary
    g               all gradients, as one vector
    ‖g‖             norm
    θ               max_norm
    S               the scale of the loss, `LossScaler.get_scale()`
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

# --- Day 38 · Efficient training ------------------------------------------------------------------


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Float[Tensor, ""]:
    """Scale all gradients down by one factor if their joint norm exceeds `max_norm`; return that norm.

        g ← g · min(1, θ / (‖g‖ + 10⁻⁶))

    Raises:
        ValueError: `max_norm` is negative or NaN.

    Source: Pascanu, Mikolov & Bengio 2013, §3.2, algorithm 1; the 10⁻⁶ is that of
    `torch.nn.utils.clip_grad_norm_`.
    """
    if not max_norm >= 0:
        raise ValueError(f"max_norm must be at least 0, got {max_norm}")
    # 1. Collect the gradients that exist. Read the parameters once: a generator is empty afterwards.
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    # 2. Compute one norm for all of them, the norm of their norms, in float32 at least: in float16 the
    #    square of 256 overflows, and that of 0.0001 is 0.
    widest = functools.reduce(
        torch.promote_types, (gradient.dtype for gradient in gradients), torch.float32
    )
    lengths = [torch.linalg.vector_norm(gradient, dtype=widest) for gradient in gradients]
    norm = torch.linalg.vector_norm(torch.stack(lengths))  # ()
    # 3. Multiply every gradient by the same factor, at most 1. An `if` would make the CPU wait for the
    #    GPU.
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # ()
    for gradient in gradients:
        gradient.copy_(gradient.to(widest) * factor)
    return norm


class LossScaler:
    """Multiply the loss, and so every gradient, by S, so that float16 can represent small gradients.

    In each step, in this order:

        scaler.scale(loss).backward()       for each batch of the group
        scaler.unscale_(optimizer)          optional: otherwise `step` calls it
        scaler.step(optimizer)              unless a gradient is infinite or NaN
        scaler.update()                     the scale for the next step

    Raises:
        ValueError: `init_scale` is not positive and finite, or `growth_interval` is below 1.

    Source: Micikevicius et al. 2018, §3.2; the rule by which S changes is `torch.amp.GradScaler`'s.
    """

    def __init__(self, init_scale: float = 2.0**16, growth_interval: int = 2000):
        if not 0 < init_scale < math.inf:
            raise ValueError(f"init_scale must be positive and finite, got {init_scale}")
        if growth_interval < 1:
            raise ValueError(f"growth_interval must be at least 1, got {growth_interval}")
        # 1. Store the scale and the number of good steps in a row. Whether this step's gradients are all
        #    finite is not known before they are unscaled.
        self.current = float(init_scale)
        self.growth_interval = growth_interval
        self.good_steps = 0
        self.finite: Tensor | None = None

    def get_scale(self) -> float:
        """Return S."""
        # 1. Return the number that `scale`, `unscale_` and `update` use.
        return self.current

    def scale(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return loss · S, which can be differentiated."""
        # 1. Upcast first: float16 cannot represent 65536. Then multiply.
        return loss.to(torch.promote_types(loss.dtype, torch.float32)) * self.current

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of all the optimizer's parameters by S, and note whether all are finite.

        Raises:
            ValueError: a gradient is in float16, where the quotient may vanish, or there is no gradient.
            RuntimeError: a second call in one step.
        """
        if self.finite is not None:
            raise RuntimeError(
                "unscale_() must be called at most once before update(), got a second call"
            )
        # 1. Collect the gradients of every parameter of every group.
        parameters = (
            parameter for group in optimizer.param_groups for parameter in group["params"]
        )
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            raise ValueError("optimizer must have a parameter with a gradient, got none")
        if any(gradient.dtype == torch.float16 for gradient in gradients):
            raise ValueError("gradients must be float32, float64 or bfloat16, got float16")
        # 2. Divide each in place, and note whether all are finite, on their device and without a sync.
        for gradient in gradients:
            gradient.div_(self.current)
        self.finite = torch.stack([gradient.isfinite().all() for gradient in gradients]).all()  # ()

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimizer step, unless `unscale_` found an infinite or NaN gradient."""
        # 1. Unscale if this has not been done. Step only if all gradients were finite.
        if self.finite is None:
            self.unscale_(optimizer)
        if self.finite:
            optimizer.step()

    def update(self) -> None:
        """End the step: halve S if it was skipped, double S after `growth_interval` good steps in a row.

        Raises:
            RuntimeError: neither `unscale_` nor `step` was called since the last `update`.
        """
        if self.finite is None:
            raise RuntimeError(
                "update() must come after step(), got no step since the last update()"
            )
        # 1. After a skipped step halve the scale, and count from 0 again.
        if not self.finite:
            self.current /= 2
            self.good_steps = 0
        # 2. Count a good step. After enough of them double the scale, and count from 0 again.
        else:
            self.good_steps += 1
            if self.good_steps == self.growth_interval:
                self.current *= 2
                self.good_steps = 0
        # 3. The next step's gradients are not unscaled yet.
        self.finite = None


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """Call `function(*inputs)`, store only the inputs, and recompute the rest in the backward pass.

    The result and all gradients are those of a plain call. The second call sees the random state and the
    autocast of the first, so dropout drops the same features.

    Raises:
        ValueError: an input on a device other than the CPU and CUDA, whose random state is not restored.

    Source: Chen et al. 2016, §4; `torch.utils.checkpoint.checkpoint` does the same.
    """
    # 1. Note what the result depends on besides the inputs: the random states and autocast.
    tensors = [tensor for tensor in inputs if isinstance(tensor, Tensor)]
    if any(tensor.is_mps for tensor in tensors):
        raise ValueError("inputs must be on the CPU or on CUDA, got a tensor on mps")
    gpus = {tensor.device for tensor in tensors if tensor.is_cuda}
    drawn_on_cpu = torch.get_rng_state()
    drawn_on = {gpu: torch.cuda.get_rng_state(gpu) for gpu in gpus}
    casts = [
        torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        for kind in ("cpu", "cuda")
    ]
    # 2. Write the second call: restore the noted state for its duration, and enable gradients, which are
    #    off in a backward pass. Collect the tensors that autograd wants to save, in order.
    saved: dict[int, Tensor] = {}

    def call_again() -> None:
        def collect(tensor: Tensor) -> None:
            saved[len(saved)] = tensor.detach()

        saved.clear()
        with torch.random.fork_rng(list(gpus)), casts[0], casts[1], torch.enable_grad():
            torch.set_rng_state(drawn_on_cpu)
            for gpu, state in drawn_on.items():
                torch.cuda.set_rng_state(state, gpu)
            with torch.autograd.graph.saved_tensors_hooks(collect, lambda nothing: nothing):
                function(*inputs)

    # 3. Make the first call: hand autograd a number in place of each tensor that it wants to save. When
    #    the backward pass asks for number i, return the i-th tensor of the second call, which the first
    #    request triggers, and drop it. `torch.autograd.graph.saved_tensors_hooks` sets what is saved and
    #    what is returned; a `torch.autograd.Function` works as well.
    numbers = itertools.count()

    def tensor_of(number: int) -> Tensor:
        if number not in saved:
            call_again()
        return saved.pop(number)

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: next(numbers), tensor_of):
        return function(*inputs)


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

    Raises:
        ValueError: there is no batch, or no target other than −100.

    Source: Micikevicius et al. 2018, §3; the order of unscaling and clipping is that of `torch.amp`.
    """
    # 1. Count the targets of the group, which the first backward pass needs already.
    group = list(batches)
    count = sum(int((targets != -100).sum()) for _, targets in group)
    if count == 0:
        raise ValueError("batches must have a target other than -100, got none")
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in group:
        # 2. Forward pass, in half precision if asked for.
        with torch.autocast(inputs.device.type, dtype, enabled=dtype is not None):
            logits = model(inputs)  # (…, V)
        # 3. Compute the summed loss, in float32 at least: exponentials and long sums need the precision.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        summed = loss(logits.flatten(0, -2), targets.flatten())  # ()
        # 4. Backward pass: each batch adds the gradient of its part of the group's mean loss, scaled.
        scaler.scale(summed / count).backward()
        total += summed.item()
    # 5. Unscale, then clip: `max_norm` applies to the true gradient.
    scaler.unscale_(optimizer)
    parameters = (parameter for each in optimizer.param_groups for parameter in each["params"])
    norm = clip_gradients(parameters, max_norm)
    # 6. Step or skip, update the scale, and clear the gradients.
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return total / count, norm.item()


class Checkpointed(nn.Module):
    """Wrap a module, such as a block, so that it stores only its inputs for the backward pass."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Any:
        """Return what the module returns."""
        return checkpoint(self.module, *inputs)
