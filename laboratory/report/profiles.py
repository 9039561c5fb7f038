"""Two pictures of a study of sizes and budgets: loss at equal compute, and loss by size with the law."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laboratory.report.digits import significant
from laboratory.report.isoflop import Cellwise, cellwise, joint, spend
from laboratory.report.panels import levels
from laboratory.report.style import INK, MARKS, WIDTH, logarithmic, short
from laboratory.study.description import Study
from laboratory.study.results import Results
from training.errors import Refused

HEIGHT = 3.6  # inches
SHADES = 0.0, 0.82  # of viridis, whose lightest yellow is hardly seen on white


def sound(study: Study, results: Results) -> tuple[Cellwise, ...]:
    """The sizes and budgets that can be drawn."""
    return cellwise(study, results)[0]


def equal_compute(cells: Sequence[Cellwise], counted: dict[str, float]) -> Figure:
    """Loss over size for each budget of compute, the parabola through it, its minimum with the interval."""
    profiles = spend(cells).profiles
    figure, plot = _panel()
    for one, (colour, mark) in zip(profiles, _shades(len(profiles)), strict=True):
        plot.plot(
            one.parameters,
            one.losses,
            mark,
            color=colour,
            label=f"C = {significant(one.compute)}",
            markersize=5.5,
        )
        first, last = np.log(one.parameters[[0, -1]]).tolist()
        x = np.linspace(first, last, 60)
        plot.plot(np.exp(x), np.exp(np.polyval(one.parabola, x)), color=colour, linewidth=1.2)
        if one.inside:
            lowest = float(np.exp(np.polyval(one.parabola, np.log(one.best.value))))
            sides = np.clip([one.best.low, one.best.high], *one.parameters[[0, -1]])
            plot.hlines(lowest, *sides, color=INK, linewidth=2.5)
            plot.plot(one.best.value, lowest, "*", color=INK, markersize=11)
    if profiles:
        plot.plot([], [], "*-", color=INK, label="least, with its interval", markersize=9)
    _finish(figure, plot, bool(profiles), counted)
    return figure


def by_size(cells: tuple[Cellwise, ...], counted: dict[str, float]) -> Figure:
    """Loss over size for each number of tokens, each seed a dot, with the law of both where one fits."""
    figure, plot = _panel()
    try:
        law = joint(cells).law
    except Refused:
        law = None
    budgets = sorted({one.tokens for one in cells})
    for budget, (colour, mark) in zip(budgets, _shades(len(budgets)), strict=True):
        row = sorted((one for one in cells if one.tokens == budget), key=lambda one: one.parameters)
        seeds = [(one.parameters, loss) for one in row for loss in one.losses]
        plot.plot(*zip(*seeds, strict=True), ".", color=colour, markersize=3)
        sizes = np.array([one.parameters for one in row])
        losses = [one.loss for one in row]
        plot.plot(
            sizes,
            losses,
            mark,
            color=colour,
            label=f"D = {short(budget)}",
            markersize=6,
            mfc="none",
        )
        if law is not None and len(row) > 1:
            x = np.geomspace(sizes[0], sizes[-1], 40)
            plot.plot(x, law.loss(x, np.full_like(x, budget)), color=colour, linewidth=1)
    if law is not None:
        plot.plot([], [], color=INK, linewidth=1, label="the law")
    _finish(figure, plot, bool(cells), counted)
    return figure


def _panel() -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")


def _shades(count: int) -> list[tuple[tuple[float, ...], str]]:
    """Colours from dark to light, in grey as well, and a mark for each."""
    shades = matplotlib.colormaps["viridis"](np.linspace(*SHADES, max(count, 2)))
    marks = ["o", *MARKS]
    return [(tuple(shades[i]), marks[i % len(marks)]) for i in range(count)]


def _finish(figure: Figure, plot: Axes, labelled: bool, counted: dict[str, float]) -> None:
    if labelled:
        logarithmic(plot, "x")
        logarithmic(plot, "y", list(np.arange(1.0, 5.01, 0.25)))
        levels(plot, "y", counted)
        figure.legend(loc="outside upper left", ncols=3, frameon=False, handlelength=1.6)
    plot.set_xlabel("parameters without embeddings")
    plot.set_ylabel("loss in nats per character")
