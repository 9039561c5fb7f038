"""Overlaid curves of several runs, distinguished by color, marker and dash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from training.inference.curves import Curves, Point
from training.inference.plots import DPI, write_figure

# Of Okabe and Ito, for those who see few colors; markers and dashes for those who see none.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS, DASHES = "os^DvPX*", ("-", "--", "-.", ":")
MARKS = 8  # on a curve
LETTERS = 100  # of names, that fit beside each other under the picture


def draw(runs: Sequence[Curves], path: Path) -> None:
    """Draw training and validation losses by step, overlaid for all runs.

    Raises:
        OSError: the picture could not be written.
    """
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", dpi=DPI)
    for panel, loss in zip(panels, ("training", "validation"), strict=True):
        for number, run in enumerate(runs):
            _line(panel, run.points[loss], number)
        _dress(panel, f"{loss} loss per token")
    names = ["".join(sign if sign.isprintable() else "?" for sign in run.name) for run in runs]
    beside = max(1, min(len(runs), 4, LETTERS // (8 + max(map(len, names)))))
    # matplotlib takes no name that begins with an underscore, and dollars for formulas
    shown = [f"./{name}" if name.startswith("_") else name for name in names]
    legend = figure.legend(
        panels[0].lines,
        shown,
        loc="outside lower center",
        ncols=beside,
        frameon=False,
        handlelength=4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    write_figure(figure, path)


def _line(panel: Axes, points: Sequence[Point], number: int) -> None:
    stride = max(1, len(points) // MARKS)
    panel.plot(
        [point.steps for point in points],
        [point.loss for point in points],
        color=COLORS[number % len(COLORS)],
        linestyle=DASHES[(number + number // len(MARKERS)) % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        markevery=(number * stride // MARKS % stride, stride),  # beside the marks of the others
        markersize=5,
        linewidth=1.4,
    )


def _dress(panel: Axes, title: str) -> None:
    panel.set_title(title, loc="left", fontsize=11)
    panel.set_xlabel("step")
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    low, high = panel.dataLim.intervaly
    if high > 4 * low > 0:  # else there might be nothing to read on the axis
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
