"""A study: a question, and the runs that answer it, as `laboratory/studies/NAME/study.yaml` has them.

question: Where should the norm be?
task: shakespeare
settings: {layers: 2, d_model: 64, steps: 400}      # of training.settings, and what all variants share
recipe: {positions: rope}                           # of laboratory.study.model, likewise
baseline: pre
twice: pre_twice                                    # one more: the baseline with twice the steps
pairs: {post: none}                                 # compared with each other, besides the baseline
variants:                                           # each changes some settings, or some of the recipe
  pre: {normalized_by: layer}
  post: {norm: post}
grid: {layers: [2, 6]}                              # every variant at every point
leave_out: [{variant: post, layers: 6}]             # but for these
seeds: [0, 1, 2]
equal: parameters                                   # what is held equal, and in a sentence how
held: Every model reads the same 400 batches.
answer: Pre-norm, above all in deep models.          # in plain words, before the figures
caveat: Every model ends at the bigram level.       # the answer is never given without it
learning_rates: [0.5, 1, 2]                         # factors; each variant runs at the best of them
measures: [loss]
figures: {loss: {words: loss, unit: nats per character, better: lower, digits: 3, margin: 0.01}}
pictures: [{kind: against, x: layers, y: loss}]
why: {read_256: Learned positions end at the trained length.}
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from laboratory.study.measures import MEASURES, TIMED
from laboratory.study.model import Recipe
from training.errors import Refused
from training.settings import OF_LANGUAGE, Settings, from_yaml

STUDIES = Path(__file__).resolve().parents[1] / "studies"
REPEATS = "repeats"
EQUAL = ("parameters", "tokens", "compute", "time")
KINDS = ("against", "differences", "curves", "scatter", "lengths")
BETTER = ("lower", "higher", "")
MIN_SEEDS = 3  # fewer cannot separate anything
KEYS = {
    *("question", "task", "settings", "recipe", "baseline", "variants", "grid", "leave_out"),
    *("equal", "held", "answer", "caveat", "learning_rates", "measures", "figures", "pictures"),
    *("seeds", "why", "twice", "pairs", "later"),
}
COMPUTES = (
    *("task", "settings", "recipe", "variants", "grid", "leave_out", "measures", "learning_rates"),
)
TIMES_RATE = "times_rate"  # in a grid: multiples of each variant's best learning rate
TRIAL_SEEDS = 1001, 1002  # on which learning rates are chosen; no study reports them

Value = int | float | str | bool
Point = dict[str, Value]


@dataclass(frozen=True)
class Figure:
    """A figure of a run, and how reports show it."""

    name: str
    words: str
    better: str = "lower"
    digits: int = 3
    timed: bool = False
    """Whether it is measured by the clock, and so different each time."""
    unit: str = ""
    margin: float = 0.0
    """Differences within ±margin are too small to matter; 0 where none is stated."""

    @property
    def label(self) -> str:
        """The words with the unit: "loss in nats per character"."""
        return f"{self.words} in {self.unit}" if self.unit else self.words


@dataclass(frozen=True)
class Picture:
    """What is drawn over what."""

    kind: str
    y: str
    x: str = ""
    logx: bool = False


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    variant: str
    point: tuple[tuple[str, Value], ...]
    seed: int
    task: str
    settings: Settings
    recipe: Recipe
    measures: tuple[str, ...]
    rate: float | None = None
    """The factor of the learning rate that the run tries out; None for a run that is reported."""

    @property
    def place(self) -> str:
        """The variant and the point."""
        return place_of(self.variant, dict(self.point))

    @property
    def tuned_at(self) -> str:
        """The place at whose best learning rate it runs, or at a multiple of it."""
        return place_of(self.variant, {k: v for k, v in self.point if k != TIMES_RATE})

    @property
    def name(self) -> str:
        """For people, and for a folder."""
        tried = "" if self.rate is None else f",rate={self.rate:g}"
        return f"{self.place},seed={self.seed}{tried}"


def place_of(variant: str, point: Point) -> str:
    """A variant and a point in a word."""
    return ",".join([variant, *(f"{key}={value}" for key, value in point.items())])


@dataclass(frozen=True)
class Study:
    """A question, and the cells that answer it."""

    name: str
    question: str
    baseline: str
    equal: str
    controls: str
    variants: tuple[str, ...]
    twice: str
    """The variant that is the baseline with twice the steps, and is not compared; may be empty."""
    pairs: dict[str, str]
    """Variants that are compared with a different one than the baseline as well."""
    later: dict[str, str]
    """More such pairs, chosen after the results were known."""
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    figures: tuple[Figure, ...]
    pictures: tuple[Picture, ...]
    answer: str
    """The answer in plain words; may be empty."""
    caveat: str
    """What the answer must not be read without, in a sentence; may be empty."""
    learning_rates: tuple[float, ...]
    """Factors of the learning rate that each variant tries; empty where all have one rate."""
    why: dict[str, str]
    """Why some variant lacks a figure, by the figure's name."""
    computes: dict[str, Any]
    """The keys of study.yaml that runs depend on, but for the seeds."""
    cells: tuple[Cell, ...]

    @property
    def of_repeats(self) -> bool:
        """Whether its models read repeated segments, and their heads are looked at."""
        return self.cells[0].task == REPEATS

    @property
    def rivals(self) -> tuple[str, ...]:
        """The variants that are compared with the baseline."""
        return tuple(
            variant for variant in self.variants if variant not in (self.baseline, self.twice)
        )

    @property
    def trials(self) -> tuple[Cell, ...]:
        """The runs on which each variant's learning rate is chosen, with seeds of their own."""
        first = {
            cell.tuned_at: cell
            for cell in reversed(self.cells)
            if dict(cell.point).get(TIMES_RATE, 1) == 1
        }
        return tuple(
            replace(
                cell,
                seed=seed,
                settings=_faster(cell.settings.replace({"seed": seed}), rate),
                measures=(),
                rate=rate,
            )
            for cell in reversed(first.values())
            for rate in self.learning_rates
            for seed in TRIAL_SEEDS
        )

    @property
    def asked(self) -> str:
        """A digest of what runs depend on, but for the seeds."""
        return self.asked_of(self.variants)

    def asked_of(self, variants: Collection[str]) -> str:
        """The same digest if the study had only these variants."""
        chosen = {
            name: changes for name, changes in self.computes["variants"].items() if name in variants
        }
        left_out = self.computes["leave_out"]
        if left_out is not None:
            left_out = [
                entry for entry in left_out if entry.get("variant", chosen) in (chosen, *chosen)
            ]
        contents = self.computes | {"variants": chosen, "leave_out": left_out}
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:12]

    def at(self, rates: Mapping[str, float]) -> Study:
        """The same study with each cell at the factor of its learning rate that was chosen, by its place."""
        cells = (
            replace(cell, settings=_faster(cell.settings, rates.get(cell.tuned_at, 1.0)))
            for cell in self.cells
        )
        return replace(self, cells=tuple(cells))

    @property
    def folder(self) -> Path:
        """Where its results are written."""
        return STUDIES / self.name


def _faster(settings: Settings, rate: float) -> Settings:
    return settings.replace({"factor": rate * settings.factor})


def names() -> list[str]:
    """The names of all studies."""
    return sorted(path.parent.name for path in STUDIES.glob("*/study.yaml"))


def read(name: str, seeds: int = 0) -> Study:
    """A study by its name.

    Args:
        name: of its folder in `studies/`.
        seeds: how many it is extended to, if it has fewer.

    Raises:
        Refused: no such study, or something in it that is not allowed.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise Refused(f"There is no study {name!r}{meant}: {', '.join(names())}")
    path = STUDIES / name / "study.yaml"
    try:
        entries = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise Refused(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return of(entries, name, path, seeds)


def of(entries: Any, name: str, path: Path, seeds: int = 0) -> Study:
    """A study from what its file holds.

    Args:
        path: of the file, which is named where something is wrong.
        seeds: how many it is extended to, if it has fewer.

    Raises:
        Refused: something that is not allowed.
    """
    try:
        return _of(entries, name, seeds)
    except Refused as error:
        raise Refused(f"{path}: {error}") from error


def _of(entries: Any, name: str, least: int) -> Study:
    _mapping(entries, "A study", KEYS)
    missing = {"question", "task", "baseline", "variants", "seeds", "equal", "held"} - set(entries)
    if missing:
        raise Refused(f"it lacks {', '.join(sorted(missing))}")
    variants: dict[str, Any] = _mapping(entries["variants"], "variants")
    _among(entries["baseline"], "baseline", variants)
    twice = str(entries.get("twice", ""))
    if twice:
        variants = {**variants, twice: _twice(entries, twice)}
        entries = {**entries, "variants": variants}
    pairs, later = (_pairs(entries, key, variants) for key in ("pairs", "later"))
    _among(entries["equal"], "equal", EQUAL)
    _among(entries["task"], "task", (*OF_LANGUAGE, REPEATS))
    figures = tuple(_figures(entries.get("figures", {})))
    seeds = _seeds(entries["seeds"])
    seeds += tuple(range(max(seeds) + 1, max(seeds) + 1 + least - len(seeds)))
    points = list(_points(_mapping(entries.get("grid", {}), "grid")))
    cells = tuple(_cells(entries, variants, points, seeds))
    return Study(
        name=name,
        question=str(entries["question"]),
        baseline=str(entries["baseline"]),
        equal=str(entries["equal"]),
        controls=str(entries["held"]),
        variants=tuple(variants),
        twice=twice,
        pairs=pairs,
        later=later,
        points=tuple(point for point in points if any(dict(c.point) == point for c in cells)),
        seeds=seeds,
        figures=figures,
        pictures=tuple(_pictures(entries.get("pictures", []))),
        answer=str(entries.get("answer", "")),
        caveat=str(entries.get("caveat", "")),
        learning_rates=_rates(entries.get("learning_rates", []), entries["task"]),
        why=dict(entries.get("why", {})),
        computes={key: entries.get(key) for key in COMPUTES},
        cells=cells,
    )


def _pairs(entries: Mapping[str, Any], key: str, variants: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = _mapping(entries.get(key, {}), key)
    for variant in itertools.chain(*pairs.items()):
        _among(variant, key, variants)
    return pairs


def _twice(entries: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The baseline with twice its steps, as a variant that is not compared."""
    if name in entries["variants"]:
        raise Refused(f"twice must be the name of a new variant, not {name!r}")
    changes = entries["variants"][entries["baseline"]] or {}
    steps = {"steps": Settings.steps, **entries.get("settings", {}), **changes}["steps"]
    return {**changes, "steps": 2 * steps}


# --- Cells ----------------------------------------------------------------------------------------


def _points(grid: Mapping[str, list[Value]]) -> Iterator[Point]:
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise Refused(f"grid: {key} must be a list of values, not {values!r}")
    for chosen in itertools.product(*grid.values()):
        yield dict(zip(grid, chosen, strict=True))


def _cells(
    entries: Mapping[str, Any],
    variants: Mapping[str, Any],
    points: list[Point],
    seeds: Iterable[int],
) -> Iterator[Cell]:
    """All runs, ordered by seed, so that a part of them can be compared already."""
    shared = {**entries.get("settings", {}), **entries.get("recipe", {})}
    left_out = entries.get("leave_out", [])
    for seed, point, (variant, changes) in itertools.product(seeds, points, variants.items()):
        coordinates: dict[str, Any] = {"variant": variant, "seed": seed, **point}
        if any(entry.items() <= coordinates.items() for entry in left_out):
            continue
        every = {**shared, **(changes or {}), **point}
        every["factor"] = every.get("factor", Settings.factor) * every.pop(TIMES_RATE, 1)
        settings, recipe = _sorted_out(every, variant)
        task = entries["task"]
        settings |= {"task": "text" if task == REPEATS else task, "seed": seed}
        yield Cell(
            variant,
            tuple(point.items()),
            seed,
            task,
            from_yaml(yaml.safe_dump(settings), Path(variant)),
            recipe_of(recipe),
            tuple(_measures(entries.get("measures", []))),
        )


RECIPE = {field.name for field in dataclasses.fields(Recipe)}
SETTINGS = {field.name for field in dataclasses.fields(Settings)}


def _sorted_out(entries: dict[str, Any], variant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is the trainer's, and what is the model's."""
    unknown = set(entries) - RECIPE - SETTINGS
    if unknown:
        key = sorted(unknown)[0]
        near = difflib.get_close_matches(key, sorted(RECIPE | SETTINGS), n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise Refused(f"{variant}: there is no setting and no part of a recipe {key!r}{meant}")
    return (
        {key: value for key, value in entries.items() if key in SETTINGS},
        {key: value for key, value in entries.items() if key in RECIPE},
    )


def recipe_of(entries: dict[str, Any]) -> Recipe:
    """A recipe from a file's words."""
    types = {field.name: field.type for field in dataclasses.fields(Recipe)}
    for key, value in entries.items():
        if types[key] == "float" and isinstance(value, int) and not isinstance(value, bool):
            entries[key] = float(value)
        elif type(value).__name__ != types[key]:
            raise Refused(f"{key} must be of type {types[key]}, not {value!r}")
    return Recipe(**entries)


# --- What a file may hold -------------------------------------------------------------------------


def _mapping(value: Any, what: str, allowed: Iterable[str] | None = None) -> Any:
    if not isinstance(value, dict):
        raise Refused(f"{what} must be a mapping, not {value!r}")
    if allowed is not None and (odd := sorted(set(map(str, value)) - set(allowed))):
        raise Refused(f"{what} has no {odd[0]!r}: {', '.join(sorted(allowed))}")
    return value


def _among(value: Any, what: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise Refused(f"{what} must be one of {', '.join(filter(None, allowed))}, not {value!r}")


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(seed) is int for seed in value):
        raise Refused(f"seeds must be a list of whole numbers, not {value!r}")
    if len(set(value)) != len(value) or len(value) < MIN_SEEDS:
        raise Refused(f"seeds must be at least {MIN_SEEDS} different ones, not {value!r}")
    return tuple(value)


def _rates(value: Any, task: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(
        type(factor) in (int, float) and factor > 0 for factor in value
    ):
        raise Refused(f"learning_rates must be a list of factors above 0, not {value!r}")
    if value and task not in OF_LANGUAGE:
        raise Refused(
            f"learning_rates are chosen on a part of a training text, which the task {task} lacks"
        )
    return tuple(map(float, value))


def _measures(measures: Any) -> Iterator[str]:
    for name in measures:
        if name not in (*MEASURES, *TIMED):
            raise Refused(f"There is no measure {name!r}: {', '.join([*MEASURES, *TIMED])}")
        yield name


def _figures(entries: Any) -> Iterator[Figure]:
    for name, entry in _mapping(entries, "figures").items():
        allowed = {field.name for field in dataclasses.fields(Figure)} - {"name"}
        figure = Figure(name, **_mapping(entry, f"figures: {name}", allowed))
        _among(figure.better, f"figures: {name}: better", BETTER)
        yield figure


def _pictures(entries: Any) -> Iterator[Picture]:
    for entry in entries:
        allowed = {field.name for field in dataclasses.fields(Picture)}
        picture = Picture(**_mapping(entry, "a picture", allowed))
        _among(picture.kind, "a picture's kind", KINDS)
        yield picture
