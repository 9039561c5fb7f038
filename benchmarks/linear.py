"""How the time of a layer grows with the length of the text: attention, what replaces it, and Mamba.

One forward and one backward pass, as training makes them, of texts of 1,024 to 16,384 tokens, float32, on one
thread of the CPU. One text, and two heads of width 64:

    attention   `implementation.attention` under a causal mask, up to 4,096 tokens: at the end its scores
                alone would be 2 GiB, and the same again for each step from them to the weights
    linear      `linear_attention`, every token sees every other
    causal      the same with `causal=True`, in chunks
    window      `sliding_window_attention`, 128 tokens to either side, and one global token
    Mamba       a layer of `Mamba`, its projections and convolution included, 64 wide, 128 inside

The contenders take turns, one length after the other; each figure is the median of its rounds. Through the
medians of a contender goes a line in logarithms, by least squares: its slope is the exponent e of T^e. It
must be at most 1.15 for linear attention, causal and not, and for Mamba. Attention's, which tends to 2, is
shown beside them, and the window's: the numbers that it writes grow exactly like T (a test counts them), but
tensors above 32 MiB are fetched from the system anew each time, which costs more for each number. No two
contenders do the same work, so what is compared are slopes.

Times are CPU seconds of the process, which other programs disturb less than they disturb the clock. The load
of the machine is printed.

    python benchmarks/linear.py
    python benchmarks/linear.py --rounds 9 --json linear.json
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rounds import console, in_turns, machine_with, show_machine, table, write
from torch import Tensor

from implementation import attention, subsequent_mask
from variants.linear import linear_attention
from variants.mamba import Mamba, MambaConfig
from variants.sliding_window import sliding_window_attention

LENGTHS = [1024, 2048, 4096, 8192, 16384]
LONGEST = {"attention": 4096}  # where a contender does not go to the end
MOST = 1.15  # the exponent of what is called linear
HELD_TO_IT = ("linear", "causal", "Mamba")
HEADS, D_K = 2, 64
WINDOW = 128
MAMBA = MambaConfig(n_layers=1, d_model=64, dt_rank=4)


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    given = options.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(34)
    load = os.getloadavg()[0]
    found: dict[str, dict[int, list[float]]] = {name: {} for name in CONTENDERS}
    for length in LENGTHS:
        ways = {
            name: contender(length)
            for name, contender in CONTENDERS.items()
            if length <= LONGEST.get(name, length)
        }
        for way in ways.values():
            way()  # memory found, kernels chosen
        for name, seconds in in_turns(ways, given.rounds).items():
            found[name][length] = seconds
    exponents = {name: exponent(by_length) for name, by_length in found.items()}

    show_machine({**machine_with(torch.device("cpu")), "load": f"{load:.1f}"})
    show(found, exponents, given.rounds)
    write({"load": load, "seconds": found, "exponents": exponents}, given.json)
    for name in HELD_TO_IT:
        assert exponents[name] <= MOST, f"{name} grows like T^{exponents[name]:.2f}"


# --- What is measured -----------------------------------------------------------------------------


def heads(length: int) -> list[Tensor]:
    """Queries, keys and values that want gradients."""
    return [torch.randn(1, HEADS, length, D_K, requires_grad=True) for _ in range(3)]


def timed(way: Callable[[], Tensor]) -> Callable[[], float]:
    """A function that goes forward and backward once, and gives the seconds of both."""

    def step() -> float:
        started = time.process_time()
        way().sum().backward()
        return time.process_time() - started

    return step


def full(length: int) -> Callable[[], float]:
    query, key, value = heads(length)
    mask = subsequent_mask(length)
    return timed(lambda: attention(query, key, value, mask)[0])


def linear(length: int, causal: bool = False) -> Callable[[], float]:
    query, key, value = heads(length)
    return timed(lambda: linear_attention(query, key, value, causal=causal))


def causal(length: int) -> Callable[[], float]:
    return linear(length, causal=True)


def window(length: int) -> Callable[[], float]:
    query, key, value = heads(length)
    return timed(lambda: sliding_window_attention(query, key, value, WINDOW, global_tokens=1))


def mamba(length: int) -> Callable[[], float]:
    layer = Mamba(MAMBA)
    x = torch.randn(1, length, MAMBA.d_model, requires_grad=True)
    return timed(lambda: layer(x))


CONTENDERS = {
    "attention": full,
    "linear": linear,
    "causal": causal,
    "window": window,
    "Mamba": mamba,
}


def exponent(by_length: dict[int, list[float]]) -> float:
    """The slope of the line through the medians, in logarithms."""
    lengths = [math.log(length) for length in by_length]
    seconds = [math.log(statistics.median(rounds)) for rounds in by_length.values()]
    return statistics.linear_regression(lengths, seconds).slope


# --- What is printed ------------------------------------------------------------------------------


def show(
    found: dict[str, dict[int, list[float]]], exponents: dict[str, float], rounds: int
) -> None:
    """A row for each contender, a column for each length, and the exponent."""
    lines = table(
        [""],
        [*(f"{length:,}" for length in LENGTHS), "exponent"],
        f"Milliseconds forward and backward, medians of {rounds}",
    )
    for name, by_length in found.items():
        milliseconds = [
            f"{1e3 * statistics.median(by_length[length]):,.1f}" if length in by_length else "–"
            for length in LENGTHS
        ]
        lines.add_row(name, *milliseconds, f"{exponents[name]:.2f}")
    console.print(lines)


if __name__ == "__main__":
    main()
