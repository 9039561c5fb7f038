"""Induction heads as a picture: the score of each while it forms, the loss beside it, and what each does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from laboratory.report.induction_text import WAYS, Replaced, by_variant, heads_of
from laboratory.report.style import COLORS, QUIET, STYLE, WIDTH, as_svg
from laboratory.study.induction import FORMED, ranked, strongest
from laboratory.study.repeats import SYMBOLS
from laboratory.study.results import CellResult, Results
from training.checkpoints import write_atomically

PICTURE, ABLATED = "heads.svg", "ablations.svg"


def draw(results: Results, folder: Path) -> None:
    """Draw `heads.svg`, for each variant the score of every head over the steps, and below it the loss on
    repeated symbols; and `ablations.svg`, what replacing a head's output costs.

    Raises:
        OSError: a file could not be written.
    """
    variants = by_variant(results)
    formed = [cell for cells in variants for cell in cells if "formed_at" in cell.figures]
    heads = [head for cell in formed for head in heads_of(cell)]
    with plt.rc_context(STYLE):
        write_atomically(folder / PICTURE, as_svg(_formation(variants)))
        write_atomically(folder / ABLATED, as_svg(_ablations(heads)))


def _formation(variants: Sequence[list[CellResult]]) -> Figure:
    """Scores and loss over the steps, a column for each variant and a color for each seed."""
    figure = plt.figure(figsize=(WIDTH, 4.4), layout="constrained")
    axes = figure.subplots(2, len(variants), sharex=True, sharey="row", squeeze=False)
    for (scores, loss), cells in zip(axes.T, variants, strict=True):
        scores.set_title(cells[0].variant)
        for number, cell in enumerate(cells):
            looks, color = cell.extra["looks"], COLORS[number % len(COLORS)]
            steps = [look["step"] for look in looks]
            for layer, head in ranked(looks[-1]["prefix"]):
                strong = (layer, head) == strongest(looks[-1]["prefix"])
                curve = [look["prefix"][layer][head] for look in looks]
                style = (
                    {"linewidth": 1.6, "alpha": 1.0} if strong else {"linewidth": 0.6, "alpha": 0.5}
                )
                scores.plot(steps, curve, color=color, **style)
            loss.plot(steps, [look["again"] for look in looks], color=color, linewidth=1.4)
        scores.axhline(FORMED, color=QUIET, linewidth=0.8, linestyle="--")
        loss.axhline(math.log(SYMBOLS), color=QUIET, linewidth=0.8, linestyle="--")
        scores.set_ylim(0, 1)
        loss.set(xlabel="step", ylim=(0, None))
    axes[0, 0].set_ylabel("prefix matching\nof each head")
    axes[1, 0].set_ylabel("nats per symbol on\nrepeated symbols")
    return figure


def _ablations(heads: Sequence[Replaced]) -> Figure:
    """For each way to replace a head's output, what that costs against the head's score."""
    figure = plt.figure(figsize=(WIDTH, 5.0), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for plot, (way, words) in zip(axes.flat, WAYS.items(), strict=True):
        plot.set(title=words, xlim=(0, 1))
        plot.axvline(FORMED, color=QUIET, linewidth=0.8, linestyle="--")
        plot.axhline(0, color=QUIET, linewidth=0.8)
        for head in heads:
            point = head.scores[0], head.costs[way]
            mark = "o" if head.formed else "^"
            plot.plot(*point, mark, color=COLORS[not head.formed], alpha=0.8)
            if not head.formed:
                beside = (-10, 3) if head.seed % 5 == 4 else (4, 3)  # fewer numbers overlap
                plot.annotate(str(head.seed), point, beside, textcoords="offset points")
    figure.supxlabel(
        "prefix-matching score\ndots: induction heads; triangles: other heads, with their seeds",
        fontsize=10.5,
    )
    figure.supylabel("nats per symbol added on repeated symbols", fontsize=10.5)
    return figure
