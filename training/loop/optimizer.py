"""The paper's Adam and learning rate (Vaswani et al. 2017, §5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

import implementation
from training.loop.distributed import autocast_dtype, copy_into, full_tensor, gradient_norm
from training.settings import Settings


class Optimizer:
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
        groups = [
            {"params": some, "weight_decay": decay[matrices]}
            for matrices in decay
            if (some := [one for one in parameters.values() if (one.ndim > 1) == matrices])
        ]
        self.adam = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
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
        for parameters in self.adam.param_groups:
            parameters["lr"] = self.rate(number)
        self.scaler.unscale_(self.adam)
        norm = self._clip()
        self.scaler.step(self.adam)
        self.scaler.update()
        self.adam.zero_grad()
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
        found = {f"weights.{name}": full_tensor(one) for name, one in self.parameters.items()}
        found |= {f"ema.{name}": full_tensor(one) for name, one in self.ema.items()}
        for name, parameter in self.parameters.items():
            for part, value in self.adam.state[parameter].items():
                found[f"optimizer.{part}.{name}"] = full_tensor(value)
        return found

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore tensors that `state_dict` returned."""
        for name, parameter in self.parameters.items():
            copy_into(parameter, tensors[f"weights.{name}"])
            if name in self.ema:
                copy_into(self.ema[name], tensors[f"ema.{name}"])
            if f"optimizer.step.{name}" not in tensors:
                continue  # the parameter has had no gradient, so Adam has no moments for it
            moments = {
                part: torch.zeros_like(parameter.detach()) for part in ("exp_avg", "exp_avg_sq")
            }
            for part, moment in moments.items():
                copy_into(moment, tensors[f"optimizer.{part}.{name}"])
            step = tensors[f"optimizer.step.{name}"].to(self.device)
            self.adam.state[parameter] = {"step": step, **moments}
