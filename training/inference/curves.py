"""The metrics of runs: losses over steps, tokens and seconds."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.data.tasks import Copy
from training.errors import Refused
from training.loop.monitor import COLUMNS
from training.loop.run_folder import Run
from training.settings import Settings


@dataclass(frozen=True)
class Point:
    """A loss per token after a number of steps and seconds, including validation."""

    steps: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class Curves:
    """The metrics of a run."""

    name: str
    folder: str
    settings: Settings
    vocabulary: Any
    """The evaluation as JSON; None if there is none."""
    data: str | None
    """A fingerprint; None if unknown."""
    points: dict[str, list[Point]]
    """Points by kind of loss. Training losses are means over the steps since the previous row."""

    @property
    def reached(self) -> Point:
        """The last row."""
        return self.points["training"][-1]

    def by(self, amount: str, loss: str) -> list[tuple[float, float]] | None:
        """Return losses over steps, tokens or seconds; None if the number of tokens is unknown."""
        if amount == "seconds":
            return [(point.seconds, point.loss) for point in self.points[loss]]
        each = 1 if amount == "steps" else tokens_of_a_step(self.settings)
        return (
            None
            if each is None
            else [(point.steps * each, point.loss) for point in self.points[loss]]
        )


def read(folders: Sequence[Path]) -> list[Curves]:
    """Read the metrics of several runs, each under its own name.

    Raises:
        Refused: fewer than two runs, a run named twice, a folder without a run, a run without rows, or
            damaged metrics.
    """
    if len(folders) < 2:
        raise Refused("course compare needs at least two runs: course compare RUN RUN …")
    resolved = [folder.resolve() for folder in folders]
    for number, folder in enumerate(folders):
        if resolved[number] in resolved[:number]:
            raise Refused(f"{folder} is named twice: compare it with a different run")
    short = [folder_path.name for folder_path in resolved]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    return [_curves(name, Run.found(folder)) for name, folder in zip(names, folders, strict=True)]


def _curves(name: str, run: Run) -> Curves:
    settings, languages = run.settings(), run.languages()
    rows = _rows(run.metrics)
    if not rows:
        raise Refused(f"{run.folder} has no rows yet: train it first, or wait for its first steps")
    points = {
        loss: [
            Point(int(row["step"]), row["seconds"], row[column])
            for row in rows
            if not math.isnan(row[column])
        ]
        for loss, column in (("training", "loss"), ("validation", "validation_loss"))
    }
    vocabulary = languages and languages.as_json()
    return Curves(name, str(run.folder), settings, vocabulary, run.facts().get("data"), points)


def _rows(metrics: Path) -> list[dict[str, float]]:
    """Read the rows of a run's metrics, NaN for empty cells, without an incomplete last row.

    Raises:
        Refused: the file is not rows of numbers with increasing steps.
    """
    try:
        lines = metrics.read_text(encoding="utf-8").split("\n")[:-1]  # the last row is incomplete
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{metrics} cannot be read: {error}") from error
    rows: list[dict[str, float]] = []
    for number, row in enumerate(csv.DictReader(lines), 2):
        try:
            if None in row or None in row.values():  # more cells than columns, or fewer
                raise ValueError
            values = {name: float(row[name] or "nan") for name in COLUMNS}
            if not math.isfinite(values["step"] + values["seconds"] + values["loss"]):
                raise ValueError
            if rows and (
                values["step"] <= rows[-1]["step"] or values["seconds"] < rows[-1]["seconds"]
            ):
                raise ValueError
        except (TypeError, ValueError, KeyError) as error:
            raise Refused(f"{metrics} is damaged in line {number}") from error
        rows.append(values)
    return rows


def tokens_of_a_step(settings: Settings) -> int | None:
    """Return the number of tokens predicted per step, if it is constant (text windows, answers of ten
    symbols); None for sums and sentences, whose lengths vary."""
    lengths = {"shakespeare": settings.context, "text": settings.context}
    lengths |= {"copy": Copy.length, "sorting": Copy.length}
    if settings.task not in lengths:
        return None
    return settings.accumulate * settings.batch * lengths[settings.task]
