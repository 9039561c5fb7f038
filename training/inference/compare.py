"""Compare runs: their curves in one picture, the settings that differ, and losses at equal steps, tokens and
time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from training.errors import Refused
from training.inference.answering import refuse_what_is_no_picture
from training.inference.curves import Curves, Point, read, tokens_of_a_step
from training.inference.overlaid_curves import draw
from training.loop.run_folder import Run
from training.program import Program
from training.settings import Settings

LOSSES = ("validation", "training")
AMOUNTS = ("steps", "tokens", "seconds")
OF_THE_DATA = ("task", "source", "target", "lowercase", "vocabulary", "joint", "validate_tokens")
"""Settings that make losses incomparable."""

WORDS, FIGURES = 24, 9  # characters: of a table's first column, of the others


@dataclass(frozen=True)
class Equal:
    """The losses of all runs at the largest amount that all have reached, interpolated linearly between rows;
    None for a run without rows around it."""

    amount: str
    at: float
    losses: list[float | None]


def compare(program: Program, folders: Sequence[Path], out: Path | None, as_json: bool) -> None:
    """Plot the curves of several runs, and print their differences.

    Args:
        out: the picture; in the first run's folder if omitted.

    Raises:
        Refused: fewer than two runs, a folder without a run or rows, damaged metrics, or a picture that
            cannot be written.
    """
    out = out or Run(folders[0]).comparison
    refuse_what_is_no_picture(out)
    runs = read(folders)
    try:
        draw(runs, out)
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror}") from error
    if as_json:
        print(json.dumps(as_object(runs) | {"picture": str(out)}))
        return
    console = program.console()
    for table in as_tables(program, runs, console.width):
        console.print(table)
    for note in notes(runs):
        console.print(program.safe(note), soft_wrap=True)
    console.print(program.safe(str(out)), soft_wrap=True)


# --- Comparison -----------------------------------------------------------------------------------


def differing(runs: Sequence[Curves]) -> dict[str, list[Any]]:
    """Return the settings that differ, with their values in each run."""
    every = [asdict(run.settings) for run in runs]
    columns = {
        field.name: [settings[field.name] for settings in every] for field in fields(Settings)
    }
    return {key: values for key, values in columns.items() if any(v != values[0] for v in values)}


def equal(runs: Sequence[Curves], loss: str) -> list[Equal]:
    """Return the losses at equal steps, tokens and seconds, if every run has them."""
    results = []
    for amount in AMOUNTS:
        curves = [run.by(amount, loss) for run in runs]
        measured = [curve for curve in curves if curve]
        if len(measured) == len(runs):
            at = min(curve[-1][0] for curve in measured)
            results.append(Equal(amount, at, [interpolated(curve, at) for curve in measured]))
    return results


def interpolated(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    """Interpolate linearly at x; None outside the points."""
    for point, height in reversed(curve):
        if point == x:
            return height
    for (x_left, low), (right, high) in pairwise(curve):
        if x_left < x < right:
            return low + (high - low) * (x - x_left) / (right - x_left)
    return None


def best(run: Curves) -> Point | None:
    """Return the first point with the lowest validation loss."""
    return min(run.points["validation"], key=lambda point: point.loss, default=None)


def last(run: Curves, loss: str) -> Point | None:
    """Return the last point."""
    return run.points[loss][-1] if run.points[loss] else None


def notes(runs: Sequence[Curves]) -> list[str]:
    """Return notes on how to read the figures."""
    sentences = [
        "Values between two rows of metrics.csv are interpolated linearly. Seconds are those of each run's "
        "machine, validation included."
    ]
    other = _other_data(runs)
    if other:
        sentences.append(
            "Not comparable: losses are per token, and data or vocabularies differ "
            f"({', '.join(other)})."
        )
    if unknown := [run.name for run in runs if tokens_of_a_step(run.settings) is None]:
        sentences.append(
            f"Equal tokens: unknown, because sequence lengths vary in {', '.join(unknown)}."
        )
    return sentences


def _other_data(runs: Sequence[Curves]) -> list[str]:
    """Return the differences that make losses incomparable."""
    settings = differing(runs)
    other = [key for key in settings if key in OF_THE_DATA]
    is_measured = all(run.data is not None for run in runs)  # otherwise compare the files' names
    if len({run.data for run in runs}) > 1 if is_measured else "data" in settings:
        other.append("data")
    if any(run.vocabulary != runs[0].vocabulary for run in runs):
        other.append("vocabulary.json")
    return other


def as_object(runs: Sequence[Curves]) -> dict[str, Any]:
    """Return everything as JSON, for `--json`."""
    return {
        "runs": [
            {
                "name": run.name,
                "folder": run.folder,
                "task": run.settings.task,
                "steps": run.reached.steps,
                "tokens": _tokens(run),
                "seconds": run.reached.seconds,
                "best_validation": _plain(best(run)),
                "last_validation": _plain(last(run, "validation")),
                "last_training": _plain(last(run, "training")),
            }
            for run in runs
        ],
        "settings": differing(runs),
        "equal": {loss: [asdict(losses) for losses in equal(runs, loss)] for loss in LOSSES},
        "notes": notes(runs),
    }


def _tokens(run: Curves) -> int | None:
    each = tokens_of_a_step(run.settings)
    return None if each is None else each * run.reached.steps


def _plain(point: Point | None) -> dict[str, Any] | None:
    return None if point is None else asdict(point)


# --- Tables ---------------------------------------------------------------------------------------


def as_tables(program: Program, runs: Sequence[Curves], width: int) -> Iterator[Table]:
    """Return tables with a column for each run: settings that differ, progress, losses; several tables
    if the terminal is too narrow."""
    together = max(1, (width - WORDS) // (FIGURES + 2))
    rows = list(_rows(runs))
    for first in range(0, len(runs), together):
        some = slice(first, first + together)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("", no_wrap=True)
        for run in runs[some]:
            table.add_column(
                program.safe(run.name), justify="right", overflow="fold", min_width=FIGURES
            )
        for words, figures in rows:
            if not figures:
                table.add_section()
                table.add_row(Text(words, "bold"))
            else:
                table.add_row(words, *map(program.safe, figures[some]))
        yield table


def _rows(runs: Sequence[Curves]) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables' rows: a label, and a figure for each run; a title has no figures."""
    if other := differing(runs):
        yield "settings", []
    for key, values in other.items():
        yield key, [_written(value) for value in values]
    yield "done", []
    for amount in AMOUNTS:
        have = [
            _tokens(run) if amount == "tokens" else getattr(run.reached, amount) for run in runs
        ]
        yield amount, ["unknown" if value is None else _number(value) for value in have]
    for loss in LOSSES:
        yield f"{loss} loss", []
        if loss == "validation":
            lowest = [best(run) for run in runs]
            yield "best", [_loss(point.loss if point else None) for point in lowest]
            yield "  at step", [f"{point.steps:,}" if point else "–" for point in lowest]
        ends = [last(run, loss) for run in runs]
        yield "last", [_loss(point.loss if point else None) for point in ends]
        for same in equal(runs, loss):
            yield f"at {_number(same.at)} {same.amount}", [_loss(value) for value in same.losses]


def _written(value: Any) -> str:
    """Format a value as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value) or "–"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
