"""Where a run computes: the CPU, a GPU, or one of many processes that `torchrun` has started."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from training.batches import seed_of
from training.errors import Refused
from training.model import Objective, layers
from training.settings import Settings

# The most that a GPU computes in a second in bfloat16, dense, by words of its name: from NVIDIA's data
# sheets of each.
PEAK_FLOPS = {
    "GB200": 2.5e15,
    "B200": 2.25e15,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "GH200": 989e12,
    "A100": 312e12,
    "A10G": 70e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


@dataclass(frozen=True)
class Place:
    """The device of this process, and which of how many processes it is."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def total(self, *numbers: float) -> list[float]:
        """Sums over all processes, on the CPU."""
        summed = torch.tensor(numbers, dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(summed)
        return [float(number) for number in summed]

    def wait(self) -> None:
        """Until all processes are here."""
        self.total(0)

    @property
    def peak_flops(self) -> float | None:
        """What the device can do in bfloat16, where that is known."""
        if self.device.type != "cuda":
            return None
        return peak_flops_of(torch.cuda.get_device_name(self.device))

    @property
    def memory(self) -> float | None:
        """The most memory of a GPU that has been in use, in bytes."""
        if self.device.type != "cuda":
            return None
        return float(torch.cuda.max_memory_allocated(self.device))


def peak_flops_of(name: str) -> float | None:
    """What the GPU of this name can do in bfloat16, where that is known: an L40 is no L4."""
    return next(
        (
            peak
            for words, peak in PEAK_FLOPS.items()
            if re.search(rf"\b{words}(?![a-z0-9]| (D|Ti|Laptop)\b)", name, re.IGNORECASE)
        ),
        None,
    )


def pick(asked: str) -> torch.device:
    """The device that was asked for; `auto` is a GPU where there is one.

    Raises:
        Refused: there is no such device here.
    """
    if asked == "auto":
        for kind in ("cuda", "mps"):
            if _count(kind):
                return torch.device(kind)
        return torch.device("cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        device = torch.device("meta")
    there = _count(device.type)
    if there <= (device.index or 0):
        found = ", ".join(
            kind + (f" (0 to {_count(kind) - 1})" if kind == "cuda" else "")
            for kind in ("cpu", "cuda", "mps")
            if _count(kind)
        )
        raise Refused(f"There is no device {asked!r} here. There is: {found}")
    return device


def _count(kind: str) -> int:
    match kind:
        case "cpu":
            return 1
        case "cuda":
            return torch.cuda.device_count()
        case "mps":
            return int(torch.backends.mps.is_available())
    return 0


def under_torchrun() -> bool:
    """Whether this process is one of many."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def restarts() -> int:
    """How often `torchrun` has started the processes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextlib.contextmanager
def taken(asked: str) -> Iterator[Place]:
    """This process's place among all, for as long as it is needed."""
    device = pick(asked)
    if not under_torchrun():
        yield Place(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Numbers on the CPU go by gloo, so that asking for them never waits for a GPU.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    # `torchrun` keeps its store when it starts the processes again: without a name of their own for each
    # attempt they look for each other where the dead ones were (torch 2.13).
    store, rank, world = next(rendezvous("env://"))
    own = dist.PrefixStore(f"attempt {restarts()}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=own, rank=rank, world_size=world)
    place = Place(device, rank, world)
    yield place
    # Only after a good end: a process that fails must not wait for the others. What shared gradients has to
    # be gone by then; freed after the group it shared them in, it may wait for ever.
    gc.collect()
    place.wait()
    dist.destroy_process_group()


def seed_everything(*names: object) -> None:
    """Make all that is drawn from here on depend on nothing but these names.

    Every step begins with it: a run that goes on from a checkpoint draws what it would have drawn, with
    no generator's state to keep.
    """
    number = seed_of(*names)
    random.seed(number)
    np.random.seed(number % 2**32)  # a learner's own parts may draw from it
    torch.manual_seed(number)


def autocast_to(settings: Settings, device: torch.device) -> torch.dtype | None:
    """The half precision that a run computes in; None is float32."""
    wanted = settings.precision
    if wanted == "auto":
        if device.type != "cuda":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float16
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]


class Wrapped:
    """The objective on its device, its gradients shared among all processes by DDP or FSDP2."""

    def __init__(self, objective: Objective, settings: Settings, place: Place):
        self._objective = objective.to(place.device)
        self._sharded = settings.shard and place.world > 1
        if self._sharded:  # FSDP and its tensors take a second to import
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(place.device.type, (place.world,))
            for layer in layers(objective.model):
                fully_shard(layer, mesh=mesh)
            fully_shard(objective, mesh=mesh)
        named = dict(objective.model.named_parameters())
        self.parameters = {name: one for name, one in named.items() if one.requires_grad}
        self.frozen = {name: one for name, one in named.items() if not one.requires_grad}
        if settings.compile:
            objective.compile(dynamic=settings.task == "translation" or None)
        self._call: nn.Module = objective
        if place.world > 1 and not self._sharded:
            devices = [place.device.index] if place.device.type == "cuda" else None
            with warnings.catch_warnings():  # of torch 2.13, about a name that 2.11 does not know
                warnings.simplefilter("ignore", FutureWarning)
                self._call = DistributedDataParallel(
                    objective, device_ids=devices, broadcast_buffers=False
                )

    def __call__(self, source: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor]:
        summed, plain = self._call(source, target)
        return summed, plain

    def train(self, training: bool) -> None:
        """As of a module."""
        self._call.train(training)

    def syncing(self, last: bool) -> AbstractContextManager[Any]:
        """Gradients are shared after the last backward of a step alone."""
        if self._sharded:
            self._objective.set_requires_gradient_sync(last)  # type: ignore[operator]
        elif isinstance(self._call, DistributedDataParallel) and not last:
            return self._call.no_sync()
        return contextlib.nullcontext()


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with the parts of all processes, on the CPU. Every process has to call it."""
    return _gathered(tensor).detach().cpu()


def fill(tensor: Tensor, values: Tensor) -> None:
    """Copy values into a tensor, of which this process may hold a part."""
    with torch.no_grad():
        if _is_sharded(tensor):
            from torch.distributed.tensor import distribute_tensor

            values = distribute_tensor(
                values.to(tensor.device),
                tensor.device_mesh,  # type: ignore[attr-defined]
                tensor.placements,  # type: ignore[attr-defined]
            )
        tensor.copy_(values)


def length(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of a gradient over all its parts: a 0-d tensor on the device."""
    return _gathered(nn.utils.get_total_norm(gradients))


def _gathered(tensor: Tensor) -> Tensor:
    full: Tensor = tensor.full_tensor() if _is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return full


def _is_sharded(tensor: Tensor) -> bool:
    """Return whether it is a DTensor. The class is not asked for: importing it takes a second."""
    return hasattr(tensor, "full_tensor")
