"""The report of the study `sharpening`: exact pass@k before and after, and where the probability went."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from laboratory.report.digits import number, signed, significant
from laboratory.report.statistics import mean_of
from laboratory.report.style import STYLE, WIDTH, as_svg, legend, looks
from laboratory.report.tables import lines
from laboratory.study.enumeration import pass_at
from laboratory.study.sharpening import FOLDER, NAME, Sharpening
from training.checkpoints import write_atomically

CURVES = "pass_at_k.svg"
WORDS = "Exact pass@k of three base models, and of what reinforcement learning made of them"
SHOWN = (1, 16, 256, 4096)  # k of the tables
DRAWN = [2**power for power in range(17)]  # k of the curves
Cell = dict[str, Any]


def write(study: Sharpening, results: dict[str, Any]) -> Path:
    """Write the report and its picture; return the report's file."""
    cells: dict[str, list[Cell]] = {}
    for cell in results["cells"]:  # seed by seed
        cells.setdefault(cell["name"], []).append(cell)
    missing = [name for name in study.variants if name not in cells]
    done = {name: changes for name, changes in study.variants.items() if name in cells}
    study = replace(study, variants=done)
    with plt.rc_context(STYLE):
        write_atomically(FOLDER / CURVES, as_svg(_curves(study, cells)))
    parts = [*_paragraphs(study, cells), *_made(results, missing)]
    write_atomically(FOLDER / "report.md", ("\n\n".join(parts) + "\n").encode())
    return FOLDER / "report.md"


def entry(study: Sharpening) -> list[str]:
    """Return the paragraphs on the page of all studies."""
    return [
        f"## {study.question}",
        study.answer,
        f"[![{WORDS}]({NAME}/{CURVES})]({NAME}/report.md)",
        f"[The report]({NAME}/report.md) · "
        f"[what was expected, and what may explain it]({NAME}/reading.md)",
    ]


def bounds(cell: Cell, k: int) -> np.ndarray:
    """Return the lower and the upper bound of pass@k, each a mean over the questions."""
    pairs = zip(cell["right"], cell["pruned"], strict=True)
    both = [(pass_at(k, p), pass_at(k, min(1.0, p + pruned))) for p, pruned in pairs]
    means: np.ndarray = np.array(both).mean(axis=0)
    return means


def _told(pairs: Sequence[np.ndarray], form: Callable[[float, int], str]) -> str:
    """Format the mean of the seeds' bounds, and an interval that holds for the lower and the upper bound."""
    lower, upper = (mean_of(column) for column in np.transpose(pairs))
    start, end = lower.interval[0], min(upper.interval[1], 1.0)  # no probability is above 1
    return f"{form((lower.value + upper.value) / 2, 3)} ({form(start, 3)} to {form(end, 3)})"


def _gain(before: Sequence[Cell], after: Sequence[Cell], k: int) -> str:
    """Format the change of pass@k, paired by seed: the least and the most that the bounds allow."""
    pairs = zip(before, after, strict=True)
    return _told([bounds(new, k) - bounds(old, k)[::-1] for old, new in pairs], signed)


def _below(cell: Cell) -> np.ndarray:
    """Return the share of the right answers' probability that is below each of the levels."""
    return np.array(cell["below"]) / statistics.fmean(cell["right"])


def _fallen(old: Cell, new: Cell) -> int:
    """Count the questions whose upper bound of p is below the base model's lower bound."""
    after = np.array(new["right"]) + np.array(new["pruned"])
    return int((after < old["right"]).sum())


def _paragraphs(study: Sharpening, cells: dict[str, list[Cell]]) -> Iterator[str]:
    yield f"# {study.question}"
    yield study.setup.format(seeds=len(cells[next(iter(study.variants))]))
    yield f"## The answer\n\n{study.answer}"
    yield "[What was expected, and what may explain the results](reading.md)."
    yield f"![{WORDS}]({CURVES})"
    yield (
        "The probability that none of k sampled answers is right, a mean over questions and seeds. A band is "
        "from the upper to the lower bound."
    )
    yield (
        "## Exact pass@k\n\nMean over the seeds of the middle of both bounds. The interval holds for both: "
        "from the lower end of the lower bound's 95% t interval to the upper end of the upper bound's. "
        "Gains are over the variant's own base model, paired by seed."
    )
    heads = [f"pass@{k}" for k in SHOWN]
    rows = [
        [f"`{name}`", *(_told([bounds(cell, k) for cell in some], number) for k in SHOWN)]
        for name, some in cells.items()
    ]
    yield "\n".join(lines(["model", *heads], rows))
    rows = [
        [f"`{name}`", *(_gain(cells[changes["base"]], cells[name], k) for k in SHOWN)]
        for name, changes in study.variants.items()
    ]
    yield "\n".join(lines(["gain of", *heads], rows))
    yield (
        "## What moved\n\nEach right answer of a trained model is a chain with the right sum at its end. "
        "The table shows the share of their probability on chains that the base model gives less than "
        "10⁻¹, 10⁻², 10⁻⁴ and 10⁻⁶, and how many questions certainly fell in p: mean over the seeds "
        "(smallest to largest)."
    )
    rows = []
    for name, changes in study.variants.items():
        table = [
            [*_below(new)[[1, 2, 4, 6]], _fallen(old, new)]
            for old, new in zip(cells[changes["base"]], cells[name], strict=True)
        ]
        ends = [
            [significant(f(column)) for f in (np.mean, min, max)] for column in np.transpose(table)
        ]
        rows.append([f"`{name}`", *(f"{mean} ({low} to {high})" for mean, low, high in ends)])
    heads = ["below 10⁻¹", "below 10⁻²", "below 10⁻⁴", "below 10⁻⁶", "questions that fell"]
    yield "\n".join(lines(["variant", *heads], rows))
    yield from _support(study, cells)


def _support(study: Sharpening, cells: dict[str, list[Cell]]) -> Iterator[str]:
    """What the base models give the right last lines."""
    smallest = [
        f"`{name}` {significant(min(min(cell['right']) for cell in cells[name]))}"
        for name in study.bases
    ]
    new = [
        after > 0.5
        for name, changes in study.variants.items()
        for old, trained in zip(cells[changes["base"]], cells[name], strict=True)
        for before, after in zip(old["right"], trained["right"], strict=True)
        if before < 1e-6  # the lower bound: the true probability may be higher
    ]
    yield (
        "All right answers to a question have the same last line, so the base model gives that line at least "
        "the lower bound of p. The smallest lower bound of all questions and seeds is: "
        f"{', '.join(smallest)}. Over all variants and seeds, {sum(new)} questions have a lower bound under "
        "10⁻⁶ in the base model, and more than 0.5 in the trained model."
    )


def _made(results: dict[str, Any], missing: list[str]) -> Iterator[str]:
    made = "; ".join(f"{key} {value}" for key, value in results["made"].items())
    minutes = sum(cell["core_seconds"] for cell in results["cells"]) / 60
    yield f"## How this was made\n\nMade with {made}, in {minutes:.0f} minutes of one core, tuning apart."
    if missing:
        yield f"Not run yet: {', '.join(f'`{name}`' for name in missing)}."
    yield f"```\ncourse study {NAME}\n```"


def _curves(study: Sharpening, cells: dict[str, list[Cell]]) -> Figure:
    """Draw 1 − pass@k before and after, a panel for each base model."""
    figure = plt.figure(figsize=(WIDTH, 6.6), layout="constrained")
    panels = figure.subplots(len(study.bases), 1, sharex=True)
    styles = looks(("base model", "after reinforcement learning"), "base model")
    for panel, base in zip(panels, study.bases, strict=True):
        name = next(name for name, changes in study.variants.items() if changes == {"base": base})
        for shown, look in zip((base, name), styles.values(), strict=True):
            pairs = np.array([[bounds(cell, k) for k in DRAWN] for cell in cells[shown]])
            failures = 1 - pairs.mean(axis=0)  # (k, 2)
            panel.plot(DRAWN, failures[:, 0], look.mark, color=look.color, linestyle=look.line)
            panel.fill_between(DRAWN, *failures.T, color=look.color, alpha=0.2, linewidth=0)
        panel.set(title=f"{base} base model", xscale="log", yscale="log", ylim=(1e-4, 1.3))
        panel.yaxis.set_ticks([10.0**-e for e in range(5)], ["1", "10⁻¹", "10⁻²", "10⁻³", "10⁻⁴"])
        panel.yaxis.set_minor_locator(NullLocator())
    panels[1].set_ylabel("1 − pass@k, no answer is right")
    panels[-1].set_xlabel("k, number of sampled answers")
    panels[-1].xaxis.set_ticks(DRAWN[::4], [f"{k:,}" for k in DRAWN[::4]])
    panels[-1].xaxis.set_minor_locator(NullLocator())
    legend(figure, styles)
    return figure
