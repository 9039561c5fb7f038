"""Memory and time of flash attention, beside the attention of day 8.

One head of width 64, float32, on one thread of the CPU; flash attention with its default block of 64.

    memory      peak memory of the process during the call beyond what it held before, inputs included
                (VmHWM), in a process of its own. Forward: the call without gradients. Both: the call and
                its backward pass. c·T^e is fitted to the figures at 1,024 to 32,768 tokens.
    time        CPU seconds at 4,096 tokens, forward and both, alternating; ratios of the same round.

At 16,384 tokens day 8's attention must need at least 20 times as much memory, e must be at most 1.1, and
flash attention must take at most 1.5 times as long. Day 8 is not measured at 32,768 tokens, where both passes
need some 12 GiB.

    python benchmarks/flash.py
"""

from __future__ import annotations

from functools import partial

import frame
import torch
from torch import Tensor

from implementation import attention, subsequent_mask
from variants.flash import flash_attention

LENGTHS = [2**power for power in range(10, 16)]
LONG, TIMED = 16384, 4096
FLASH, DAY_8 = "flash", "day 8"
PASSES = FORWARD, BOTH = "forward", "both"
LESS_MEMORY, EXPONENT, SLOWER = 20, 1.1, 1.5


def main() -> None:
    """Measure, print and assert."""
    args = frame.options(__doc__, rounds=5).parse_args()
    if args.one:
        torch.set_num_threads(1)
        print(extra_bytes(*args.one))
        return
    frame.on_one_thread(33)
    cases = [(way, passes) for way in (FLASH, DAY_8) for passes in PASSES]
    memory = {case: memory_of(*case) for case in cases}
    lines = frame.table(["tokens"], [", ".join(case) for case in cases], "Peak memory")
    for length in LENGTHS:
        sizes = [memory[case].get(length) for case in cases]
        lines.add_row(
            f"{length:,}", *("" if size is None else frame.in_mib(size) for size in sizes)
        )
    exponents = {case: frame.exponent(memory[case]) for case in cases}
    lines.add_row("exponent", *(f"{value:.3f}" for value in exponents.values()))
    frame.console.print(lines)
    for passes in PASSES:
        less = memory[DAY_8, passes][LONG] / memory[FLASH, passes][LONG]
        frame.console.print(f"At {LONG:,} tokens, {passes}: day 8 needs {less:.0f} times as much")
        assert less >= LESS_MEMORY and exponents[FLASH, passes] <= EXPONENT
        for causal in (False, True):
            acts = {way: partial(seconds, way, passes, causal) for way in (DAY_8, FLASH)}
            title = f"{TIMED:,} tokens, {passes}{', causal' * causal}, medians of {args.rounds}"
            times = frame.compare(title, frame.in_turns(acts, args.rounds), DAY_8)[FLASH]
            assert times <= SLOWER, f"flash attention takes {times:.2f} times as long"


def memory_of(way: str, passes: str) -> dict[int, int]:
    """Return the bytes of a call by the number of tokens, each in a process of its own."""
    lengths = [length for length in LENGTHS if way == FLASH or length <= LONG]
    return {length: frame.in_a_process(__file__, way, passes, str(length)) for length in lengths}


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
    return [torch.randn(1, 1, length, 64).requires_grad_() for _ in range(3)]


def extra_bytes(way: str, passes: str, length: str) -> int:
    """Return this process's peak during a call beyond what it held before."""
    run(way, passes, random_inputs(128))  # what torch allocates at a first call
    inputs = random_inputs(int(length))
    before = frame.start_peak()
    run(way, passes, inputs)
    return frame.peak() - before


def seconds(way: str, passes: str, causal: bool) -> float:
    """Return the CPU seconds of one call."""
    inputs = random_inputs(TIMED)
    return frame.cpu_seconds(lambda: run(way, passes, inputs, causal))


if __name__ == "__main__":
    main()
