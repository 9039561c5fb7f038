"""What a study costs: how long its cells take on this machine, and how long is left."""

from __future__ import annotations

import math
import statistics
import time

import torch

from laboratory.study.description import Cell
from laboratory.study.results import Results
from variants.gpt import GPT, GPTConfig

ROUNDS = 15
START = 2e9  # multiply-adds that a cell's start and its measuring are worth


def weight(cell: Cell) -> float:
    """About how many multiply-adds a cell takes: 3 passes over 12·L·d² parameters and the scores (Kaplan et
    al. 2020, table 1)."""
    settings = cell.settings
    tokens = settings.steps * settings.accumulate * settings.batch * settings.context
    parameters = settings.layers * settings.d_model * (4 * settings.d_model + 2 * settings.d_ff)
    scores = 2 * settings.layers * settings.context * settings.d_model
    return START + 3.0 * tokens * (parameters + scores)


def yardstick() -> float:
    """Seconds of a core that a training step of a small GPT takes, to compare machines by: a median."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            return _step()
    finally:
        torch.set_num_threads(threads)


def _step() -> float:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab=64, context=64, n_layers=2, n_heads=4, d_model=64, d_ff=256))
    tokens = torch.randint(64, (16, 64))
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        model(tokens).logsumexp(-1).sum().backward()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def seconds_here(results: Results, processes: int, step: float) -> float | None:
    """How long a study that has results would take here; None where they do not say what it took.

    Args:
        results: with the time of each cell where they were made.
        processes: side by side.
        step: the yardstick here.
    """
    there = sum(seen.timed.get("core_seconds", math.nan) for seen in results.cells)
    if math.isnan(there):
        return None
    return there * step / float(results.made["yardstick"]) / processes
