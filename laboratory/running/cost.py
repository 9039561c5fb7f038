"""What a study costs: the size of a cell, and the time of a core that the cells took."""

from __future__ import annotations

import math

from laboratory.study.description import Cell, Study
from laboratory.study.results import Results

START = 2e9  # multiply-adds that a cell's start and its measuring are worth


def weight(cell: Cell) -> float:
    """About how many multiply-adds a cell takes: 3 passes over 12·L·d² parameters and the scores (Kaplan et
    al. 2020, table 1)."""
    settings = cell.settings
    tokens = settings.steps * settings.accumulate * settings.batch * settings.context
    parameters = settings.layers * settings.d_model * (4 * settings.d_model + 2 * settings.d_ff)
    scores = 2 * settings.layers * settings.context * settings.d_model
    return START + 3.0 * tokens * (parameters + scores)


def core_minutes(study: Study, results: Results) -> float:
    """How long a core took for the cells of the results, and about as long for each of the trials: minutes;
    NaN where they do not say."""
    cells = sum(cell.timed.get("core_seconds", math.nan) for cell in results.cells)
    return cells / 60 * (1 + len(study.trials) / len(study.cells))
