"""Memory and time of a training step with activation checkpointing.

A GPT of 12 layers, width 256 and 4 heads with dropout, float32, on one thread of the CPU; a step is the
forward and the backward pass of 4 rows of 256 tokens. `GPT` and `CheckpointedGPT` have the same weights,
tokens and random state, and must have the same gradients, bit by bit.

    kept        bytes allocated by the forward pass and not freed at its end; with checkpoints at most 40%
                of those without. A storage counts from the operation that creates it until it is freed.
    time        CPU seconds, alternating; the median ratio of a round may be at most 1.45.

    python benchmarks/efficient.py
"""

from __future__ import annotations

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
CHECKPOINTS, PLAIN = "checkpoints", "all kept"
KEPT, SLOWER = 0.40, 1.45  # the most that checkpoints may keep and take, over a plain step


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=9).parse_args()
    frame.on_one_thread(38)
    models: dict[str, GPT] = {PLAIN: GPT(CONFIG), CHECKPOINTS: CheckpointedGPT(CONFIG)}
    models[CHECKPOINTS].load_state_dict(models[PLAIN].state_dict())
    tokens = torch.randint(CONFIG.vocab, (4, CONFIG.context + 1))
    gradients = {name: gradients_of(model, tokens) for name, model in models.items()}
    assert all(map(torch.equal, *gradients.values())), "checkpoints changed a gradient"
    kept = {name: kept_by(model, tokens) for name, model in models.items()}
    share = kept[CHECKPOINTS] / kept[PLAIN]
    frame.console.print(f"checkpoints keep {share:.1%} of {frame.in_mib(kept[PLAIN])}")
    acts = {name: lambda one=model: gradients_of(one, tokens) for name, model in models.items()}
    title = f"Time of a step, medians of {given.rounds}"
    times = frame.compare(title, frame.timed_in_turns(acts, given.rounds), PLAIN)[CHECKPOINTS]
    assert share <= KEPT and times <= SLOWER, f"{KEPT} of the memory, {SLOWER} times: too much"


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

    def __init__(self, *before: Tensor) -> None:
        super().__init__()
        self.sizes = {id(one.untyped_storage()): 0 for one in before}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and id(storage := one.untyped_storage()) not in self.sizes:
                self.sizes[id(storage)] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, id(storage))
        return result


def kept_by(model: nn.Module, tokens: Tensor) -> int:
    """Return the bytes at the end of the forward pass."""
    with Allocations(*model.parameters(), tokens) as seen:
        loss = loss_of(model, tokens)
        kept = sum(seen.sizes.values())
    del loss
    return kept


if __name__ == "__main__":
    main()
