"""What a model costs: time and memory, as functions of the length of a text. They depend on the machine."""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from training.data.tasks import Task
from training.loop.distributed import autocast_dtype
from training.models.architectures import Model
from training.settings import Settings

Figures = dict[str, float]

LENGTHS = (64, 256, 1024)
ON_A_GPU = (*LENGTHS, 4096)  # full attention alone would take minutes of a CPU there
TOKENS = 4096  # of a pass, in as many rows as that makes
TOKENS_ON_A_GPU = 16_384  # so that it has something to do
ROUNDS = 3  # of what is timed, whose median counts


def speed(model: Model, task: Task, settings: Settings, device: torch.device) -> Figures:
    """Tokens a second at T tokens, as much text each time: `training_speed_T`, both passes, and
    `reading_speed_T`, forward alone. Medians."""
    figures: Figures = {}
    for length, pass_ in _passes(model, task, settings, device):
        tokens = _tokens(device)
        for name, training in (("training", True), ("reading", False)):
            pass_(training)  # memory found, kernels chosen
            seconds = [_seconds(pass_, training, device) for _ in range(ROUNDS)]
            figures[f"{name}_speed_{length}"] = tokens / statistics.median(seconds)
    return figures


def memory(model: Model, task: Task, settings: Settings, device: torch.device) -> Figures:
    """The most bytes that are held at once beyond the weights: `training_bytes_T` in both passes, gradients
    included, and `reading_bytes_T` in the forward pass alone. A GPU's allocator counts them itself; elsewhere
    every tensor is counted from when an operation returns it until it is freed."""
    figures: Figures = {}
    for length, pass_ in _passes(model, task, settings, device):
        for name, training in (("training", True), ("reading", False)):
            pass_(training)
            model.zero_grad()
            figures[f"{name}_bytes_{length}"] = float(_peak(pass_, training, device))
        model.zero_grad()
    return figures


def _tokens(device: torch.device) -> int:
    return TOKENS_ON_A_GPU if device.type == "cuda" else TOKENS


def _passes(
    model: Model, task: Task, settings: Settings, device: torch.device
) -> Iterator[tuple[int, Callable[[bool], None]]]:
    """Each length with what makes one pass over so long a text, or both where it is told to train."""
    for length in ON_A_GPU if device.type == "cuda" else LENGTHS:
        if model.longest is None or length <= model.longest:
            rows = _tokens(device) // length
            yield length, _pass(model, task, settings, device, rows, length)
    model.zero_grad()


def _pass(
    model: Model, task: Task, settings: Settings, device: torch.device, rows: int, length: int
) -> Callable[[bool], None]:
    """What makes one pass over so many rows of so many tokens, or both passes where it is told to train."""
    half = autocast_dtype(settings, device)
    tokens = torch.arange(rows * length, device=device) % len(task.languages.target)
    batch = tokens.view(rows, length)

    def pass_(training: bool) -> None:
        narrowed = torch.autocast(device.type, half or torch.bfloat16, half is not None)
        model.train(training)
        with torch.set_grad_enabled(training), narrowed:
            scores = model.generator(model(batch))
        if training:
            scores[..., 0].sum().backward()
        model.eval()

    return pass_


def _seconds(pass_: Callable[[bool], None], training: bool, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    # Seconds of the process, which others on the CPU disturb less than they disturb the clock.
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    began = clock()
    pass_(training)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - began


def _peak(pass_: Callable[[bool], None], training: bool, device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = int(torch.cuda.memory_allocated(device))
        pass_(training)
        return int(torch.cuda.max_memory_allocated(device)) - before
    allocated = AllocatedBytes()
    with allocated:
        pass_(training)
    return allocated.most


class AllocatedBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that operations return within it, for as long as anybody holds them.

    Attributes:
        now: bytes in use.
        most: their peak.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._hold(leaf.untyped_storage())
        return result

    def _hold(self, storage: Any) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, storage.nbytes())

    def _freed(self, size: int) -> None:
        self.now -= size
