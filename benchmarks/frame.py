"""The frame of all benchmarks: options, contenders that alternate, medians and ratios, the machine, tables.

The speed of a machine changes with time, so a ratio compares two figures of the same round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from training.cores import cores
from training.devices import ProcessContext

Figure = TypeVar("Figure")
Taken = dict[str, list[float]]
"""The figures of every contender, by round."""
Row = dict[str, Any]
"""What was measured, and its figures by name."""

CPU = torch.device("cpu")
console = Console(soft_wrap=True, highlight=False)


# --- Options and processes ------------------------------------------------------------------------


def options(doc: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return a parser, with `--rounds` if the benchmark has rounds."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds:
        parser.add_argument(
            "--rounds", type=int, default=rounds, help=f"of each contender, {rounds} by default"
        )
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)  # see `in_a_process`
    return parser


def in_a_process(script: str, *case: str, **environment: str) -> Any:
    """Run `script --one case` in a process of its own, and return the JSON that it prints."""
    command = [sys.executable, script, "--one", *case]
    around = os.environ | environment
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=around)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


# --- Measuring ------------------------------------------------------------------------------------


def in_turns(contenders: dict[str, Callable[[], Figure]], rounds: int) -> dict[str, list[Figure]]:
    """Return each contender's figures by round. Each round begins with a different contender."""
    taken: dict[str, list[Figure]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(contenders[name]())
    return taken


def seconds_of(act: Callable[[], object], device: torch.device, times: int = 1) -> float:
    """Return the seconds of one call, averaged over several; on CUDA between two events."""
    if device.type != "cuda":
        started = time.perf_counter()
        for _ in range(times):
            act()
        return (time.perf_counter() - started) / times
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    start.record()
    for _ in range(times):
        act()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times


def in_long_turns(
    acts: Mapping[str, Callable[[], object]], device: torch.device, rounds: int, turn: float
) -> Taken:
    """Return the seconds of one call of each contender by round. A turn repeats its call for about `turn`
    seconds, at least once."""
    timed = {}
    for name, act in acts.items():
        seconds_of(act, device, 2)  # allocations, the choice of kernels, perhaps compilation
        goes = max(1, round(turn / seconds_of(act, device)))
        timed[name] = partial(seconds_of, act, device, goes)
    return in_turns(timed, rounds)


def cpu_seconds(act: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, which other programs disturb less than they do the clock."""
    started = time.process_time()
    act()
    return time.process_time() - started


def timed_in_turns(acts: Mapping[str, Callable[[], object]], rounds: int) -> Taken:
    """Return the CPU seconds of each contender by round, after one call that is not timed."""
    for act in acts.values():
        act()  # allocations, the choice of kernels
    return in_turns({name: partial(cpu_seconds, act) for name, act in acts.items()}, rounds)


def start_peak(device: torch.device = CPU) -> int:
    """Begin to measure peak memory, and return the bytes in use now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    Path("/proc/self/clear_refs").write_text("5")
    return _in_status("VmRSS")


def peak(device: torch.device = CPU) -> int:
    """Return the maximum of bytes in use since `start_peak`: by PyTorch on CUDA, else by the process."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _in_status("VmHWM")


def extra_bytes(act: Callable[[], object], device: torch.device) -> int | None:
    """Return the peak of a call beyond what is allocated before it; None on the CPU."""
    if device.type != "cuda":
        return None
    before = start_peak(device)
    act()
    torch.cuda.synchronize(device)
    return peak(device) - before


def storages(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of tensors, shared ones once."""
    each = {
        storage.data_ptr(): storage.nbytes() for storage in (t.untyped_storage() for t in tensors)
    }
    return sum(each.values())


def _in_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def parameters(module: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


# --- Figures --------------------------------------------------------------------------------------


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Return one contender's figures over the other's, by round."""
    return [figure / other for figure, other in zip(over, under, strict=True)]


def middle(figures: list[float], digits: int = 2) -> tuple[str, str]:
    """Return two cells: the median and the range."""
    lowest, highest = min(figures), max(figures)
    return (
        f"{statistics.median(figures):.{digits}f}",
        f"{lowest:.{digits}f}–{highest:.{digits}f}",
    )


def exponent(by_length: Mapping[int, float]) -> float:
    """Return e of the c·T^e with the least squared error in logarithms."""
    lengths, figures = (
        [math.log(value) for value in column] for column in zip(*by_length.items(), strict=True)
    )
    return statistics.linear_regression(lengths, figures).slope


def beside(
    acts: Mapping[str, Callable[[], object]],
    device: torch.device,
    seconds: float,
    tokens: int = 0,
    flops: float = 0.0,
) -> list[Row]:
    """Return a row for each contender, whose time is compared with that of the first.

    Args:
        seconds: that five rounds may take; 0 takes a single round.
        tokens: of one call, if it counts tokens.
        flops: of one call, if they are known.
    """
    peak_flops = ProcessContext(device).peak_flops
    extra, rows = {}, {}
    for name, act in acts.items():
        try:
            act()  # kernels are chosen and compiled
            extra[name] = extra_bytes(act, device) or 0
        except torch.OutOfMemoryError:
            rows[name] = {"what": name, "note": "out of memory"}
    rounds = 5 if seconds else 1
    fitting = {name: acts[name] for name in extra}
    taken = in_long_turns(fitting, device, rounds, seconds / rounds / max(1, len(fitting)))
    for name, times in taken.items():
        middle, first = statistics.median(times), next(iter(taken.values()))
        figures = {
            "tokens/s": tokens / middle,
            "ms": 1e3 * middle,
            "times": 0.0 if times is first else statistics.median(ratios(times, first)),
            "TFLOP/s": flops / middle / 1e12,
            "MFU": flops / middle / peak_flops if peak_flops else 0.0,
            "GiB": extra[name] / 2**30,
        }
        rows[name] = {"what": name} | {key: value for key, value in figures.items() if value}
    return [rows[name] for name in acts]


# --- The machine, and what is printed ---------------------------------------------------------------


def show_machine(device: torch.device | None = None) -> None:
    """Print facts of the machine, and of the device if torch computes, in one line."""
    facts: dict[str, str | int] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    if device is not None:
        chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
        threads = {"threads": torch.get_num_threads(), "torch": torch.__version__}
        facts = {"device": f"{device}, {chip}", **facts, **threads}
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))


def on_one_thread(seed: int) -> None:
    """Let torch compute on one thread of the CPU, from a seed; print the machine."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    show_machine(CPU)


def table(words: list[str], numbers: list[str], title: str | None = None) -> Table:
    """Return a table without rows: columns of words, then columns of numbers, which are never truncated."""
    empty = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in words:
        empty.add_column(column, overflow="fold")
    for column in numbers:
        empty.add_column(column, justify="right", overflow="fold")
    return empty


def compare(title: str, taken: Taken, base: str) -> dict[str, float]:
    """Print the seconds of each contender, and print and return their medians over those of `base`."""
    lines = table([""], ["seconds", f"times {base}", "range"], title)
    over = {name: ratios(times, taken[base]) for name, times in taken.items()}
    for name, times in taken.items():
        lines.add_row(name, middle(times, 3)[0], *middle(over[name]))
    console.print(lines)
    return {name: statistics.median(each) for name, each in over.items()}


def in_mib(size: float) -> str:
    """Return bytes as MiB, with a decimal if there are few."""
    return f"{size / 2**20:,.{0 if size >= 100 * 2**20 else 1}f} MiB"
