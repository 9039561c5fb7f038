"""The time of a mixture of eight experts, two per token, beside that of a dense layer.

A forward and a backward pass to tokens and weights, float32, on one thread of the CPU:

    dense       `SwiGLU`, d_model 256, d_ff 688
    mixture     `MixtureOfExperts` of 8 such networks, 2 per token: at least twice the work
    capacity    the same with a capacity factor of 1.25
    all eight   every token through every expert, with weight 0 for those that it did not choose: the way
                to write it without gathering

They alternate on the same tokens. The median ratio of the mixture's CPU seconds to the dense layer's must be
at most 2.6.

    python benchmarks/experts.py
    python benchmarks/experts.py --rounds 15 --json experts.json
"""

from __future__ import annotations

import statistics

import frame
import torch
from torch import Tensor

from variants.activations import SwiGLU
from variants.moe import MixtureOfExperts

D_MODEL, D_FF, EXPERTS, K = 256, 688, 8, 2
ROWS, LENGTH = 4, 1024
MOST = 2.6  # the mixture's time over the dense layer's
DENSE, MIXTURE, CAPACITY, ALL = "dense", "mixture", "capacity", "all eight"


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=9).parse_args()
    facts = frame.on_one_thread(35)
    dense, mixture = SwiGLU(D_MODEL, D_FF), MixtureOfExperts(D_MODEL, D_FF, EXPERTS, K)
    limited = MixtureOfExperts(D_MODEL, D_FF, EXPERTS, K, capacity_factor=1.25)
    limited.load_state_dict(mixture.state_dict())
    x = torch.randn(ROWS, LENGTH, D_MODEL, requires_grad=True)
    torch.testing.assert_close(mixture(x), all_eight(mixture, x))
    found = frame.timed_in_turns(
        {
            DENSE: lambda: dense(x).sum().backward(),
            MIXTURE: lambda: mixture(x).sum().backward(),
            CAPACITY: lambda: limited(x).sum().backward(),
            ALL: lambda: all_eight(mixture, x).sum().backward(),
        },
        given.rounds,
    )
    weights = {name: frame.parameters(dense if name == DENSE else mixture) for name in found}
    title = f"{ROWS * LENGTH} tokens, {EXPERTS} experts, {K} for each; medians of {given.rounds}"
    lines = frame.table([""], ["seconds", "times dense", "range", "weights"], title)
    for name, times in found.items():
        to_dense = frame.middle(frame.ratios(times, found[DENSE]))
        lines.add_row(name, frame.middle(times, 3)[0], *to_dense, f"{weights[name]:,}")
    frame.console.print(lines)
    frame.write({"machine": facts, "seconds": found, "weights": weights}, given.json)
    slower = statistics.median(frame.ratios(found[MIXTURE], found[DENSE]))
    assert slower <= MOST, f"a mixture takes {slower:.2f} times the dense layer's time"


def all_eight(layer: MixtureOfExperts, x: Tensor) -> Tensor:
    """Return the mixture's output, computed by all experts for every token."""
    weights, chosen, probs = layer.router(x)
    shares = torch.zeros_like(probs).scatter(-1, chosen, weights)  # (B, T, n_experts)
    outputs = [
        share.unsqueeze(-1) * expert(x)
        for share, expert in zip(shares.unbind(-1), layer.experts, strict=True)
    ]
    return torch.stack(outputs).sum(dim=0)


if __name__ == "__main__":
    main()
