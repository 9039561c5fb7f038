"""The paper's Adam and learning rate (Vaswani et al. 2017, §5.3), and Muon for the matrices of layers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import implementation
from training.loop.distributed import autocast_dtype, copy_into, full_tensor, gradient_norm
from training.settings import Settings
from variants.optimizers import Muon

IN_A_LAYER = re.compile(r"\b(layers|blocks)\.\d")
MOMENTS = {True: ("momentum_buffer",), False: ("exp_avg", "exp_avg_sq")}
"""What an optimizer stores of a parameter, by whether it is Muon's."""


class RunOptimizer:
    """Take the optimizer steps of a run, and update the weights' exponential moving average (EMA).

    Args:
        parameters: by name.
    """

    def __init__(
        self, parameters: dict[str, nn.Parameter], settings: Settings, device: torch.device
    ):
        self.parameters, self.settings, self.device = parameters, settings, device
        # lr is set before every step. Fused: on the CPU the unfused loop takes longer than a small model.
        # Weight decay is for matrices, embeddings included, and not for biases and norms, as in nanoGPT.
        decay = {True: settings.weight_decay, False: 0.0}
        # Muon is for the matrices of layers; Adam trains embeddings, output layers, biases and norms.
        muons = settings.optimizer == "muon"
        self.hidden = {
            name
            for name, matrix in parameters.items()
            if muons and matrix.ndim == 2 and IN_A_LAYER.search(name)
        }
        rest = [parameter for name, parameter in parameters.items() if name not in self.hidden]
        groups = [
            {"params": some, "weight_decay": decay[matrices]}
            for matrices in decay
            if (some := [parameter for parameter in rest if (parameter.ndim > 1) == matrices])
        ]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(groups, lr=0.0, betas=(0.9, settings.beta2), eps=1e-9, fused=True)
        ]
        if self.hidden:
            matrices = [parameters[name] for name in self.hidden]
            self.optimizers.append(Muon(matrices, lr=0.0, weight_decay=settings.weight_decay))
        half = autocast_dtype(settings, device)
        self.scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)
        self.ema = (
            {name: parameter.detach().clone() for name, parameter in parameters.items()}
            if settings.ema
            else {}
        )

    # --- A step -----------------------------------------------------------------------------------

    def rate(self, number: int) -> float:
        """Return the paper's learning rate for a step, counted from 1, with `cooldown` at the end."""
        settings = self.settings
        rate = implementation.rate(number, settings.d_model, settings.factor, settings.warmup)
        cooling = settings.cooldown * settings.steps
        return rate * min(1.0, (settings.steps - number + 1) / cooling) if cooling else rate

    def backward(self, loss: Tensor) -> None:
        """Accumulate the gradient of a loss."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def step(self, number: int) -> Tensor:
        """Take a step, counted from 1, and reset the gradients.

        Returns:
            The norm of the gradient before clipping.
        """
        for optimizer in self.optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = self.rate(number)
            self.scaler.unscale_(optimizer)
        norm = self._clip()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        for name, mean in self.ema.items():
            mean.lerp_(self.parameters[name].detach(), 1 - self.settings.ema)
        return norm

    def _clip(self) -> Tensor:
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norm = gradient_norm(gradients)
        if self.settings.clip:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), self.settings.clip, norm)
        return norm

    # --- Weights to use ---------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """Return the EMA's weights if there is one, or the parameters. Every process must call this."""
        return {name: full_tensor(tensor) for name, tensor in (self.ema or self.parameters).items()}

    @contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Replace the parameters by their EMA, if there is one, inside the context."""
        if not self.ema:
            yield
            return
        own = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        try:
            for name, mean in self.ema.items():
                self.parameters[name].data.copy_(mean)
            yield
        finally:
            for name, parameter in own.items():
                self.parameters[name].data.copy_(parameter)

    # --- Checkpoints ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that a step depends on, except the loss scale. Every process must call this."""
        tensors = {
            f"weights.{name}": full_tensor(tensor) for name, tensor in self.parameters.items()
        }
        tensors |= {f"ema.{name}": full_tensor(tensor) for name, tensor in self.ema.items()}
        for name, parameter in self.parameters.items():
            for part, value in self._state(name)[parameter].items():
                tensors[f"optimizer.{part}.{name}"] = full_tensor(value)
        return tensors

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore tensors that `state_dict` returned."""
        for name, parameter in self.parameters.items():
            copy_into(parameter, tensors[f"weights.{name}"])
            if name in self.ema:
                copy_into(self.ema[name], tensors[f"ema.{name}"])
            parts = MOMENTS[name in self.hidden]
            if f"optimizer.{parts[0]}.{name}" not in tensors:
                continue  # the parameter has had no gradient, so there are no moments
            moments = {part: torch.zeros_like(parameter.detach()) for part in parts}
            for part, moment in moments.items():
                copy_into(moment, tensors[f"optimizer.{part}.{name}"])
            if name not in self.hidden:
                moments["step"] = tensors[f"optimizer.step.{name}"].to(self.device)
            self._state(name)[parameter] = moments

    def _state(self, name: str) -> defaultdict[Tensor, Any]:
        """What the optimizer that trains a parameter remembers: Muon is the last."""
        return self.optimizers[-1 if name in self.hidden else 0].state
