"""What the pictures of a study share: panels, axes, the legend, and what could not be drawn."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from laboratory.report.comparison import Compared, where
from laboratory.report.style import WIDTH, Look, columns, legend, logarithmic, plain, short
from laboratory.study.description import Picture

TITLE = 0.55  # inches of a panel's title and of its axis
LEGEND = 0.3  # inches of a row of the legend
LETTERS = 58  # of a line below a picture
NARROW = 28  # letters of a line beside it
BEYOND = 5  # times the median: what is larger would press all else together


def grid_of(count: int, height: float, rows: int, beside: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels with the same axes, so that they can be compared.

    Args:
        count: how many.
        height: of each, in inches.
        rows: of the legend.
        beside: how many stand beside each other.
    """
    below = math.ceil(count / beside)
    figure, axes = plt.subplots(
        below,
        beside,
        figsize=(WIDTH, below * height + TITLE + rows * LEGEND),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    panels = list(axes.flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def rows_of(compared: Compared) -> int:
    """How many rows the legend takes."""
    return math.ceil(len(compared.study.variants) / columns(compared.study.variants))


def scale(plot: Axes, axis: str, picture: Picture, compared: Compared) -> None:
    """The axis of the picture's figure: logarithmic if it asks for that, and else cut where a run that got
    out of hand would press all others together.
    """
    if picture.logy:
        logarithmic(plot, axis)
        return
    (plot.yaxis if axis == "y" else plot.xaxis).set_major_locator(MaxNLocator(6))
    plain(plot, axis)
    highest = roof(compared, picture)
    if math.isfinite(highest):
        lowest = min(value for value in _drawn(compared, picture))
        low, high = lowest - 0.05 * (highest - lowest), highest + 0.05 * (highest - lowest)
        plot.set_ylim(low, high) if axis == "y" else plot.set_xlim(low, high)


def roof(compared: Compared, picture: Picture) -> float:
    """The largest value that the axis shows; ∞ where all are near enough to each other."""
    values = _drawn(compared, picture)
    most = BEYOND * statistics.median(values) if values else 0.0
    return math.inf if max(values, default=0.0) <= most else max(v for v in values if v <= most)


def _drawn(compared: Compared, picture: Picture) -> list[float]:
    runs = (
        compared.values(picture.y, v, p)
        for v in compared.study.variants
        for p in compared.study.points
    )
    return [value for run in runs for value in run.values() if math.isfinite(value) and value > 0]


def _beyond(compared: Compared, picture: Picture) -> Iterator[str]:
    highest = roof(compared, picture)
    if picture.logy:
        return
    for side in compared.sides(picture.y):
        if side.spread is not None and side.spread.high > highest:
            at = f" at {where(side.point)}" if side.point else ""
            yield f"{side.variant}{at} (up to {short(float(f'{side.spread.high:.2g}'))})"


def finish(
    figure: Figure,
    compared: Compared,
    picture: Picture,
    drawn: dict[str, Look],
    words: str = "",
    line: bool = True,
) -> None:
    """The legend, the name of the vertical axis, and what could not be drawn."""
    if drawn:
        legend(figure, drawn, line)
        told = textwrap.fill(words or words_of(compared, picture.y), NARROW)
        figure.supylabel(told, fontsize=10.5)
    lost, beyond = list(_not_drawn(compared, picture)), list(_beyond(compared, picture))
    notes = [f"not drawn: {'; '.join(lost)}"] if lost else []
    notes += [f"beyond the axis: {'; '.join(beyond)}"] if beyond else []
    if notes:
        told = "\n".join(textwrap.fill(note, LETTERS) for note in notes)
        figure.supxlabel(told, x=0.01, ha="left", fontsize=9.5)


def _not_drawn(compared: Compared, picture: Picture) -> Iterator[str]:
    for variant in compared.study.variants:
        names = (picture.y,) if picture.kind != "scatter" else (picture.x, picture.y)
        sides = [
            compared.side(name, variant, point) for point in compared.study.points for name in names
        ]
        lost = unique(
            {"at": where(side.point), "diverged": side.diverged > 0}
            for side in sides
            if side.runs and (side.spread is None or side.spread.diverged)
        )
        if lost:
            at = ", ".join(str(one["at"]) for one in lost if one["at"])
            why = " (diverged)" if all(one["diverged"] for one in lost) else ""
            yield f"{variant}{f' at {at}' if at else ''}{why}"


def words_of(compared: Compared, name: str) -> str:
    """What a figure, or a part of the point, is called."""
    found = {figure.name: figure.label for figure in compared.study.figures}
    return found.get(name, name.replace("_", " "))


def unique(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, in their order."""
    rows: list[dict[str, Any]] = []
    for one in found:
        if one not in rows:
            rows.append(one)
    return rows
