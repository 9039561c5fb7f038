"""What flash attention saves in memory, and what it costs in time, beside the attention of day 8.

One head of width 64, float32, no mask but where it says causal, on one thread of the CPU; flash attention
with its usual block of 64. Two things are measured:

    memory      the most that a process holds during the call beyond what it held before, when the inputs
                were there already: as the system counts it (VmHWM, set back right before the call), in
                a process of its own for each figure. Forward: the call without gradients. Both: the call
                and its backward pass. To the figures of flash attention from 1,024 to 32,768 tokens
                c·T^e is fitted.
    time        at 4,096 tokens, forward, and both. The contenders take turns, each round begins with the
                other one, and the ratio is that of the same round.

At 16,384 tokens day 8's attention must need at least 20 times as much memory, the exponent e must be at
most 1.1, and flash attention must take at most 1.5 times as long. Day 8 is not measured at 32,768 tokens,
where both passes need some 12 GiB. Times are CPU seconds of the process. The load of the machine is
printed.

    python benchmarks/flash.py
    python benchmarks/flash.py --rounds 9 --json flash.json
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch
from rounds import console, in_turns, in_words, machine_with, ratios, show_machine, table, write
from torch import Tensor

from implementation import attention, subsequent_mask
from variants.flash import flash_attention

WIDTH = 64
LENGTHS = [2**power for power in range(10, 16)]
LONG, TIMED = 16384, 4096
FLASH, DAY_8 = "flash", "day 8"
FORWARD, BOTH = "forward", "both"

LESS_MEMORY, EXPONENT, SLOWER = 20, 1.1, 1.5


def main() -> None:
    """Measure, print and assert."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    options.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # in a process of its own
    given = options.parse_args()

    torch.set_num_threads(1)
    if given.one:
        way, passes, length = given.one
        print(extra_bytes(way, passes, int(length)))
        return
    load = os.getloadavg()[0]
    memory = {
        f"{way}, {passes}": {
            length: measured(way, passes, length)
            for length in LENGTHS
            if way == FLASH or length <= LONG
        }
        for way in (FLASH, DAY_8)
        for passes in (FORWARD, BOTH)
    }
    times = {
        (passes, causal): in_turns(
            {way: partial(seconds, way, passes, causal) for way in (FLASH, DAY_8)}, given.rounds
        )
        for passes in (FORWARD, BOTH)
        for causal in (False, True)
    }
    show_machine({**machine_with(torch.device("cpu")), "load": f"{load:.1f}"})
    less, steepest = show_memory(memory)
    slowest = show_times(times, given.rounds)
    words = {f"{passes}, causal {causal}": found for (passes, causal), found in times.items()}
    write({"load": load, "memory": memory, "seconds": words}, given.json)
    assert less >= LESS_MEMORY, f"at {LONG:,} tokens day 8 needs only {less:.1f} times the memory"
    assert steepest <= EXPONENT, f"memory grows with the power {steepest:.3f} of the length"
    assert slowest <= SLOWER, f"flash attention takes {slowest:.2f} times as long"


# --- What is measured -----------------------------------------------------------------------------


def attend(way: str, inputs: list[Tensor], causal: bool) -> Tensor:
    """The output of one of the two."""
    if way == FLASH:
        return flash_attention(*inputs, causal=causal)
    mask = subsequent_mask(inputs[0].size(-2)) if causal else None
    output, _ = attention(*inputs, mask)
    return output


def run(way: str, passes: str, inputs: list[Tensor], causal: bool = False) -> None:
    """Forward, or both passes."""
    with torch.set_grad_enabled(passes == BOTH):
        output = attend(way, inputs, causal)
    if passes == BOTH:
        output.sum().backward()


def random_inputs(length: int) -> list[Tensor]:
    """Queries, keys and values of one head."""
    return [torch.randn(1, 1, length, WIDTH).requires_grad_() for _ in range(3)]


def measured(way: str, passes: str, length: int) -> int:
    """`extra_bytes` in a process of its own."""
    command = [sys.executable, __file__, "--one", way, passes, str(length)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def extra_bytes(way: str, passes: str, length: int) -> int:
    """The most that this process holds during a call beyond what it holds before."""
    run(way, passes, random_inputs(128))  # what torch makes at a first call
    inputs = random_inputs(length)
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is what there is now
    before = in_status("VmRSS")
    run(way, passes, inputs)
    return in_status("VmHWM") - before


def in_status(name: str) -> int:
    """A line of Linux' account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def seconds(way: str, passes: str, causal: bool) -> float:
    """How long one call takes."""
    inputs = random_inputs(TIMED)
    started = time.process_time()
    run(way, passes, inputs, causal)
    return time.process_time() - started


def exponent(figures: dict[int, int]) -> float:
    """e of the c·T^e that lies nearest to the figures, as logarithms."""
    lengths, sizes = (
        [math.log(x) for x in column] for column in zip(*figures.items(), strict=True)
    )
    return statistics.linear_regression(lengths, sizes).slope


# --- What is printed -------------------------------------------------------------------------------


def show_memory(memory: dict[str, dict[int, int]]) -> tuple[float, float]:
    """A table. Returned are the smallest ratio at the long length, and the largest exponent of flash."""
    lines = table(["tokens"], list(memory), "The most that is held beyond the inputs")
    for length in LENGTHS:
        sizes = [figures.get(length) for figures in memory.values()]
        lines.add_row(f"{length:,}", *("" if size is None else in_mib(size) for size in sizes))
    exponents = {name: exponent(figures) for name, figures in memory.items()}
    lines.add_row("exponent", *(f"{power:.3f}" for power in exponents.values()))
    console.print(lines)
    less = {
        passes: memory[f"{DAY_8}, {passes}"][LONG] / memory[f"{FLASH}, {passes}"][LONG]
        for passes in (FORWARD, BOTH)
    }
    told = ", ".join(f"{passes} {ratio:.0f}" for passes, ratio in less.items())
    console.print(f"At {LONG:,} tokens day 8 needs this many times the memory: {told}\n")
    return min(less.values()), max(exponents[f"{FLASH}, {passes}"] for passes in (FORWARD, BOTH))


def in_mib(size: int) -> str:
    """Small sizes with a digit more."""
    return in_words(size) if size >= 100 * 2**20 else f"{size / 2**20:.1f} MiB"


def show_times(times: dict[tuple[str, bool], dict[str, list[float]]], rounds: int) -> float:
    """A table. Returned is the largest ratio."""
    columns = ["flash, s", "day 8, s", "ratio", "range"]
    lines = table(["", "mask"], columns, f"{TIMED:,} tokens, medians of {rounds}")
    largest = 0.0
    for (passes, causal), found in times.items():
        each = ratios(found[FLASH], found[DAY_8])
        ratio = statistics.median(each)
        largest = max(largest, ratio)
        lines.add_row(
            passes,
            "causal" if causal else "none",
            *(f"{statistics.median(found[way]):.3f}" for way in (FLASH, DAY_8)),
            f"{ratio:.2f}",
            f"{min(each):.2f}–{max(each):.2f}",
        )
    console.print(lines)
    return largest


if __name__ == "__main__":
    main()
