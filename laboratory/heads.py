"""What may be said of induction heads, and drawn: when they formed, what changed then, what each does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from laboratory.induction import FORMED
from laboratory.repeats import SYMBOLS
from laboratory.results import Results, Seen
from laboratory.statistics import compare, mean_interval, spread

PICTURE = "heads.svg"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # Okabe & Ito, for any eye
WIDTH = 4.1  # inches: 390 pixels of a telephone
SEEDS_DRAWN = 5  # whose heads are told apart
BEST, CARRIER = "-", ":"  # the lines around two heads of a map


# --- In words -------------------------------------------------------------------------------------


def paragraphs(results: Results) -> list[str]:
    """What the numbers allow to say of each variant, and nothing else.

    Args:
        results: of a study with `analysis: induction`.
    """
    return [sentence for cells in _variants(results) for sentence in _told(cells)]


def _told(cells: Sequence[Seen]) -> Iterable[str]:
    seeds, name = len(cells), f"`{cells[0].variant}`"
    formed = [cell for cell in cells if "formed_at" in cell.figures]
    if formed:
        yield (
            f"{name}: a head formed in {len(formed)} of {seeds} seeds, which is to say that its "
            f"prefix-matching score passed {FORMED}: {_steps('formed_at', formed)}. At the end the best "
            f"head's score is {_values('prefix_matching', formed)}."
        )
        yield _beside(name, formed)
    if len(formed) < seeds:
        without = [cell for cell in cells if cell not in formed]
        yield (
            f"{name}: no head formed in {len(without)} of {seeds} seeds; the largest score at the end is "
            f"{_values('prefix_matching', without)}."
        )
    yield (
        f"{name}: at the end a segment costs {_values('first', cells)} a symbol where it comes first, and "
        f"{_values('again', cells)} where it comes again (chance: {math.log(SYMBOLS):.2f})."
    )
    _, low, high = mean_interval([cell.figures["in_context"] for cell in cells])
    if not formed and seeds > 1 and high < 0:
        yield (
            f"{name}: so what was read before is made use of without an induction head as well, by "
            f"{-high:.2f} to {-low:.2f} a symbol (95% interval)."
        )
    yield _switched_off(name, cells)


def _beside(name: str, formed: Sequence[Seen]) -> str:
    """How far the jump of the loss lies from the head's."""
    fell = [cell for cell in formed if "fell_at" in cell.figures]
    if not fell:
        return (
            f"{name}: the loss of what is said again did not fall to half of chance in any of them."
        )
    apart = [cell.figures["fell_at"] - cell.figures["formed_at"] for cell in fell]
    looks = fell[0].extra["looks"]
    every = looks[1]["step"] - looks[0]["step"] if len(looks) > 1 else looks[0]["step"]
    where = ", ".join(f"{gap:+.0f}" for gap in apart)
    return (
        f"{name}: the loss of what is said again fell to half of chance in {len(fell)} of these "
        f"{len(formed)} seeds, so many steps after the head had formed: {where} (the model was looked at "
        f"every {every} steps)."
    )


def _switched_off(name: str, cells: Sequence[Seen]) -> str:
    told = (
        f"{name}: without its best head what is said again costs {_values('best_off', cells)} more"
    )
    if all("previous_off" in cell.figures for cell in cells):
        told += (
            ", without the head below it that looks most at the token before "
            f"{_values('previous_off', cells)} more"
        )
    if not all("others_off" in cell.figures for cell in cells):
        return f"{told}."
    told += (
        f", without one of the others {_values('others_off', cells)} more, on average over these"
    )
    by_seed = (
        {cell.seed: cell.figures[key] for cell in cells} for key in ("best_off", "others_off")
    )
    compared = compare(*by_seed)
    if compared is None or not compared.claimed:
        return f"{told}. Between the best head and the others no difference is seen."
    which = "more" if compared.mean > 0 else "less"
    return (
        f"{told}. The best head matters {which} than the others, in every seed: by {compared.mean:.2f} "
        f"(95% interval {compared.low:.2f} to {compared.high:.2f})."
    )


def _values(key: str, cells: Sequence[Seen]) -> str:
    """Mean and standard deviation over the seeds."""
    over = spread([cell.figures[key] for cell in cells])
    return f"{over.mean:.2f}" + (f" ± {over.deviation:.2f}" if len(cells) > 1 else "")


def _steps(key: str, cells: Sequence[Seen]) -> str:
    steps = sorted(cell.figures[key] for cell in cells)
    several = steps[0] != steps[-1]
    return f"at steps {steps[0]:.0f} to {steps[-1]:.0f}" if several else f"at step {steps[0]:.0f}"


def _variants(results: Results) -> list[list[Seen]]:
    """The cells of each variant at each point, by seed; those that diverged have no heads to look at."""
    found: dict[tuple[str, str], list[Seen]] = {}
    for cell in sorted(results.cells, key=lambda cell: cell.seed):
        if not cell.diverged:
            found.setdefault((cell.variant, str(cell.point)), []).append(cell)
    return [found[key] for key in sorted(found)]


# --- As a picture ---------------------------------------------------------------------------------


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw, for each variant, the score of every head over the steps, the loss of what is said again below
    it, and what switching off each head of each seed costs; as `heads.svg`.

    Args:
        results: of a study with `analysis: induction`.
        folder: the study's.

    Returns:
        What was drawn.

    Raises:
        OSError: it could not be written.
    """
    variants = _variants(results)
    seeds = max(map(len, variants))
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
            _column(list(axes[:, column]), cells)
        for row, words in enumerate(
            ("prefix matching\nof each head", "loss of what\nis said again")
        ):
            axes[row, 0].set_ylabel(words)
        axes[2, 0].set_ylabel("seed")
        _share(axes)
        figure.supxlabel(
            "Below: what is lost with one head off.\nFrame: the best head; dotted: the one before it.",
            fontsize=7,
        )
        return [_written(figure, folder / PICTURE)]


def _column(plots: Sequence[Axes], cells: Sequence[Seen]) -> None:
    scores, loss, effects = plots
    scores.set_title(f"{cells[0].variant}", fontsize=8)
    for number, cell in enumerate(cells):
        looks, colour = cell.extra["looks"], COLOURS[number % SEEDS_DRAWN]
        steps = [look["step"] for look in looks]
        best = _best(looks[-1]["prefix"])
        for layer, some in enumerate(looks[-1]["prefix"]):
            for head in range(len(some)):
                strong = (layer, head) == best
                scores.plot(
                    steps,
                    [look["prefix"][layer][head] for look in looks],
                    color=colour,
                    linewidth=1.4 if strong else 0.5,
                    alpha=1.0 if strong else 0.5,
                )
        loss.plot(steps, [look["again"] for look in looks], color=colour, linewidth=1.2)
    scores.axhline(FORMED, color="#888888", linewidth=0.6, linestyle="--")
    loss.axhline(math.log(SYMBOLS), color="#888888", linewidth=0.6, linestyle="--")
    scores.tick_params(labelbottom=False)
    loss.set_xlabel("step")
    _map(effects, cells)


def _share(axes: Any) -> None:
    """The same axes for all variants."""
    for row in (0, 1):
        low, high = zip(*(plot.get_ylim() for plot in axes[row]), strict=True)
        for column, plot in enumerate(axes[row]):
            plot.set_ylim(min(0.0, *low), max(1.0, *high))
            plot.set_xlim(axes[1, column].get_xlim())
            plot.spines[["top", "right"]].set_visible(False)
            plot.tick_params(labelleft=column == 0)


def _map(plot: Axes, cells: Sequence[Seen]) -> None:
    """A row for each seed, a column for each head, and in it by how much the loss grows without it."""
    shape = [len(some) for some in cells[0].extra["looks"][-1]["prefix"]]
    heads = [(layer, head) for layer, count in enumerate(shape) for head in range(count)]
    costs = np.array([[cell.figures[f"off_{a}_{b}"] for a, b in heads] for cell in cells])
    most = max(float(costs.max()), 1e-9)
    plot.imshow(costs, cmap="Blues", vmin=0, vmax=most, aspect="auto")
    for row, cell in enumerate(cells):
        last = cell.extra["looks"][-1]
        best = _best(last["prefix"])
        _frame(plot, heads.index(best), row, BEST)
        if best[0]:
            _frame(plot, heads.index(_best(last["previous"][: best[0]])), row, CARRIER)
        for column, cost in enumerate(costs[row]):
            dark = cost > 0.6 * most
            ink = "white" if dark else "black"
            plot.text(column, row, f"{cost:.1f}", color=ink, ha="center", va="center", fontsize=6)
    plot.set_yticks(range(len(cells)), [str(cell.seed) for cell in cells])
    for number, label in enumerate(plot.get_yticklabels()):
        label.set_color(COLOURS[number % SEEDS_DRAWN])
        label.set_fontweight("bold")
    plot.set_xticks(range(len(heads)), [str(head + 1) for _, head in heads])
    for layer in range(1, len(shape)):
        plot.axvline(sum(shape[:layer]) - 0.5, color="black", linewidth=1)
    plot.set_xlabel(" | ".join(f"layer {layer + 1}" for layer in range(len(shape))) + ": head")
    plot.tick_params(length=0)


def _frame(plot: Axes, column: int, row: int, line: str) -> None:
    square = Rectangle(
        (column - 0.44, row - 0.42), 0.88, 0.84, fill=False, linewidth=1.1, linestyle=line
    )
    plot.add_patch(square)


def _best(scores: list[list[float]]) -> tuple[int, int]:
    """Layer and head of the largest score; of equal ones, the first."""
    places = [(layer, head) for layer, some in enumerate(scores) for head in range(len(some))]
    return max(places, key=lambda place: scores[place[0]][place[1]])


def _written(figure: Figure, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")
    finally:
        plt.close(figure)
    return path
