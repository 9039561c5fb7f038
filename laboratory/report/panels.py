"""The kinds of pictures that a study may ask for, each with its spread over the seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from laboratory.report.axes import TITLE, finish, grid_of, rows_of, scale, unique, words_of
from laboratory.report.comparison import Compared, Side, where
from laboratory.report.style import INK, QUIET, Look, logarithmic, looks, plain
from laboratory.study.description import Picture, Point

ROW = 0.29  # inches of a variant, where each has a row
PANEL = 2.3  # inches: the height of a panel
DODGE = 0.035  # of the least gap between two values, from one variant to the next


def against(compared: Compared, picture: Picture) -> Figure:
    """A figure over a part of the point: a line through the means, whiskers to the smallest and largest, each
    seed a dot. What else is in the point has a panel for each value."""
    study = compared.study
    values = sorted({float(point[picture.x]) for point in study.points})
    rest = unique({k: v for k, v in point.items() if k != picture.x} for point in study.points)
    figure, panels = grid_of(len(rest), PANEL, rows_of(compared))
    drawn = looks(study.variants, study.baseline)
    for plot, fixed in zip(panels, rest, strict=True):
        for number, (variant, look) in enumerate(drawn.items()):
            sides = [
                compared.side(picture.y, variant, point)
                for point in study.points
                if {k: v for k, v in point.items() if k != picture.x} == fixed
            ]
            _line(plot, compared, picture, sides, look, number - (len(drawn) - 1) / 2, values)
        plot.set_title(where(fixed))
        if picture.logx:
            logarithmic(plot, "x", values)
        plot.xaxis.set_major_locator(FixedLocator(values))
        plain(plot, "x")
        scale(plot, "y", picture, compared)
    panels[-1].set_xlabel(words_of(compared, picture.x))
    finish(figure, compared, picture, drawn)
    return figure


def _line(
    plot: Axes,
    compared: Compared,
    picture: Picture,
    sides: Sequence[Side],
    look: Look,
    steps: float,
    values: list[float],
) -> None:
    """A variant's line, a little beside the others' where they have the same value."""
    known = [side for side in sides if side.spread is not None and not side.spread.diverged]
    at = [_dodged(float(side.point[picture.x]), steps, values, picture.logx) for side in known]
    spreads = [side.spread for side in known if side.spread is not None]
    means = [one.mean for one in spreads]
    plot.plot(at, means, color=look.colour, linestyle=look.line, marker=look.mark, markersize=5.5)
    plot.vlines(at, [one.low for one in spreads], [one.high for one in spreads], look.colour, lw=1)
    for x, side in zip(at, known, strict=True):
        seeds = list(compared.values(picture.y, side.variant, side.point).values())
        plot.plot([x] * len(seeds), seeds, ".", color=look.colour, markersize=3.5, alpha=0.7)


def _dodged(value: float, steps: float, values: list[float], log: bool) -> float:
    if len(values) < 2:
        return value + steps * DODGE
    if log:
        gap = min(math.log(b / a) for a, b in itertools.pairwise(values))
        return value * math.exp(steps * DODGE * gap)
    return value + steps * DODGE * min(b - a for a, b in itertools.pairwise(values))


def dots(compared: Compared, picture: Picture) -> Figure:
    """A row for each variant: each seed a dot, the mean a stroke; a panel for each point."""
    study = compared.study
    height = ROW * len(study.variants) + TITLE
    figure, panels = grid_of(len(study.points), height, 0)
    drawn = looks(study.variants, study.baseline)
    for plot, point in zip(panels, study.points, strict=True):
        base = compared.side(picture.y, study.baseline, point).spread
        if base is not None and not base.diverged:
            plot.axvline(base.mean, color=QUIET, linewidth=1, linestyle=":")
        for row, (variant, look) in enumerate(drawn.items()):
            values = list(compared.values(picture.y, variant, point).values())
            plot.plot(
                values,
                [row] * len(values),
                look.mark,
                color=look.colour,
                alpha=0.75,
                markersize=5.5,
            )
            spread = compared.side(picture.y, variant, point).spread
            if spread is not None and not spread.diverged:
                plot.plot([spread.low, spread.high], [row, row], color=look.colour, linewidth=1)
                plot.vlines(spread.mean, row - 0.32, row + 0.32, INK, linewidth=1.6)
        plot.set_yticks(range(len(drawn)), list(drawn))
        plot.set_ylim(len(drawn) - 0.4, -0.6)
        plot.set_title(where(point))
        plot.grid(axis="y", visible=False)
        scale(plot, "x", picture, compared)
    panels[-1].set_xlabel(words_of(compared, picture.y))
    finish(figure, compared, picture, {})
    return figure


def curves(compared: Compared, picture: Picture) -> Figure:
    """Validation loss over the steps: the mean, and a band from the smallest seed to the largest."""
    study = compared.study
    beside = 2 if len(study.points) > 2 else 1
    figure, panels = grid_of(len(study.points), PANEL, rows_of(compared), beside)
    drawn = looks(study.variants, study.baseline)
    for plot, point in zip(panels, study.points, strict=True):
        for variant, look in drawn.items():
            steps, losses = _curve(compared, variant, point)
            if not steps:
                continue
            mean = losses.mean(0)
            few = look.mark if len(steps) < 12 else ""
            plot.plot(steps, mean, color=look.colour, linestyle=look.line, marker=few, markersize=4)
            plot.fill_between(
                steps, losses.min(0), losses.max(0), color=look.colour, alpha=0.18, linewidth=0
            )
        plot.set_title(where(point))
        plot.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        plain(plot, "x")
        if picture.logx:
            logarithmic(plot, "x")
        scale(plot, "y", picture, compared)
        plot.set_xlabel("step" if plot in panels[-beside:] else "")
    finish(figure, compared, picture, drawn, "validation loss")
    return figure


def _curve(compared: Compared, variant: str, point: Point) -> tuple[list[int], Any]:
    """The steps that all seeds have reached, and the losses `(seed, step)`."""
    found = [dict(one.curve) for one in compared.runs(variant, point)]
    finite = [
        {step for step, loss in curve.items() if math.isfinite(loss)} for curve in found if curve
    ]
    steps = sorted(set.intersection(*finite)) if finite else []
    return steps, np.array([[curve[step] for step in steps] for curve in found if curve])


def scatter(compared: Compared, picture: Picture) -> Figure:
    """Two figures against each other: each seed small, the mean large; a panel for each point."""
    study = compared.study
    figure, panels = grid_of(len(study.points), PANEL + 0.3, rows_of(compared))
    drawn = looks(study.variants, study.baseline)
    for plot, point in zip(panels, study.points, strict=True):
        for variant, look in drawn.items():
            xs, ys = (compared.values(name, variant, point) for name in (picture.x, picture.y))
            x, y = np.array(list(xs.values())), np.array(list(ys.values()))
            plot.plot(x, y, look.mark, color=look.colour, markersize=4, alpha=0.6)
            if len(x) and np.isfinite(x).all() and np.isfinite(y).all():
                plot.plot(
                    x.mean(), y.mean(), look.mark, color=look.colour, markersize=8, mfc="none"
                )
        plot.set_title(where(point))
        if picture.logx:
            logarithmic(plot, "x")
        else:
            plot.xaxis.set_major_locator(MaxNLocator(6))
            plain(plot, "x")
        scale(plot, "y", picture, compared)
    panels[-1].set_xlabel(words_of(compared, picture.x))
    finish(figure, compared, picture, drawn, line=False)
    return figure


KINDS: dict[str, Callable[[Compared, Picture], Figure]] = {
    "against": against,
    "dots": dots,
    "curves": curves,
    "scatter": scatter,
}
