"""What doubling the steps is worth: then a difference at equal steps can be read at equal time as well."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import numpy as np

from laboratory.report.claims import SAME, UNTOLD, verdict
from laboratory.report.comparison import Compared, Side, where
from laboratory.report.digits import number, places, signed, significant
from laboratory.report.statistics import mean_of
from laboratory.report.tables import lines
from laboratory.study.description import Figure, Point

HEADS = "worth in steps", "time", "difference at equal time (95% interval)"


def paragraphs(compared: Compared) -> Iterator[str]:
    """Of the loss, or of the main figure: its exchange rate, and each difference at equal time."""
    judged = [candidate for candidate in compared.noisy if candidate.better == "lower"]
    if not compared.compares or not judged:
        return
    study, figure = (
        compared.study,
        next((candidate for candidate in judged if candidate.name == "loss"), judged[0]),
    )
    if not study.twice:
        yield f"What doubling the steps of `{study.baseline}` is worth was not measured."
        return
    rates = []
    rows = []
    for point in study.points:
        worth = compared.against(figure.name, study.twice, study.baseline, point)
        if worth is None or not worth.high < 0:
            continue  # it was not run, or twice the steps are not better
        digits = places(worth.high - worth.mean, figure.digits)
        low, mean, high = (number(-value, digits) for value in (worth.high, worth.mean, worth.low))
        at = f" at {where(point)}" if point else ""
        rates.append(f"{mean} ({low} to {high}){at}")
        rows += [
            _row(compared, figure, side, worth.mean)
            for side in _rivals(compared, figure)
            if side.point == point
        ]
    if not rates:
        yield f"**At equal time.** Twice the steps, `{study.twice}`, are not better: nothing can be said."
        return
    tuned = ", at its own best learning rate" if study.learning_rates else ""
    name = f"`{study.baseline}`"
    yield (
        f"**At equal time.** With twice the steps (`{study.twice}`{tuned}), the {figure.words} of {name} "
        f"is lower by {'; '.join(rates)}. The table assumes that every doubling lowers it equally. It shows "
        f"how many times the steps of {name} each difference is worth, the training time in multiples "
        f"of that of {name}, and an estimate of the difference if {name} were trained for as much time. "
        "These intervals are not corrected for the number of comparisons."
    )
    yield "\n".join(lines(["variant", *HEADS], rows))


def _rivals(compared: Compared, figure: Figure) -> list[Side]:
    """The variants that differ from the baseline, at each point that they have."""
    sides = [side for side in compared.sides(figure.name) if side.against]
    return [side for side in sides if verdict(figure, side.against) not in (SAME, UNTOLD)]


def _name(side: Side) -> str:
    return f"`{side.variant}`{f' at {where(side.point)}' if side.point else ''}"


def _row(compared: Compared, figure: Figure, side: Side, worth: float) -> list[str]:
    """A variant's name, what its difference is worth, what it costs, and its difference at equal time."""
    study = compared.study
    own, base, longer = (
        compared.blocks(figure.name, variant, side.point)
        for variant in (side.variant, study.baseline, study.twice)
    )
    assert side.against is not None
    steps = 2 ** (side.against.mean / worth)
    cells = [_name(side), significant(steps) if steps >= 0.5 else "below 0.5"]
    ratio = _ratio(compared, side.variant, side.point)
    if math.isnan(ratio):
        return [*cells, "not measured", "—"]
    equal = mean_of(
        [
            np.subtract(own[seed], base[seed])
            - np.subtract(longer[seed], base[seed]) * math.log2(ratio)
            for seed in own.keys() & base.keys() & longer.keys()
        ]
    )
    mean, (low, high) = equal.value, equal.interval
    digits = places((high - low) / 2, figure.digits)
    texts = [signed(value, digits) for value in (mean, low, high)]
    return [*cells, significant(ratio, 3), f"{texts[0]} ({texts[1]} to {texts[2]})"]


def _ratio(compared: Compared, variant: str, point: Point) -> float:
    """How many times as long as the baseline a variant was trained; the median over the seeds.

    In core-seconds on the CPU, and NaN where one of the two lacks them: a shared machine's clock measures its
    other processes as well. By the clock on a GPU.
    """
    own, base = (
        {run.seed: run.timed for run in compared.runs(name, point)}
        for name in (variant, compared.study.baseline)
    )
    key, times = "seconds", 1.0
    if compared.results.provenance["device"] == "cpu":
        steps = {
            cell.variant: cell.settings.steps
            for cell in compared.study.cells
            if dict(cell.point) == point
        }
        key, times = "step_core_seconds", steps[variant] / steps[compared.study.baseline]
    shared = own.keys() & base.keys()
    ratios = [
        times * own[seed].get(key, math.nan) / base[seed].get(key, math.nan) for seed in shared
    ]
    return statistics.median(ratios)
