"""What checkpoints save of a step's memory, and what they cost of its time.

The model is a GPT of 12 layers, width 256 and 4 heads with dropout, float32, on one thread of the CPU;
a step is the forward and the backward pass of 4 rows of 256 tokens. The same weights, tokens and random
state are given to `GPT` and to `CheckpointedGPT`, and both must give the same gradients, to the last bit.

    kept        bytes allocated by the forward pass that are still there when it ends: what waits for the
                backward pass, wherever it is kept. Checkpoints may keep at most 40% of it.
    saved       bytes that autograd was given to save, each storage once and parameters left out, as
                `torch.autograd.graph.saved_tensors_hooks` sees them; what a checkpoint keeps, its inputs,
                added. It is part of what is kept.
    peak        the most bytes allocated at any moment of the step, parameters left out, their gradients
                included; at most 40% as well.
    time        CPU seconds of the process. The two take turns, each round begins with the other one, and
                a ratio is of the same round; the median may be at most 1.45.

Allocations are followed by their storages: each is counted from the operation that makes it until it
is freed. The load of the machine is printed.

    python benchmarks/efficient.py
    python benchmarks/efficient.py --rounds 15 --json efficient.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rounds import console, in_turns, in_words, machine_with, ratios, show_machine, table, write
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from variants import efficient
from variants.efficient import CheckpointedGPT
from variants.gpt import GPT, GPTConfig

CONFIG = GPTConfig(
    vocab=256, context=256, n_layers=12, n_heads=4, d_model=256, d_ff=1024, dropout=0.1
)
ROWS = 4
AT_MOST = {"kept": 0.40, "peak": 0.40, "time": 1.45}
CHECKPOINTS, PLAIN = "checkpoints", "all kept"


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    given = options.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(38)
    load = os.getloadavg()[0]
    models: dict[str, GPT] = {PLAIN: GPT(CONFIG), CHECKPOINTS: CheckpointedGPT(CONFIG)}
    models[CHECKPOINTS].load_state_dict(models[PLAIN].state_dict())
    tokens = torch.randint(CONFIG.vocab, (ROWS, CONFIG.context + 1))

    gradients = {name: gradients_of(model, tokens) for name, model in models.items()}
    assert all(map(torch.equal, *gradients.values())), "checkpoints changed a gradient"
    sizes = {name: sizes_of(model, tokens) for name, model in models.items()}
    seconds = in_turns(
        {name: partial(seconds_of, model, tokens) for name, model in models.items()}, given.rounds
    )

    show_machine({**machine_with(torch.device("cpu")), "load": f"{load:.1f}"})
    reached = show(sizes, seconds, given.rounds)
    write({"load": load, "sizes": sizes, "seconds": seconds, "reached": reached}, given.json)
    for name, most in AT_MOST.items():
        assert reached[name] <= most, f"{name}: {reached[name]:.2f}, and {most} is allowed"


# --- What is measured -----------------------------------------------------------------------------


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean loss of predicting each next token."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def gradients_of(model: nn.Module, tokens: Tensor) -> list[Tensor]:
    """The gradients of all parameters, with the same dropout for everybody."""
    model.zero_grad()
    torch.manual_seed(1)
    loss_of(model, tokens).backward()
    return [one.grad for one in model.parameters() if one.grad is not None]


def seconds_of(model: nn.Module, tokens: Tensor) -> float:
    """CPU seconds of a step."""
    model.zero_grad()
    started = time.process_time()
    loss_of(model, tokens).backward()
    return time.process_time() - started


class Allocations(TorchDispatchMode):
    """Follows the bytes of all storages that operations make while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}

    def know(self, tensor: Tensor) -> None:
        """Leave out what was there before."""
        self.sizes[id(tensor.untyped_storage())] = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor):
                self._made(one.untyped_storage())
        return result

    def _made(self, storage: torch.UntypedStorage) -> None:
        place = id(storage)
        if place in self.sizes:
            return
        self.sizes[place] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, place)

    def _freed(self, place: int) -> None:
        self.now -= self.sizes.pop(place)


def sizes_of(model: nn.Module, tokens: Tensor) -> dict[str, int]:
    """Bytes that are kept at the end of the forward pass, that autograd saved, and at the peak."""
    model.zero_grad()
    with Allocations() as seen:
        for one in (*model.parameters(), tokens):
            seen.know(one)
        loss = loss_of(model, tokens)
        kept = seen.now
        loss.backward()
        peak = seen.peak
    return {"kept": kept, "saved": saved_by(model, tokens), "peak": peak}


def saved_by(model: nn.Module, tokens: Tensor) -> int:
    """Bytes of what autograd saves in the forward pass, and of what checkpoints keep."""
    parameters = {one.untyped_storage().data_ptr() for one in model.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}  # held, so that no address is used twice

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            storages[storage.data_ptr()] = storage
        return tensor

    checkpoint = efficient.checkpoint

    def noted(function: Any, *inputs: Any) -> Any:
        for one in inputs:
            note(one)
        return checkpoint(function, *inputs)

    try:
        efficient.checkpoint = noted
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss_of(model, tokens)
    finally:
        efficient.checkpoint = checkpoint
    return sum(one.nbytes() for one in storages.values())


# --- What is printed ------------------------------------------------------------------------------


def show(
    sizes: dict[str, dict[str, int]], seconds: dict[str, list[float]], rounds: int
) -> dict[str, float]:
    """Two tables. Returned is what each figure of the checkpoints is of the plain model's."""
    reached = {name: sizes[CHECKPOINTS][name] / sizes[PLAIN][name] for name in sizes[PLAIN]}
    lines = table([""], list(reached), f"Bytes of a step, {CONFIG.n_layers} layers")
    for name, found in sizes.items():
        lines.add_row(name, *map(in_words, found.values()))
    lines.add_row("ratio", *(f"{100 * one:.1f}%" for one in reached.values()))
    console.print(lines)

    lines = table([""], ["ms", "range"], f"Time of a step, medians of {rounds}")
    for name, found in seconds.items():
        took = [1e3 * one for one in found]
        lines.add_row(name, f"{statistics.median(took):.0f}", f"{min(took):.0f}–{max(took):.0f}")
    times = ratios(seconds[CHECKPOINTS], seconds[PLAIN])
    lines.add_row("ratio", f"{statistics.median(times):.2f}", f"{min(times):.2f}–{max(times):.2f}")
    console.print(lines)
    return {**reached, "time": statistics.median(times)}


if __name__ == "__main__":
    main()
