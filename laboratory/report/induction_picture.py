"""Induction heads as a picture: the score of each while it forms, the loss beside it, and what each does."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from laboratory.report.induction_text import by_variant
from laboratory.report.style import COLORS, as_svg
from laboratory.study.induction import FORMED, strongest
from laboratory.study.repeats import SYMBOLS
from laboratory.study.results import CellResult, Results
from training.checkpoints import write_atomically

PICTURE = "heads.svg"
WIDTH = 4.1  # inches: 390 pixels of a telephone
BEST, CARRIER = "-", ":"  # the lines around two heads of a map
OFF = re.compile(r"off_\d+_\d+")  # figures of a head each


def draw(results: Results, folder: Path) -> None:
    """Draw, for each variant, the score of every head over the steps, the loss on repeated symbols below
    it, and what switching off each head of each seed costs; as `heads.svg`.

    Raises:
        OSError: it could not be written.
    """
    variants = by_variant(results)
    seeds = max(map(len, variants))
    costs = (cell.figures for cells in variants for cell in cells)
    dearest = max(cost for some in costs for key, cost in some.items() if OFF.fullmatch(key))
    heights = [1.6, 1.4, 0.25 + 0.17 * seeds]
    with plt.rc_context({"font.size": 7, "svg.hashsalt": "heads", "svg.fonttype": "path"}):
        figure, axes = plt.subplots(
            3,
            len(variants),
            figsize=(max(WIDTH, 2.0 * len(variants)), sum(heights) + 1.0),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        for column, cells in enumerate(variants):
            _column(list(axes[:, column]), cells, dearest)
        for row, words in enumerate(
            ("prefix matching\nof each head", "nats per symbol on\nrepeated symbols")
        ):
            axes[row, 0].set_ylabel(words)
        axes[2, 0].set_ylabel("seed")
        _share(axes)
        figure.supxlabel(
            "Numbers: added to the loss on repeated symbols with a head off, in nats.\n"
            "Frame: the best head; dotted: of the layers below, the previous-token head.",
            fontsize=7,
        )
        write_atomically(folder / PICTURE, as_svg(figure))


def _column(plots: Sequence[Axes], cells: Sequence[CellResult], dearest: float) -> None:
    scores, loss, effects = plots
    scores.set_title(f"{cells[0].variant}", fontsize=8)
    for number, cell in enumerate(cells):
        looks, color = cell.extra["looks"], COLORS[number % len(COLORS)]
        steps = [look["step"] for look in looks]
        best = strongest(looks[-1]["prefix"])
        for layer, some in enumerate(looks[-1]["prefix"]):
            for head in range(len(some)):
                strong = (layer, head) == best
                scores.plot(
                    steps,
                    [look["prefix"][layer][head] for look in looks],
                    color=color,
                    linewidth=1.4 if strong else 0.5,
                    alpha=1.0 if strong else 0.5,
                )
        loss.plot(steps, [look["again"] for look in looks], color=color, linewidth=1.2)
    scores.axhline(FORMED, color="#888888", linewidth=0.6, linestyle="--")
    loss.axhline(math.log(SYMBOLS), color="#888888", linewidth=0.6, linestyle="--")
    scores.tick_params(labelbottom=False)
    loss.set_xlabel("step")
    _map(effects, cells, dearest)


def _share(axes: Any) -> None:
    """The same axes for all variants."""
    for row in (0, 1):
        low, high = zip(*(plot.get_ylim() for plot in axes[row]), strict=True)
        for column, plot in enumerate(axes[row]):
            plot.set_ylim(min(0.0, *low), max(1.0, *high))
            plot.set_xlim(axes[1, column].get_xlim())
            plot.spines[["top", "right"]].set_visible(False)
            plot.tick_params(labelleft=column == 0)


def _map(plot: Axes, cells: Sequence[CellResult], dearest: float) -> None:
    """A row for each seed, a column for each head, and in it by how much the loss grows without it. The
    head that costs most over all variants is the darkest."""
    shape = [len(some) for some in cells[0].extra["looks"][-1]["prefix"]]
    heads = [(layer, head) for layer, count in enumerate(shape) for head in range(count)]
    costs = np.array([[cell.figures[f"off_{a}_{b}"] for a, b in heads] for cell in cells])
    most = max(dearest, 1e-9)
    plot.imshow(costs, cmap="Blues", vmin=0, vmax=most, aspect="auto")
    for row, cell in enumerate(cells):
        last = cell.extra["looks"][-1]
        best = strongest(last["prefix"])
        _frame(plot, heads.index(best), row, BEST)
        if best[0]:
            _frame(plot, heads.index(strongest(last["previous"][: best[0]])), row, CARRIER)
        for column, cost in enumerate(costs[row]):
            dark = cost > 0.6 * most
            ink = "white" if dark else "black"
            plot.text(column, row, f"{cost:.1f}", color=ink, ha="center", va="center", fontsize=6)
    plot.set_yticks(range(len(cells)), [str(cell.seed) for cell in cells])
    for number, label in enumerate(plot.get_yticklabels()):
        label.set_color(COLORS[number % len(COLORS)])
        label.set_fontweight("bold")
    plot.set_xticks(range(len(heads)), [str(head + 1) for _, head in heads])
    for layer in range(1, len(shape)):
        plot.axvline(sum(shape[:layer]) - 0.5, color="black", linewidth=1)
    plot.set_xlabel(" | ".join(f"layer {layer + 1}" for layer in range(len(shape))) + ": head")
    plot.tick_params(length=0)


def _frame(plot: Axes, column: int, row: int, line: str) -> None:
    style: dict[str, Any] = {"linewidth": 1.3, "linestyle": line, "color": COLORS[1]}
    plot.add_patch(Rectangle((column - 0.44, row - 0.42), 0.88, 0.84, fill=False, **style))
