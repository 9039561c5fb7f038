"""The kinds of pictures that a study may ask for: panels with dots for the seeds, intervals, and levels."""

from __future__ import annotations

import itertools
import math
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from laboratory.report.comparison import Compared, Side, where
from laboratory.report.style import (
    INK,
    QUIET,
    WIDTH,
    Look,
    columns,
    legend,
    logarithmic,
    looks,
    plain,
)
from laboratory.study.description import TIMES_RATE, Picture, Point, place_of

ROW = 0.29  # inches of a variant, where each has a row
PANEL = 2.3  # inches: the height of a panel
TITLE = 0.55  # inches of a panel's title and of its axis
LEGEND = 0.3  # inches of a row of the legend
LETTERS = 58  # of a line below a picture
WIDE = 52  # letters of a line below an axis
NARROW = 28  # letters of a line beside it
DODGE = 0.035  # of the smallest gap between two values, from one variant to the next
SOFT = "#f2ecd8"  # the margin within which a difference is too small to matter


# --- Kinds ----------------------------------------------------------------------------------------


def differences(compared: Compared, picture: Picture) -> Figure:
    """A row for each variant but the baseline: its difference from the baseline in each seed a dot, the 95%
    interval of the mean a bar, thick where it is claimed; the margin a band."""
    study = compared.study
    every = looks(study.variants, study.baseline)
    styles = {variant: every[variant] for variant in study.rivals}
    measure = next(candidate for candidate in study.figures if candidate.name == picture.y)
    figure, panels = _rows(compared, len(styles))
    sides = [
        each for each in compared.sides(picture.y) if each.against and not each.against.diverged
    ]
    ends = [end for side in sides if side.against for end in (side.against.low, side.against.high)]
    ends = [*filter(math.isfinite, ends), 1.5 * measure.margin, -1.5 * measure.margin, 1e-9]
    low, high = min(ends), max(ends)
    for plot, point in zip(panels, study.points, strict=True):
        plot.axvspan(-measure.margin, measure.margin, color=SOFT, linewidth=0)
        plot.axvline(0, color=QUIET, linewidth=1, linestyle=":")
        for side in sides:
            if side.point == point:
                row = list(styles).index(side.variant)
                _difference(plot, compared, picture.y, side, row, styles[side.variant])
        _named(plot, list(styles), where(point))
        plot.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        plot.xaxis.set_major_locator(MaxNLocator(6))
        plain(plot, "x")
    _below(panels[-1], f"{measure.label}: difference from {study.baseline}")
    band = f"Band: ±{measure.margin:g}, too small to matter. " if measure.margin else ""
    _note(figure, f"{band}Bar: 95% interval, thick where the difference is claimed.")
    return figure


def against(compared: Compared, picture: Picture) -> Figure:
    """A figure over a part of the point: a line through the means, whiskers to the smallest and largest, each
    seed a dot. What else is in the point has a panel for each value."""
    study = compared.study
    values = sorted({float(point[picture.x]) for point in study.points})
    rest = unique({k: v for k, v in point.items() if k != picture.x} for point in study.points)
    figure, panels = _grid(len(rest), PANEL, _legend_rows(compared))
    styles = looks(study.variants, study.baseline)
    for plot, fixed in zip(panels, rest, strict=True):
        for number, (variant, look) in enumerate(styles.items()):
            sides = [
                compared.side(picture.y, variant, point)
                for point in study.points
                if {k: v for k, v in point.items() if k != picture.x} == fixed
            ]
            _line(plot, compared, picture, sides, look, number - (len(styles) - 1) / 2, values)
        plot.set_title(where(fixed))
        if picture.logx:
            logarithmic(plot, "x", values)
        plot.xaxis.set_major_locator(FixedLocator(values))
        plain(plot, "x")
        _scale(plot, picture, compared)
    _below(panels[-1], words_of(compared, picture.x))
    _finish(figure, compared, picture, styles)
    return figure


def curves(compared: Compared, picture: Picture) -> Figure:
    """Validation loss over the steps: the mean, and a band from the smallest seed to the largest."""
    study = compared.study
    beside = 2 if len(study.points) > 2 else 1
    figure, panels = _grid(len(study.points), PANEL, _legend_rows(compared), beside)
    styles = looks(study.variants, study.baseline)
    for plot, point in zip(panels, study.points, strict=True):
        for variant, look in styles.items():
            steps, losses = _curve(compared, variant, point)
            if not steps:
                continue
            few = look.mark if len(steps) < 12 else ""
            style: dict[str, Any] = {"color": look.color, "linestyle": look.line, "marker": few}
            plot.plot(steps, losses.mean(0), **style, markersize=4)
            low, high = losses.min(0), losses.max(0)
            plot.fill_between(steps, low, high, color=look.color, alpha=0.18, linewidth=0)
        plot.set_title(where(point))
        plot.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        plain(plot, "x")
        if picture.logx:
            logarithmic(plot, "x")
        _scale(plot, picture, compared)
        plot.set_xlabel("step" if plot in panels[-beside:] else "")
    unit = next((candidate.unit for candidate in study.figures if candidate.name == picture.y), "")
    _finish(figure, compared, picture, styles, f"validation loss{f' in {unit}' if unit else ''}")
    return figure


def scatter(compared: Compared, picture: Picture) -> Figure:
    """Two figures against each other: each seed small, the mean large; a panel for each point."""
    study = compared.study
    figure, panels = _grid(len(study.points), PANEL + 0.3, _legend_rows(compared))
    styles = looks(study.variants, study.baseline)
    for plot, point in zip(panels, study.points, strict=True):
        for variant, look in styles.items():
            xs, ys = (compared.values(name, variant, point) for name in (picture.x, picture.y))
            x, y = np.array(list(xs.values())), np.array(list(ys.values()))
            plot.plot(x, y, look.mark, color=look.color, markersize=4, alpha=0.6)
            if len(x) and np.isfinite(x).all() and np.isfinite(y).all():
                large: dict[str, Any] = {"color": look.color, "markersize": 8, "mfc": "none"}
                plot.plot(x.mean(), y.mean(), look.mark, **large)
        plot.set_title(where(point))
        if picture.logx:
            logarithmic(plot, "x")
        else:
            plot.xaxis.set_major_locator(MaxNLocator(6))
            plain(plot, "x")
        _scale(plot, picture, compared)
    _below(panels[-1], words_of(compared, picture.x))
    _finish(figure, compared, picture, styles, line=False)
    return figure


LENGTHS = {"read": "the characters read at once", "at": "the position in the longest text"}


def lengths(compared: Compared, picture: Picture) -> Figure:
    """All figures whose name is `y` and a length, over the length: the mean, and a band from the smallest
    seed to the largest; a panel for each point."""
    study, styles = compared.study, looks(compared.study.variants, compared.study.baseline)
    figure, panels = _grid(len(study.points), PANEL + 0.6, _legend_rows(compared))
    named = (name.rpartition("_") for cell in compared.results.cells for name in cell.figures)
    ends = sorted({int(end) for start, _, end in named if start == picture.y and end.isdigit()})
    for plot, point in zip(panels, study.points, strict=True):
        for variant, look in styles.items():
            runs = [run.figures for run in compared.runs(variant, point)]
            rows = np.array(
                [[run.get(f"{picture.y}_{end}", math.nan) for end in ends] for run in runs]
            )
            if not len(rows):
                continue
            style: dict[str, Any] = {"color": look.color, "linestyle": look.line}
            plot.plot(ends, rows.mean(0), **style, marker=look.mark, markersize=4)
            plot.fill_between(ends, rows.min(0), rows.max(0), color=look.color, alpha=0.18, lw=0)
        plot.set_title(where(point))
        if ends:
            logarithmic(plot, "x", [float(end) for end in ends])
        plot.yaxis.set_major_locator(MaxNLocator(6))
        levels(plot, compared.results.counted)
    _below(panels[-1], LENGTHS.get(picture.y, picture.y).removeprefix("the "))
    legend(figure, styles)
    figure.supylabel("loss in nats per character", fontsize=10.5)
    return figure


def rates(compared: Compared) -> Figure:
    """Loss of the trial runs over the factor of the learning rate: each trial a dot, a line through the
    means, the chosen one large; a panel for each point."""
    study, tried = compared.study, compared.results.trials
    points = unique({k: v for k, v in point.items() if k != TIMES_RATE} for point in study.points)
    tested = {v for v in study.variants if any(place_of(v, point) in tried for point in points)}
    styles = {v: look for v, look in looks(study.variants, study.baseline).items() if v in tested}
    beside = 2 if len(points) > 2 else 1
    figure, panels = _grid(len(points), PANEL, _legend_rows(compared), beside)
    for plot, point in zip(panels, points, strict=True):
        for variant, look in styles.items():
            by = tried.get(place_of(variant, point), {})
            means = {rate: statistics.fmean(losses) for rate, losses in sorted(by.items())}
            finite = {rate: mean for rate, mean in means.items() if math.isfinite(mean)}
            for rate, losses in by.items():
                plot.plot([rate] * len(losses), losses, ".", color=look.color, alpha=0.6)
            plot.plot(list(finite), list(finite.values()), color=look.color, linestyle=look.line)
            if finite:
                best = min(finite, key=lambda rate: finite[rate])
                plot.plot(best, finite[best], look.mark, color=look.color, markersize=8, mfc="none")
        plot.set_title(where(point))
        logarithmic(plot, "x", sorted(study.learning_rates))
        plain(plot, "y")
    _below(panels[-1], "factor of the learning rate")
    unit = words_of(compared, "loss")
    legend(figure, styles)
    figure.supylabel(textwrap.fill(f"{unit} on the selection split", NARROW), fontsize=10.5)
    return figure


KINDS: dict[str, Callable[[Compared, Picture], Figure]] = {
    "against": against,
    "differences": differences,
    "curves": curves,
    "scatter": scatter,
    "lengths": lengths,
}


# --- What is in a panel ---------------------------------------------------------------------------


def _dots(plot: Axes, values: Sequence[float], row: int, look: Look) -> None:
    style: dict[str, Any] = {"color": look.color, "alpha": 0.75, "markersize": 5.5}
    plot.plot(values, [row] * len(values), look.mark, **style)


def _named(plot: Axes, names: Sequence[str], title: str) -> None:
    """The rows of a panel, the first at the top."""
    plot.set_yticks(range(len(names)), list(names))
    plot.set_ylim(len(names) - 0.4, -0.6)
    plot.set_title(title)
    plot.grid(axis="y", visible=False)


def _difference(
    plot: Axes, compared: Compared, figure: str, side: Side, row: int, look: Look
) -> None:
    """A variant's differences from the baseline, and their interval."""
    assert side.against is not None
    own, base = (
        compared.values(figure, variant, side.point)
        for variant in (side.variant, compared.study.baseline)
    )
    _dots(plot, [own[seed] - base[seed] for seed in own.keys() & base.keys()], row, look)
    if math.isfinite(side.against.low):  # else there is a single seed
        thick = 3.2 if side.against.claimed else 1.2
        ends = [side.against.low, side.against.high]
        plot.plot(ends, [row, row], color=INK, linewidth=thick, solid_capstyle="butt")


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
    valid = [side for side in sides if side.spread is not None and not side.spread.diverged]
    at = [_dodged(float(side.point[picture.x]), steps, values, picture.logx) for side in valid]
    spreads = [side.spread for side in valid if side.spread is not None]
    means = [spread.mean for spread in spreads]
    plot.plot(at, means, color=look.color, linestyle=look.line, marker=look.mark, markersize=5.5)
    low, high = ([getattr(spread, end) for spread in spreads] for end in ("low", "high"))
    plot.vlines(at, low, high, look.color, lw=1)
    for x, side in zip(at, valid, strict=True):
        seeds = list(compared.values(picture.y, side.variant, side.point).values())
        plot.plot([x] * len(seeds), seeds, ".", color=look.color, markersize=3.5, alpha=0.7)


def _dodged(value: float, steps: float, values: list[float], log: bool) -> float:
    if len(values) < 2:
        return value + steps * DODGE
    if log:
        gap = min(math.log(b / a) for a, b in itertools.pairwise(values))
        return value * math.exp(steps * DODGE * gap)
    return value + steps * DODGE * min(b - a for a, b in itertools.pairwise(values))


def _curve(compared: Compared, variant: str, point: Point) -> tuple[list[int], Any]:
    """The steps that all seeds have reached, and the losses `(seed, step)`."""
    all_curves = [dict(run.curve) for run in compared.runs(variant, point)]
    finite = [
        {step for step, loss in curve.items() if math.isfinite(loss)}
        for curve in all_curves
        if curve
    ]
    steps = sorted(set.intersection(*finite)) if finite else []
    return steps, np.array([[curve[step] for step in steps] for curve in all_curves if curve])


# --- Axes -----------------------------------------------------------------------------------------


def _grid(count: int, height: float, rows: int, beside: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels with the same axes, so that they can be compared; `rows` are those of the legend."""
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


def _rows(compared: Compared, rows: int) -> tuple[Figure, list[Axes]]:
    """Panels with a row for each variant."""
    return _grid(len(compared.study.points), ROW * rows + TITLE, 0)


def _legend_rows(compared: Compared) -> int:
    return math.ceil(len(compared.study.variants) / columns(compared.study.variants))


def _scale(plot: Axes, picture: Picture, compared: Compared) -> None:
    """The vertical axis of the picture's figure, with its levels."""
    plot.yaxis.set_major_locator(MaxNLocator(6))
    plain(plot, "y")
    matching = [candidate for candidate in compared.study.figures if candidate.name == picture.y]
    if matching and matching[0].unit == "nats per character":
        levels(plot, compared.results.counted)


def levels(plot: Axes, counted: dict[str, float]) -> None:
    """The losses that counting gives: a line each, or, beyond the axis, words at its end."""
    low, high = plot.get_ylim()
    white = {"facecolor": "white", "alpha": 0.8, "pad": 0.4, "linewidth": 0}
    style: dict[str, Any] = {"fontsize": 8.5, "color": INK, "bbox": white, "ha": "right"}
    over = plot.get_yaxis_transform()
    for name, loss in counted.items():
        if low < loss < high:
            plot.axhline(loss, color=INK, lw=0.9, ls=(0, (2, 2)))
            plot.text(0.7, loss, name, transform=over, va="bottom", **style)
    if beyond := [f"{name} {loss:.2f}" for name, loss in counted.items() if loss > high]:
        plot.set_title(f"↑ {', '.join(beyond)}", loc="right", fontsize=8.5)


def _below(plot: Axes, words: str) -> None:
    plot.set_xlabel(textwrap.fill(words, WIDE))


def _finish(
    figure: Figure,
    compared: Compared,
    picture: Picture,
    styles: dict[str, Look],
    words: str = "",
    line: bool = True,
) -> None:
    """The legend, the name of the vertical axis, and what could not be drawn."""
    if styles:
        legend(figure, styles, line)
        label = textwrap.fill(words or words_of(compared, picture.y), NARROW)
        figure.supylabel(label, fontsize=10.5)
    lost = list(_not_drawn(compared, picture))
    if lost:
        _note(figure, f"not drawn: {'; '.join(lost)}")


def _note(figure: Figure, note: str) -> None:
    figure.supxlabel(textwrap.fill(note, LETTERS), x=0.01, ha="left", fontsize=9.5)


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
            at = ", ".join(str(entry["at"]) for entry in lost if entry["at"])
            why = " (diverged)" if all(entry["diverged"] for entry in lost) else ""
            yield f"{variant}{f' at {at}' if at else ''}{why}"


def words_of(compared: Compared, name: str) -> str:
    """What a figure, or a part of the point, is called."""
    labels = {figure.name: figure.label for figure in compared.study.figures}
    return labels.get(name, name.replace("_", " "))


def unique(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, in their order."""
    rows: list[dict[str, Any]] = []
    for entry in entries:
        if entry not in rows:
            rows.append(entry)
    return rows
