"""Verdicts as data: of a check, of a day, of all that was asked for; and as the JSON that graders read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from course.curriculum import Day

BROKEN = ("error", "timed_out", "out_of_memory")


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one check.

    Attributes:
        status: passed, failed, error, timed_out, out_of_memory, not_started or skipped.
        message: what to tell the learner; empty when passed.
        says: what the check is about, in a sentence.
        misconception: the id of the known wrong answer that this is, or None.
        seconds: wall time as seen from outside the worker.
    """

    name: str
    exercise: str
    status: str
    message: str = ""
    says: str = ""
    misconception: str | None = None
    seconds: float = 0.0
    device: str = "cpu"

    @property
    def went_wrong(self) -> bool:
        """Whether something of the learner's own is wrong, and not only missing."""
        return self.status not in ("passed", "not_started", "skipped")

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "exercise": self.exercise,
            "device": self.device,
            "status": self.status,
            "message": self.message,
            "misconception": self.misconception,
            "seconds": round(self.seconds, 4),
        }


@dataclass(frozen=True)
class DayResult:
    """The verdicts on a day's checks.

    Attributes:
        begun: whether anything in the learner's file differs from the stub.
        printed: what the learner's code printed on the way.
        as_new: whether its worker was as if it had served nobody before.
    """

    day: Day
    checks: tuple[CheckResult, ...]
    begun: bool = True
    seconds: float = 0.0
    printed: str = field(default="", compare=False)
    as_new: bool = field(default=True, compare=False)

    @property
    def status(self) -> str:
        """The worst that came of it: error, failed, not_started, in_progress, passed or skipped."""
        statuses = [check.status for check in self.checks]
        if any(status in BROKEN for status in statuses):
            return "error"
        if "failed" in statuses:
            return "failed"
        if "not_started" in statuses:
            return "in_progress" if self.begun else "not_started"
        return "passed" if "passed" in statuses else "skipped"

    @property
    def passed(self) -> int:
        return sum(check.status == "passed" for check in self.checks)

    @property
    def total(self) -> int:
        return sum(check.status != "skipped" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {
            "day": self.day.number,
            "stem": self.day.stem,
            "status": self.status,
            "seconds": round(self.seconds, 4),
            "checks": [check.as_json() for check in self.checks],
        }


def report_json(days: Iterable[DayResult]) -> dict[str, Any]:
    """The object that `course check --json` prints."""
    results = list(days)
    return {
        "version": 1,
        "passed": sum(day.passed for day in results),
        "total": sum(day.total for day in results),
        "days": [day.as_json() for day in results],
    }
