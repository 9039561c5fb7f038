"""What the pictures of a study share: panels, axes, the legend, and what could not be drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from laboratory.comparing import Compared, where
from laboratory.study import Picture
from laboratory.style import WIDTH, Look, columns, legend, logarithmic, plain

TITLE = 0.55  # inches of a panel's title and of its axis
LEGEND = 0.3  # inches of a row of the legend
LETTERS = 58  # of a line below a picture
NARROW = 28  # letters of a line beside it


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


def scale_y(plot: Axes, picture: Picture) -> None:
    """The vertical axis, as the picture asks for it."""
    if picture.logy:
        logarithmic(plot, "y")
    else:
        plot.yaxis.set_major_locator(MaxNLocator(6))
        plain(plot, "y")


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
    if lost := list(_not_drawn(compared, picture)):
        told = textwrap.fill("not drawn: " + "; ".join(lost), LETTERS)
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
    found = {figure.name: figure.words for figure in compared.study.figures}
    return found.get(name, name.replace("_", " "))


def unique(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, in their order."""
    rows: list[dict[str, Any]] = []
    for one in found:
        if one not in rows:
            rows.append(one)
    return rows
