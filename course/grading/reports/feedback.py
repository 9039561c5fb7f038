"""A learner's feedback on a day, exercise by exercise: the points, what went wrong, and what would
make it watertight.

Checks that failed in the same way are reported once. All of it is plain text, for each report to escape.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from course.checks.loading import CORE, load_checks
from course.curriculum import BY_NUMBER, Day
from course.grading.gradebook import Weights
from course.grading.reports.escaping import shortened

QUIET = ("passed", "skipped")


@dataclass(frozen=True)
class Failure:
    """The feedback on checks of one exercise that failed in the same way.

    Attributes:
        says: what the first of them is about, in a sentence.
        diagnosis: what was misunderstood, where that is known.
        message: what was seen instead, or what else there is to say.
        beyond: why it asks more than the day is about; empty for core.
    """

    status: str
    checks: tuple[str, ...]
    says: str
    misconception: str | None
    diagnosis: str
    message: str
    beyond: str

    @property
    def others(self) -> str:
        """The checks after the first, those that differ in their parameters alone as one."""
        return folded(self.checks[1:])


@dataclass(frozen=True)
class Exercise:
    """What became of one exercise of a day.

    Attributes:
        passed: how many of its core checks pass, of `total`.
        failures: what went wrong in its core.
        invitations: what it lacks to be watertight. While its core fails, that can wait.
    """

    name: str
    status: str
    points: Fraction
    max_points: Fraction
    passed: int
    total: int
    failures: tuple[Failure, ...]
    invitations: tuple[Failure, ...]


def exercises(result: Mapping[str, Any], weights: Weights) -> list[Exercise]:
    """The exercises of a day's verdicts."""
    day = BY_NUMBER[result["day"]]
    return [_exercise(day, name, result, weights) for name in day.exercises]


def others(failures: Sequence[Failure]) -> str:
    """The checks that went wrong otherwise than the first did."""
    return folded(name for failure in failures[1:] for name in failure.checks)


def folded(names: Iterable[str]) -> str:
    """Names of checks in a row, those that differ in their parameters alone as one."""
    counts = Counter(name.removeprefix("test_").partition("[")[0] for name in names)
    return ", ".join(f"{name} (×{count})" if count > 1 else name for name, count in counts.items())


def _exercise(day: Day, name: str, result: Mapping[str, Any], weights: Weights) -> Exercise:
    checks = [check for check in result["checks"] if check["exercise"] == name]
    core = [check for check in checks if check["tier"] == CORE]
    wrong = _open(core)
    passed = sum(check["status"] == "passed" for check in core)
    # A skipped check is worth a word only where all were: then nothing was earned.
    untold = wrong if wrong or passed else core
    beyond = [] if untold else _open(check for check in checks if check["tier"] != CORE)
    return Exercise(
        name,
        untold[0]["status"] if untold else "passed",
        weights.day_points({"day": day.number, "checks": checks}),
        weights.of(day.number) / len(day.exercises),
        passed,
        passed + len(wrong),
        tuple(_failures(day, untold)),
        tuple(_failures(day, beyond)),
    )


def _open(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that were asked and do not pass."""
    return [check for check in checks if check["status"] not in QUIET]


def _failures(day: Day, checks: Iterable[Mapping[str, Any]]) -> list[Failure]:
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for check in checks:
        diagnosis, message = _parts(check)
        alike.setdefault((check["status"], diagnosis, "" if diagnosis else message), []).append(
            check
        )
    return [
        _failure(day, status, diagnosis, group) for (status, diagnosis, _), group in alike.items()
    ]


def _failure(day: Day, status: str, diagnosis: str, group: list[Mapping[str, Any]]) -> Failure:
    first, names = group[0], tuple(check["name"] for check in group)
    says, beyond = _words(day).get(first["name"], ("", ""))
    message = shortened(_parts(first)[1])
    return Failure(
        status, names, says, first["misconception"], shortened(diagnosis), message, beyond
    )


def _parts(check: Mapping[str, Any]) -> tuple[str, str]:
    """What was misunderstood, and the rest: a known mistake is told in the message's first line.

    Of several at once each has its own line, always in the same order.
    """
    if check["misconception"] is None:
        return "", check["message"]
    diagnosis, _, rest = check["message"].partition("\n")
    head, *several = diagnosis.split(" • ")
    return "\n• ".join([head, *sorted(several)]), rest


@functools.cache
def _words(day: Day) -> dict[str, tuple[str, str]]:
    """What each check is about, and why it asks more than the day is about, where it does."""
    return {check.name: (check.says, check.beyond) for check in load_checks(day)}
