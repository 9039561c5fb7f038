"""What a learner is told of a day, exercise by exercise: the points, and what went wrong.

Checks that went wrong alike are told of once. All of it is plain text, for each report to escape.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from course.checks.loading import load_checks
from course.curriculum import DAYS, Day
from course.grading.gradebook import Weights
from course.grading.reports.escaping import shortened

QUIET = ("passed", "skipped")


@dataclass(frozen=True)
class Failure:
    """What is told once of checks of one exercise that went wrong alike.

    Attributes:
        says: what the first of them is about, in a sentence.
        told: what was misunderstood, where that is known.
        message: what was seen instead, or what else there is to say.
    """

    status: str
    checks: tuple[str, ...]
    says: str
    misconception: str | None
    told: str
    message: str

    @property
    def others(self) -> str:
        """The checks after the first, those that differ in their parameters alone as one."""
        return folded(self.checks[1:])


@dataclass(frozen=True)
class Exercise:
    """What became of one exercise of a day."""

    name: str
    status: str
    points: Fraction
    max_points: Fraction
    passed: int
    total: int
    failures: tuple[Failure, ...]

    @property
    def others(self) -> str:
        """The checks that went wrong otherwise than the first did."""
        return folded(name for failure in self.failures[1:] for name in failure.checks)


def exercises(result: Mapping[str, Any], weights: Weights) -> list[Exercise]:
    """The exercises of a day's verdicts."""
    day = DAYS[result["day"] - 1]
    return [_exercise(day, name, result, weights) for name in day.exercises]


def folded(names: Iterable[str]) -> str:
    """Names of checks in a row, those that differ in their parameters alone as one."""
    counts = Counter(name.removeprefix("test_").partition("[")[0] for name in names)
    return ", ".join(f"{name} (×{count})" if count > 1 else name for name, count in counts.items())


def _exercise(day: Day, name: str, result: Mapping[str, Any], weights: Weights) -> Exercise:
    checks = [check for check in result["checks"] if check["exercise"] == name]
    wrong = [check for check in checks if check["status"] not in QUIET]
    passed = sum(check["status"] == "passed" for check in checks)
    # A skipped check is worth a word only where all were: then nothing was earned.
    untold = wrong if wrong or passed else checks
    return Exercise(
        name,
        untold[0]["status"] if untold else "passed",
        weights.day_points({"day": day.number, "checks": checks}),
        weights.of(day.number) / len(day.exercises),
        passed,
        passed + len(wrong),
        tuple(_failures(day, untold)),
    )


def _failures(day: Day, checks: Iterable[Mapping[str, Any]]) -> list[Failure]:
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for check in checks:
        told, message = _parts(check)
        alike.setdefault((check["status"], told, "" if told else message), []).append(check)
    return [
        Failure(
            status,
            tuple(check["name"] for check in group),
            _says(day).get(group[0]["name"], ""),
            group[0]["misconception"],
            shortened(told),
            shortened(_parts(group[0])[1]),
        )
        for (status, told, _), group in alike.items()
    ]


def _parts(check: Mapping[str, Any]) -> tuple[str, str]:
    """What was misunderstood, and the rest: a known mistake is told in the message's first line."""
    if check["misconception"] is None:
        return "", check["message"]
    told, _, rest = check["message"].partition("\n")
    return told, rest


@functools.cache
def _says(day: Day) -> dict[str, str]:
    return {check.name: check.says for check in load_checks(day)}
