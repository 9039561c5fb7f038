"""The device of this process, and its rank among the processes that `torchrun` has started."""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from training.cores import under_torchrun
from training.errors import Refused

# Dense bfloat16 FLOP/s of a GPU, by words of its name, from NVIDIA's data sheets.
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
class ProcessContext:
    """The device of this process, its rank, and the number of processes."""

    device: torch.device
    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints for all."""
        return self.rank == 0

    def total(self, *numbers: float) -> list[float]:
        """Sum numbers over all processes, on the CPU."""
        summed = torch.tensor(numbers, dtype=torch.float64)
        if self.world_size > 1:
            dist.all_reduce(summed)
        return [float(number) for number in summed]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.total(0)

    @property
    def peak_flops(self) -> float | None:
        """The device's peak FLOP/s in bfloat16, where known."""
        if self.device.type != "cuda":
            return None
        return peak_flops_of(torch.cuda.get_device_name(self.device))

    @property
    def peak_memory(self) -> float | None:
        """The peak of allocated GPU memory, in bytes."""
        if self.device.type != "cuda":
            return None
        return float(torch.cuda.max_memory_allocated(self.device))


def peak_flops_of(name: str) -> float | None:
    """Peak FLOP/s in bfloat16 of the GPU with this name, where known (an L40 is not an L4)."""
    return next(
        (
            peak
            for words, peak in PEAK_FLOPS.items()
            if re.search(rf"\b{words}(?![a-z0-9]| (D|Ti|Laptop)\b)", name, re.IGNORECASE)
        ),
        None,
    )


def pick(name: str) -> torch.device:
    """Return the device of this name; `auto` is a GPU if there is one.

    Raises:
        Refused: this machine has no such device.
    """
    if name == "auto":
        for kind in ("cuda", "mps"):
            if _count(kind):
                return torch.device(kind)
        return torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    count = _count(device.type)
    if count <= (device.index or 0):
        available = ", ".join(
            kind + (f" (0 to {_count(kind) - 1})" if kind == "cuda" else "")
            for kind in ("cpu", "cuda", "mps")
            if _count(kind)
        )
        raise Refused(f"device must be one of this machine's, {available}, got {name!r}")
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


def restarts() -> int:
    """How often `torchrun` has started the processes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextlib.contextmanager
def process_context(name: str) -> Iterator[ProcessContext]:
    """Set up this process, and the process group if there are several processes."""
    device = pick(name)
    if not under_torchrun():
        yield ProcessContext(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Sums of numbers go by gloo on the CPU, so that they never wait for a GPU.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    # `torchrun` keeps its store when it restarts the processes: without a prefix for each attempt, they
    # would look for each other at the dead processes' addresses (torch 2.13).
    store, rank, world = next(rendezvous("env://"))
    own = dist.PrefixStore(f"attempt {restarts()}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=own, rank=rank, world_size=world)
    context = ProcessContext(device, rank, world)
    yield context
    # Only after success: a process that fails must not wait for the others. DDP's reducer must be freed
    # before its process group; freed afterwards, it may wait forever.
    gc.collect()
    context.barrier()
    dist.destroy_process_group()
