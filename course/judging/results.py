"""Verdicts as data, for a check, a day, and an entire command; and as the JSON that graders read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import CORE
from course.curriculum import Day

BROKEN = ("error", "timed_out", "out_of_memory")
RUNNING = "running"
"""The status of a check on the practice GPU, and of its day, until it has run: nothing reports it as JSON."""


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one check.

    Attributes:
        status: passed, failed, error, timed_out, out_of_memory, not_started or skipped.
        message: the message to the learner; empty if passed.
        says: what the check is about, in a sentence.
        misconception: the id of the known wrong answer that explains the failure, or None.
        seconds: wall time, measured outside the worker.
        tier: core, which has to pass for the day to pass, or watertight.
        beyond: why the check asks for more than the day is about; empty for core.
        explained: whether the message alone says what is wrong: an exception, a missing return, an
            input that was changed.
    """

    name: str
    exercise: str
    status: str
    message: str = ""
    says: str = ""
    misconception: str | None = None
    seconds: float = 0.0
    device: str = "cpu"
    tier: str = CORE
    beyond: str = ""
    explained: bool = False
    repeats: bool = False
    """Whether it was not run on the practice GPU, because it does not pass on the CPU."""

    @property
    def went_wrong(self) -> bool:
        """Return whether something in the learner's code is wrong, not just missing."""
        return self.status not in ("passed", "not_started", "skipped", RUNNING)

    @property
    def is_open(self) -> bool:
        """Return whether the check was not skipped and does not pass."""
        return self.status not in ("passed", "skipped", RUNNING)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "exercise": self.exercise,
            "tier": self.tier,
            "device": self.device,
            "status": self.status,
            "message": self.message,
            "misconception": self.misconception,
            "seconds": round(self.seconds, 4),
        }


@dataclass(frozen=True)
class DayResult:
    """The verdicts on a day's checks. Only core checks decide whether the day passes.

    Attributes:
        begun: whether anything in the learner's file differs from the stub.
        printed: what the learner's code printed.
        called: the traced functions of torch that were called.
        as_new: whether the worker's state was that of a fresh worker.
    """

    day: Day
    checks: tuple[CheckResult, ...]
    begun: bool = True
    seconds: float = 0.0
    printed: str = field(default="", compare=False)
    called: tuple[str, ...] = field(default=(), compare=False)
    as_new: bool = field(default=True, compare=False)

    @property
    def core(self) -> list[CheckResult]:
        """Return the checks of what the day is about."""
        return [check for check in self.checks if check.tier == CORE]

    @property
    def extra(self) -> list[CheckResult]:
        """Return the checks that ask for more, and make a passed day watertight."""
        return [check for check in self.checks if check.tier != CORE]

    @property
    def invitations(self) -> list[CheckResult]:
        """Return what a passed day lacks to be watertight; nothing while its core fails."""
        return [check for check in self.extra if check.is_open] if self.status == "passed" else []

    @property
    def status(self) -> str:
        """Return the worst status of its core: error, failed, not_started, in_progress, passed or
        skipped."""
        statuses = [check.status for check in self.core]
        if any(status in BROKEN for status in statuses):
            return "error"
        if "failed" in statuses:
            return "failed"
        if "not_started" in statuses:
            return "in_progress" if self.begun else "not_started"
        if RUNNING in [check.status for check in self.checks]:
            return RUNNING
        return "passed" if "passed" in statuses else "skipped"

    @property
    def watertight(self) -> bool:
        """Return whether all checks of the day pass, including those beyond its core."""
        return self.status == "passed" and not self.invitations

    @property
    def passed(self) -> int:
        return counted(self.core)[0]

    @property
    def total(self) -> int:
        return counted(self.core)[1]

    @property
    def passed_watertight(self) -> int:
        return counted(self.extra)[0]

    @property
    def total_watertight(self) -> int:
        return counted(self.extra)[1]

    @property
    def shown_wrong(self) -> list[CheckResult]:
        """Return the failing checks that a learner sees: core checks, or else the others."""
        return [check for check in (*self.core, *self.invitations) if check.went_wrong]

    @property
    def next_exercise(self) -> str:
        """Return the first exercise with an open check, or the first of the day if none is open."""
        open_ = (check.exercise for check in (*self.core, *self.invitations) if check.is_open)
        return next(open_, self.day.exercises[0])

    def wrong_in(self, exercise: str) -> CheckResult | None:
        """Return the first check of this exercise that went wrong."""
        return next((check for check in self.shown_wrong if check.exercise == exercise), None)

    @property
    def is_named(self) -> bool:
        """Return whether a known mistake explains any of these checks."""
        return any(check.misconception for check in self.shown_wrong)

    @property
    def is_puzzling(self) -> bool:
        """Return whether a check fails that neither its message nor a known mistake explains."""
        return any(
            not check.explained and check.misconception is None for check in self.shown_wrong
        )

    def asks_of(self, device: str) -> bool:
        """Return whether any check is for this device, even if it was skipped."""
        return any(check.device == device for check in self.checks)

    def with_repeats(self, names: Iterable[str]) -> DayResult:
        """Return the verdict on the CPU with these checks on the practice GPU, which still have to run,
        or do not pass on the CPU either."""
        by_name = {check.name: check for check in self.checks}
        rows = [
            replace(
                by_name[name],
                device=PRACTICE,
                seconds=0.0,
                status=RUNNING if by_name[name].status == "passed" else by_name[name].status,
                repeats=by_name[name].is_open,
            )
            for name in names
            if name in by_name
        ]
        return replace(self, checks=(*self.checks, *rows))

    def with_practice(self, results: Iterable[CheckResult]) -> DayResult:
        """Return the verdict with the results of the checks that had to run."""
        by_name = {check.name: check for check in results}
        checks = (
            by_name.get(check.name, check) if check.status == RUNNING else check
            for check in self.checks
        )
        return replace(self, checks=tuple(checks))

    def without_words(self) -> DayResult:
        """Return the verdict on each check, without saying what is wrong."""
        bare = (replace(check, message="", misconception=None) for check in self.checks)
        return replace(self, checks=tuple(bare))

    def as_json(self) -> dict[str, Any]:
        return {
            "day": self.day.number,
            "stem": self.day.stem,
            "status": self.status,
            "watertight": self.watertight,
            "seconds": round(self.seconds, 4),
            "checks": [check.as_json() for check in self.checks],
        }


def report_json(days: Iterable[DayResult]) -> dict[str, Any]:
    """Return the object that `course check --json` prints."""
    results = list(days)
    return {
        "version": 2,
        "passed": sum(day.passed for day in results),
        "total": sum(day.total for day in results),
        "passed_watertight": sum(day.passed_watertight for day in results),
        "total_watertight": sum(day.total_watertight for day in results),
        "days": [day.as_json() for day in results],
    }


def counted(checks: Iterable[CheckResult]) -> tuple[int, int]:
    """Return how many of some checks pass, and how many were not skipped."""
    not_skipped = [check for check in checks if check.status != "skipped"]
    return sum(check.status == "passed" for check in not_skipped), len(not_skipped)
