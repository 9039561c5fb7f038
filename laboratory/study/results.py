"""The results of a study's cells, as `laboratory/studies/NAME/results.json`: one cell per line, sorted.

Timings are in a list of their own, so that a second run of the same study changes only that list.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.checkpoints import write_atomically
from training.errors import Refused

Value = int | float | str | bool
Point = dict[str, Value]

FILE = "results.json"


@dataclass(frozen=True)
class CellResult:
    """A finished cell. A figure that is not a number is NaN; a loss that is none says that the run
    diverged."""

    variant: str
    point: Point
    seed: int
    figures: dict[str, float]
    """The same on every run on the same kind of CPU; "loss" and "parameters" are always there."""
    timed: dict[str, float] = field(default_factory=dict)
    """Seconds, tokens a second, bytes at the peak: others on every run."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Step and validation loss."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What one analysis needs, as plain JSON."""
    blocks: dict[str, list[float]] = field(default_factory=dict)
    """Losses by the block of the validation split, where a figure is their mean."""

    @property
    def key(self) -> str:
        """Which cell it is; two cells of a study never have the same one."""
        return _line([self.variant, self.point, self.seed])

    @property
    def diverged(self) -> bool:
        """Whether its loss is no number."""
        return not math.isfinite(self.figures["loss"])


@dataclass(frozen=True)
class Results:
    """What a study's finished cells gave, and with what they were made."""

    study: str
    provenance: dict[str, str | int]
    """torch, machine, threads, device, commit, data; `asked`, a digest of the settings."""
    cells: list[CellResult]
    counted: dict[str, float] = field(default_factory=dict)
    """Of a text: the losses that counting gives, by `laboratory.study.counting`."""
    rates: dict[str, float] = field(default_factory=dict)
    """The chosen factor of the learning rate, by variant and point; empty where none was chosen."""
    trials: dict[str, dict[float, list[float]]] = field(default_factory=dict)
    """Of the runs that chose: the loss of each seed at each factor, by variant and point."""


def write(results: Results, folder: Path) -> None:
    """Write `results.json`, with the cells sorted. What is not finite becomes null.

    Args:
        results: of its finished cells.

    Raises:
        OSError: the file could not be written; an older one is untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in _lines(results)).encode())


def read(folder: Path) -> Results:
    """What `write` wrote.

    Args:
        folder: where `results.json` lies.

    Raises:
        Refused: no such file, a damaged one, or one of something else.
    """
    path = folder / FILE
    try:
        entries = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise Refused(f"{path} does not exist: the study has no results yet") from error
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        raise Refused(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    try:
        return _results(entries)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(
            f"{path} is damaged, or not the results of a study ({type(error).__name__}: {error}): "
            "restore it, or run the study again"
        ) from error


# --- As text --------------------------------------------------------------------------------------


def _lines(results: Results) -> Iterator[str]:
    cells = sorted(
        results.cells, key=lambda cell: (cell.variant, *_sortable(cell.point), cell.seed)
    )
    yield f'{{"study": {_line(results.study)},'
    yield f'"made": {json.dumps(results.provenance, indent=1, sort_keys=True, ensure_ascii=False)},'
    sections = {"counted": results.counted, "rates": results.rates, "trials": results.trials}
    for name, content in sections.items():
        if content:
            yield f'"{name}": {_line(content)},'
    yield '"cells": ['
    yield from _listed(
        {
            **{"variant": cell.variant, "point": cell.point, "seed": cell.seed},
            **{"figures": _sorted(cell.figures), "blocks": cell.blocks},
            **{"curve": cell.curve, "extra": cell.extra},
        }
        for cell in cells
    )
    yield '], "timed": ['
    yield from _listed(_sorted(cell.timed) for cell in cells)
    yield "]}"


def _sortable(point: Point) -> list[tuple[bool, float, str]]:
    """Numbers by size, and words after them by the alphabet."""
    return [
        (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")
        for value in point.values()
    ]


def _sorted(figures: dict[str, float]) -> dict[str, float]:
    return dict(sorted(figures.items()))


def _listed(rows: Iterable[Any]) -> Iterator[str]:
    lines = [_line(row) for row in rows]
    for number, line in enumerate(lines, 1):
        yield f"{line}," if number < len(lines) else line


def _line(value: Any) -> str:
    """JSON in a line. Python writes a float with the digits that bring it back."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """With null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- And back -------------------------------------------------------------------------------------


def _results(entries: dict[str, Any]) -> Results:
    if type(entries["study"]) is not str:
        raise TypeError("study must be a name")
    cells = [
        _seen(cell, timed) for cell, timed in zip(entries["cells"], entries["timed"], strict=True)
    ]
    keys = [cell.key for cell in cells]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"the cell {min(twice)} is there twice")
    return Results(
        entries["study"],
        dict(entries["made"].items()),
        cells,
        _numbers(entries.get("counted", {})),
        _numbers(entries.get("rates", {})),
        {
            name: {float(rate): list(map(_number, losses)) for rate, losses in by.items()}
            for name, by in entries.get("trials", {}).items()
        },
    )


def _seen(entry: dict[str, Any], timed: dict[str, float | None]) -> CellResult:
    if type(entry["seed"]) is not int or type(entry["variant"]) is not str:
        raise TypeError("a seed must be a whole number, and a variant a name")
    figures = _numbers(entry["figures"])
    if missing := {"loss", "parameters"} - set(figures):
        raise ValueError(f"a cell of {entry['variant']} lacks {min(missing)}")
    return CellResult(
        variant=entry["variant"],
        point=dict(entry["point"].items()),
        seed=entry["seed"],
        figures=figures,
        timed=_numbers(timed),
        blocks={
            name: list(map(_number, losses)) for name, losses in entry.get("blocks", {}).items()
        },
        curve=[(int(step), _number(loss)) for step, loss in entry["curve"]],
        extra=dict(entry["extra"].items()),
    )


def _numbers(values: dict[str, float | None]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError(f"{value!r} is no number")
    return math.nan if value is None else float(value)
