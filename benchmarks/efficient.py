"""Memory and time of a training step with activation checkpointing.

A GPT of 12 layers, width 256 and 4 heads with dropout, float32, on one thread of the CPU; a step is the
forward and the backward pass of 4 rows of 256 tokens. `GPT` and `CheckpointedGPT` have the same weights,
tokens and random state, and must have the same gradients, bit by bit.

    kept        bytes allocated by the forward pass and not freed at its end; with checkpoints at most 40%
                of those without.
    peak        the maximum of bytes allocated in the step, without parameters but with their gradients;
                at most 40% as well.
    time        CPU seconds, alternating; the median ratio of a round may be at most 1.45.

A storage counts from the operation that creates it until it is freed.

    python benchmarks/efficient.py
"""

from __future__ import annotations

import statistics
import weakref
from typing import Any

import frame
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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
    given = frame.options(__doc__, rounds=9).parse_args()
    facts = frame.on_one_thread(38)
    models: dict[str, GPT] = {PLAIN: GPT(CONFIG), CHECKPOINTS: CheckpointedGPT(CONFIG)}
    models[CHECKPOINTS].load_state_dict(models[PLAIN].state_dict())
    tokens = torch.randint(CONFIG.vocab, (ROWS, CONFIG.context + 1))

    gradients = {name: gradients_of(model, tokens) for name, model in models.items()}
    assert all(map(torch.equal, *gradients.values())), "checkpoints changed a gradient"
    sizes = {name: sizes_of(model, tokens) for name, model in models.items()}
    seconds = frame.timed_in_turns(
        {name: lambda model=model: gradients_of(model, tokens) for name, model in models.items()},
        given.rounds,
    )
    reached = show(sizes, seconds, given.rounds)
    frame.write(
        {"machine": facts, "sizes": sizes, "seconds": seconds, "reached": reached}, given.json
    )
    for name, most in AT_MOST.items():
        assert reached[name] <= most, f"{name}: {reached[name]:.2f}, and {most} is allowed"


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the mean loss of the next tokens."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def gradients_of(model: nn.Module, tokens: Tensor) -> list[Tensor]:
    """Take a step, and return the gradients of all parameters; dropout is the same for all models."""
    model.zero_grad()
    torch.manual_seed(1)
    loss_of(model, tokens).backward()
    return [one.grad for one in model.parameters() if one.grad is not None]


class Allocations(TorchDispatchMode):
    """Count the bytes of all storages that operations create in the context."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}

    def leave_out(self, tensor: Tensor) -> None:
        """Leave out a tensor that existed before."""
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
    """Return bytes at the end of the forward pass, and at the peak."""
    model.zero_grad()
    with Allocations() as seen:
        for one in (*model.parameters(), tokens):
            seen.leave_out(one)
        loss = loss_of(model, tokens)
        kept = seen.now
        loss.backward()
        peak = seen.peak
    return {"kept": kept, "peak": peak}


def show(sizes: dict[str, dict[str, int]], seconds: frame.Taken, rounds: int) -> dict[str, float]:
    """Print two tables. Return each figure of the checkpoints over that of the plain model."""
    reached = {name: sizes[CHECKPOINTS][name] / sizes[PLAIN][name] for name in sizes[PLAIN]}
    lines = frame.table([""], list(reached), f"Bytes of a step, {CONFIG.n_layers} layers")
    for name, found in sizes.items():
        lines.add_row(name, *map(frame.in_mib, found.values()))
    lines.add_row("ratio", *(f"{100 * one:.1f}%" for one in reached.values()))
    frame.console.print(lines)

    lines = frame.table([""], ["ms", "range"], f"Time of a step, medians of {rounds}")
    for name, found in seconds.items():
        lines.add_row(name, *frame.middle([1e3 * one for one in found], 0))
    times = frame.ratios(seconds[CHECKPOINTS], seconds[PLAIN])
    lines.add_row("ratio", *frame.middle(times))
    frame.console.print(lines)
    return {**reached, "time": statistics.median(times)}


if __name__ == "__main__":
    main()
