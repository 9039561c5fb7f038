"""What an instructor says of a class beside the checks: in files, so that it holds when it is graded again.

A policy says what being late costs and whose points are set by hand. A map says which day's file an odd
name means, and whose a submission is. A roster says who is in the class.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from course.curriculum import Day
from course.grading.submission.names import ANSWERS, composed


@dataclass(frozen=True)
class Policy:
    """What counts beside the checks.

    Attributes:
        late: the share of its points that a late day loses.
        excused: learners who lose nothing.
        points: of learners whose points are set by hand.
        keep_best: whether the best submission of each day counts, and not the last.
    """

    late: Fraction = Fraction(0)
    excused: Collection[str] = ()
    points: Mapping[str, Fraction] = field(default_factory=dict)
    keep_best: bool = False

    @property
    def named(self) -> set[str]:
        """The learners of whom it speaks."""
        return {*self.excused, *self.points}


@dataclass(frozen=True)
class Member:
    """Somebody in the class, by their number, name and group, as far as the roster has them."""

    id: str = ""
    name: str = ""
    group: str = ""


class _Strict(yaml.SafeLoader):
    """Reads YAML, and refuses a mapping with a key twice, of which the last would win silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (where, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} is there twice", problem_mark=where.start_mark
                )
        return super().construct_mapping(node, deep)


def _mapping(path: Path, example: str) -> dict[Any, Any]:
    try:
        mapping = yaml.load(path.read_text(encoding="utf-8"), _Strict)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(mapping, dict):
        raise ValueError(f"{path} should hold a mapping, such as `{example}`.")
    return mapping


def read_weights(path: Path, days: list[Day]) -> dict[int, float]:
    """The points by a day's number, from a YAML file that maps days to points.

    Raises:
        ValueError: it does not, with the reason.
    """
    numbers = {day.number for day in days}
    weights = _mapping(path, "8: 2")
    for number, points in weights.items():
        if number not in numbers:
            raise ValueError(f"{path}: {number!r} is none of the days that are graded.")
        _demand_points(path, points, f"day {number}")
    return weights


def read_policy(path: Path) -> Policy:
    """A policy, from a YAML file with `late`, `excused`, `points` and `keep`.

    Raises:
        ValueError: it is none, with the reason.
    """
    policy = _mapping(path, "late: 0.1")
    if unknown := sorted(map(str, policy.keys() - {"late", "excused", "points", "keep"})):
        raise ValueError(
            f"{path}: {unknown[0]!r} is none of `late`, `excused`, `points` and `keep`."
        )
    late, excused = policy.get("late", 0), policy.get("excused", [])
    points, keep = policy.get("points", {}), policy.get("keep", "last")
    if keep not in ("last", "best"):
        raise ValueError(f"{path}: keep must be `last` or `best`, got {keep!r}")
    if type(late) not in (int, float) or not 0 <= late <= 1:
        raise ValueError(f"{path}: late must be a share from 0 to 1, got {late!r}")
    if not isinstance(excused, list) or not isinstance(points, dict):
        raise ValueError(f"{path}: excused must be a list of learners, and points a mapping.")
    for learner, value in points.items():
        _demand_points(path, value, str(learner))
    by_hand = {composed(str(learner)): Fraction(str(value)) for learner, value in points.items()}
    names = {composed(str(name)) for name in excused}
    return Policy(Fraction(str(late)), names, by_hand, keep == "best")


def _demand_points(path: Path, points: object, whose: str) -> None:
    if type(points) not in (int, float) or not 0 <= points < 1e6:  # type: ignore[operator]
        raise ValueError(f"{path}: {points!r} points for {whose}; 0 or more are allowed.")


def read_map(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What names mean, from a YAML file that maps each to a day's file or to a learner.

    Returns:
        the names of files by the days' files that they mean, and those of submissions by their learners.

    Raises:
        ValueError: it is none, with the reason.
    """
    mapping = {
        composed(str(name)): composed(str(means))
        for name, means in _mapping(path, "hw2.py: day02_attention.py").items()
    }
    files = {name: means for name, means in mapping.items() if means in ANSWERS}
    for name, means in files.items():
        if Path(name).suffix.lower() != Path(means).suffix:
            raise ValueError(f"{path}: {name} and {means} must have the same ending.")
    return files, {name: means for name, means in mapping.items() if name not in files}


def read_roster(path: Path) -> list[Member]:
    """The members of a class, from a CSV file with the columns `id`, `name` and `group`, or some of them.

    Raises:
        ValueError: it is none, with the reason.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    table = [
        {
            (key or "").strip().lower(): composed(value)
            for key, value in row.items()
            if isinstance(value, str)
        }
        for row in rows
    ]
    members = [
        Member(*(row.get(name, "").strip() for name in ("id", "name", "group"))) for row in table
    ]
    members = [member for member in members if member.id or member.name]
    if not members:
        raise ValueError(
            f"{path} should have a line `id,name,group`, and below it a line for each member."
        )
    return members
