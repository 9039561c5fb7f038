"""What eight experts cost, of which each token visits two: a mixture's time beside a dense layer's.

Contenders on the same tokens, float32, on one thread of the CPU, one forward and one backward pass to tokens
and weights:

    dense       `SwiGLU`, d_model 256, d_ff 688
    mixture     `MixtureOfExperts` of 8 such networks, 2 for each token: at least twice the work
    capacity    the same with a capacity factor of 1.25
    all eight   every token through every expert, mixed by the same weights (0 for those that it did not
                choose): how one writes it without gathering

They take turns, and each round begins with another one. What counts is the median of the ratios of the same
round; the mixture's must be at most 2.6. Times are CPU seconds of the process, which other programs
disturb less than they disturb the clock. The load of the machine is printed, and the numbers of weights.

    python benchmarks/experts.py
    python benchmarks/experts.py --rounds 15 --json experts.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rounds import console, in_turns, machine_with, ratios, show_machine, table, write
from torch import Tensor, nn

from variants.activations import SwiGLU
from variants.moe import MixtureOfExperts

D_MODEL, D_FF, EXPERTS, K = 256, 688, 8, 2
ROWS, LENGTH = 4, 1024
MOST = 2.6  # the mixture's time over the dense layer's
DENSE, MIXTURE, CAPACITY, ALL = "dense", "mixture", "capacity", "all eight"


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    given = options.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(35)
    load = os.getloadavg()[0]
    dense, mixture = SwiGLU(D_MODEL, D_FF), MixtureOfExperts(D_MODEL, D_FF, EXPERTS, K)
    limited = MixtureOfExperts(D_MODEL, D_FF, EXPERTS, K, capacity_factor=1.25)
    limited.load_state_dict(mixture.state_dict())
    x = torch.randn(ROWS, LENGTH, D_MODEL, requires_grad=True)
    torch.testing.assert_close(mixture(x), all_eight(mixture, x))
    ways: dict[str, Callable[[], float]] = {
        DENSE: partial(seconds, dense, x),
        MIXTURE: partial(seconds, mixture, x),
        CAPACITY: partial(seconds, limited, x),
        ALL: partial(seconds, partial(all_eight, mixture), x),
    }
    for way in ways.values():
        way()  # memory found, kernels chosen
    found = in_turns(ways, given.rounds)
    weights = {DENSE: count(dense), MIXTURE: count(mixture)}

    show_machine({**machine_with(torch.device("cpu")), "load": f"{load:.1f}"})
    dearer = show(found, weights, given.rounds)
    write({"load": load, "seconds": found, "weights": weights}, given.json)
    assert dearer <= MOST, f"a mixture takes {dearer:.2f} times the dense layer's time"


# --- What is measured -----------------------------------------------------------------------------


def seconds(layer: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """One forward and one backward pass."""
    started = time.process_time()
    layer(x).sum().backward()
    return time.process_time() - started


def all_eight(layer: MixtureOfExperts, x: Tensor) -> Tensor:
    """The mixture's output with every expert asked about every token."""
    weights, chosen, probs = layer.router(x)
    shares = torch.zeros_like(probs).scatter(-1, chosen, weights)  # (B, T, n_experts)
    outputs = [
        share.unsqueeze(-1) * expert(x)
        for share, expert in zip(shares.unbind(-1), layer.experts, strict=True)
    ]
    return torch.stack(outputs).sum(dim=0)


def count(module: nn.Module) -> int:
    """How many numbers are learnt."""
    return sum(weight.numel() for weight in module.parameters())


# --- What is printed ------------------------------------------------------------------------------


def show(found: dict[str, list[float]], weights: dict[str, int], rounds: int) -> float:
    """A table, a contender a row. Returned is the median of the mixture's ratios to the dense layer."""
    title = f"{ROWS * LENGTH} tokens, {EXPERTS} experts, {K} for each; medians of {rounds}"
    lines = table([""], ["seconds", "times dense", "range", "weights"], title)
    for name, times in found.items():
        to_dense = ratios(times, found[DENSE])
        lines.add_row(
            name,
            f"{statistics.median(times):.3f}",
            f"{statistics.median(to_dense):.2f}",
            f"{min(to_dense):.2f}–{max(to_dense):.2f}",
            f"{weights.get(name, weights[MIXTURE]):,}",
        )
    console.print(lines)
    return statistics.median(ratios(found[MIXTURE], found[DENSE]))


if __name__ == "__main__":
    main()
