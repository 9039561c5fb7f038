"""Contenders in turn, round after round, on which machine that was, and how it is told.

A machine is not equally fast all the time, so figures are compared that come from the same round.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from training.cores import cores

Figure = TypeVar("Figure")
Facts = dict[str, str | int]

console = Console(soft_wrap=True, highlight=False)


# --- Turns ----------------------------------------------------------------------------------------


def in_turns(contenders: dict[str, Callable[[], Figure]], rounds: int) -> dict[str, list[Figure]]:
    """What every contender gave in every round. Each round begins with another one."""
    given: dict[str, list[Figure]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            given[name].append(contenders[name]())
    return given


def in_long_turns(
    contenders: dict[str, Callable[[int], float]], rounds: int, turn: float
) -> dict[str, list[float]]:
    """The same of contenders that take a number of goes at once: equally many for all, as many as the first
    can in the seconds of a turn, but at least one."""
    for go in contenders.values():
        go(3)  # allocations, the choice of kernels, perhaps compilation
    first = next(iter(contenders.values()))
    started = time.perf_counter()
    first(2)
    goes = max(1, round(turn / ((time.perf_counter() - started) / 2)))
    return in_turns({name: partial(go, goes) for name, go in contenders.items()}, rounds)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Within it, so many processes compute without a pause."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def ratios(over: list[float], under: list[float]) -> list[float]:
    """One contender's figures over another's, round by round."""
    return [one / other for one, other in zip(over, under, strict=True)]


# --- The machine ----------------------------------------------------------------------------------


def machine() -> Facts:
    """Where the figures come from."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "python": platform.python_version(),
    }


def machine_with(device: torch.device) -> Facts:
    """Where the figures come from that torch computed."""
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device}, {chip}",
        **machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


# --- What is told ---------------------------------------------------------------------------------


def show_machine(facts: Facts) -> None:
    """In one line."""
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()))


def table(words: list[str], numbers: list[str], title: str | None = None) -> Table:
    """A table without rows: columns of words, then columns of numbers. A narrow terminal cuts nothing off."""
    empty = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in words:
        empty.add_column(column, overflow="fold")
    for column in numbers:
        empty.add_column(column, justify="right", overflow="fold")
    return empty


def in_words(size: float | None) -> str:
    """Bytes as MiB."""
    return "unmeasured" if size is None else f"{size / 2**20:,.0f} MiB"


def write(figures: object, file: Path | None) -> None:
    """Figures as JSON, if a file is named."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
