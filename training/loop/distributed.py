"""One model in many processes: gradients shared by DDP or FSDP2, sharded tensors, seeds and autocast."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.data.batches import Rows, seed_of
from training.devices import ProcessContext
from training.models.architectures import Objective, layers
from training.settings import Settings


def seed_everything(*names: object) -> None:
    """Seed all random number generators from these names.

    Every step begins with this call, so a resumed run draws the same numbers without saved generator states.
    """
    number = seed_of(*names)
    random.seed(number)
    np.random.seed(number % 2**32)  # a learner's own parts may draw from it
    torch.manual_seed(number)


def autocast_dtype(settings: Settings, device: torch.device) -> torch.dtype | None:
    """Return the half-precision dtype of a run; None means float32."""
    precision = settings.precision
    if precision == "auto":
        if device.type != "cuda":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float16
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


class DistributedObjective:
    """The objective on its device, with gradients averaged over all processes by DDP or FSDP2."""

    def __init__(self, objective: Objective, settings: Settings, context: ProcessContext):
        self._objective = objective.to(context.device)
        self._sharded = settings.shard and context.world_size > 1
        if self._sharded:  # FSDP and its tensors take a second to import
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(context.device.type, (context.world_size,))
            for layer in layers(objective.model):
                fully_shard(layer, mesh=mesh)
            fully_shard(objective, mesh=mesh)
        named = dict(objective.model.named_parameters())
        self.parameters = {
            name: parameter for name, parameter in named.items() if parameter.requires_grad
        }
        self.frozen = {
            name: parameter for name, parameter in named.items() if not parameter.requires_grad
        }
        if settings.compile:
            objective.compile(dynamic=settings.task == "translation" or None)
        self._call: nn.Module = objective
        if context.world_size > 1 and not self._sharded:
            devices = [context.device.index] if context.device.type == "cuda" else None
            with warnings.catch_warnings():  # torch 2.13 warns about a name that 2.11 does not have
                warnings.simplefilter("ignore", FutureWarning)
                self._call = DistributedDataParallel(
                    objective, device_ids=devices, broadcast_buffers=False
                )

    def __call__(self, rows: Rows) -> tuple[Tensor, Tensor]:
        summed, plain = self._call(*rows.tensors)
        return summed, plain

    def train(self, training: bool) -> None:
        """Set training or evaluation mode."""
        self._call.train(training)

    def syncing(self, last: bool) -> AbstractContextManager[Any]:
        """Average gradients only after the last backward pass of a step."""
        if self._sharded:
            self._objective.set_requires_gradient_sync(last)  # type: ignore[operator]
        elif isinstance(self._call, DistributedDataParallel) and not last:
            return self._call.no_sync()
        return contextlib.nullcontext()


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor, gathered from all processes, on the CPU. Every process must call this."""
    return _gathered(tensor).detach().cpu()


def copy_into(tensor: Tensor, values: Tensor) -> None:
    """Copy values into a tensor, of which this process may hold a shard."""
    with torch.no_grad():
        if _is_sharded(tensor):
            from torch.distributed.tensor import distribute_tensor

            values = distribute_tensor(
                values.to(tensor.device),
                tensor.device_mesh,  # type: ignore[attr-defined]
                tensor.placements,  # type: ignore[attr-defined]
            )
        tensor.copy_(values)


def gradient_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients, shards included: a 0-d tensor on the device."""
    return _gathered(nn.utils.get_total_norm(gradients))


def _gathered(tensor: Tensor) -> Tensor:
    full: Tensor = tensor.full_tensor() if _is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return full


def _is_sharded(tensor: Tensor) -> bool:
    """Return whether it is a DTensor, without importing the class, which takes a second."""
    return hasattr(tensor, "full_tensor")
