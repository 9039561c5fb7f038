"""Memory and time of flash attention, beside the attention of day 8.

One head of width 64, float32, on one thread of the CPU, no mask unless it says causal; flash attention with
its default block of 64.

    memory      peak memory of the process during the call beyond what it held before, inputs included
                (VmHWM), in a process of its own. Forward: the call without gradients. Both: the call and
                its backward pass. c·T^e is fitted to flash attention's figures at 1,024 to 32,768 tokens.
    time        CPU seconds at 4,096 tokens, forward and both, alternating; ratios of the same round.

At 16,384 tokens day 8's attention must need at least 20 times as much memory, e must be at most 1.1, and
flash attention must take at most 1.5 times as long. Day 8 is not measured at 32,768 tokens, where both passes
need some 12 GiB.

    python benchmarks/flash.py
"""

from __future__ import annotations

import statistics
from functools import partial

import frame
import torch
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
    given = frame.options(__doc__, rounds=5).parse_args()
    if given.one:
        torch.set_num_threads(1)
        print(extra_bytes(*given.one))
        return
    facts = frame.on_one_thread(33)
    memory = {
        f"{way}, {passes}": {
            length: frame.in_a_process(__file__, way, passes, str(length))
            for length in LENGTHS
            if way == FLASH or length <= LONG
        }
        for way in (FLASH, DAY_8)
        for passes in (FORWARD, BOTH)
    }
    times = {
        f"{passes}, {mask}": frame.in_turns(
            {way: partial(seconds, way, passes, mask) for way in (FLASH, DAY_8)}, given.rounds
        )
        for passes in (FORWARD, BOTH)
        for mask in ("no mask", "causal")
    }
    less, steepest = show_memory(memory)
    slowest = show_times(times, given.rounds)
    frame.write({"machine": facts, "memory": memory, "seconds": times}, given.json)
    assert less >= LESS_MEMORY, f"at {LONG:,} tokens day 8 needs only {less:.1f} times the memory"
    assert steepest <= EXPONENT, f"memory grows with the power {steepest:.3f} of the length"
    assert slowest <= SLOWER, f"flash attention takes {slowest:.2f} times as long"


def run(way: str, passes: str, inputs: list[Tensor], causal: bool = False) -> None:
    """Call one of the two, forward or both passes."""
    with torch.set_grad_enabled(passes == BOTH):
        if way == FLASH:
            output = flash_attention(*inputs, causal=causal)
        else:
            mask = subsequent_mask(inputs[0].size(-2)) if causal else None
            output, _ = attention(*inputs, mask)
    if passes == BOTH:
        output.sum().backward()


def random_inputs(length: int) -> list[Tensor]:
    """Return queries, keys and values of one head."""
    return [torch.randn(1, 1, length, WIDTH).requires_grad_() for _ in range(3)]


def extra_bytes(way: str, passes: str, length: str) -> int:
    """Return this process's peak during a call beyond what it held before."""
    run(way, passes, random_inputs(128))  # what torch allocates at a first call
    inputs = random_inputs(int(length))
    before = frame.start_peak()
    run(way, passes, inputs)
    return frame.peak() - before


def seconds(way: str, passes: str, mask: str) -> float:
    """Return the CPU seconds of one call."""
    inputs = random_inputs(TIMED)
    return frame.cpu_seconds(lambda: run(way, passes, inputs, mask == "causal"))


def show_memory(memory: dict[str, dict[int, int]]) -> tuple[float, float]:
    """Print a table. Return the smallest ratio at the long length, and the largest exponent of flash."""
    lines = frame.table(["tokens"], list(memory), "Peak memory beyond the inputs")
    for length in LENGTHS:
        sizes = [figures.get(length) for figures in memory.values()]
        lines.add_row(
            f"{length:,}", *("" if size is None else frame.in_mib(size) for size in sizes)
        )
    exponents = {name: frame.exponent(figures) for name, figures in memory.items()}
    lines.add_row("exponent", *(f"{power:.3f}" for power in exponents.values()))
    frame.console.print(lines)
    less = {
        passes: memory[f"{DAY_8}, {passes}"][LONG] / memory[f"{FLASH}, {passes}"][LONG]
        for passes in (FORWARD, BOTH)
    }
    told = ", ".join(f"{passes} {ratio:.0f}" for passes, ratio in less.items())
    frame.console.print(f"At {LONG:,} tokens day 8 needs this many times the memory: {told}\n")
    return min(less.values()), max(exponents[f"{FLASH}, {passes}"] for passes in (FORWARD, BOTH))


def show_times(times: dict[str, frame.Taken], rounds: int) -> float:
    """Print a table. Return the largest ratio."""
    columns = ["flash, s", "day 8, s", "ratio", "range"]
    lines = frame.table([""], columns, f"{TIMED:,} tokens, medians of {rounds}")
    by_case = {case: frame.ratios(found[FLASH], found[DAY_8]) for case, found in times.items()}
    for case, found in times.items():
        medians = (f"{statistics.median(found[way]):.3f}" for way in (FLASH, DAY_8))
        lines.add_row(case, *medians, *frame.middle(by_case[case]))
    frame.console.print(lines)
    return max(map(statistics.median, by_case.values()))


if __name__ == "__main__":
    main()
