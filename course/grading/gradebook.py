"""A learner's result as data and as JSON, and the points that it earns."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from course.checks.loading import CORE
from course.curriculum import BY_NUMBER, Day
from course.grading.instructions import Policy
from course.grading.submission.choosing import FileNote

GRADED = "graded"
NOTHING_FOUND = "nothing_found"
REFUSED = "refused"
GRADER_FAULT = "grader_fault"

UNSEEN = "the file could not be looked through for shortcuts and copies"

LOST = "Not graded: the grader failed on this day"

VERSION = 2  # of `results/<learner>.json`


@dataclass(frozen=True)
class Shortcut:
    """Something in an answer that an instructor should review; it costs no points."""

    day: int
    line: int
    what: str


@dataclass(frozen=True)
class LearnerResult:
    """The result of one learner's submission.

    Attributes:
        learner: the name of the folder or archive that was handed in.
        verdict: `graded`; `nothing_found`, where no file is one of the days'; `refused`, an archive that
            cannot be taken safely; or `grader_fault`, which is never the learner's.
        days: the verdicts, as `course check --json` has them, whether each was `handed_in`, `late`, and a
            digest of its `file`; empty unless graded.
        reason: what was found instead of the days' files, why it was refused, or what went wrong here.
        review: what to look at by hand.
        fingerprints: for each file, hashes that similar files share.
        digest: of the files, the checks, the seed: the same digest, the same result.
        computed: seconds of CPU time that the learner's code took.
        late: whether the download says that something was handed in late.
        taken: the files that were taken.
        ignored: the first of those that were not.
        ignored_count: how many these are.
        python: the version of the Python that graded, on the machine that did.
        earlier: verdicts on days whose file in an earlier submission was a different one, or was on time.
    """

    learner: str
    verdict: str
    days: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    review: list[Shortcut] = field(default_factory=list)
    fingerprints: dict[str, list[int]] = field(default_factory=dict)
    digest: str = ""
    computed: float = 0.0
    late: bool = False
    taken: list[FileNote] = field(default_factory=list)
    ignored: list[FileNote] = field(default_factory=list)
    ignored_count: int = 0
    python: str = field(default_factory=platform.python_version)
    earlier: list[dict[str, Any]] = field(default_factory=list)

    @property
    def late_days(self) -> list[int]:
        """The days that were handed in late."""
        return [row["day"] for row in self.days if row["late"]]

    @property
    def earlier_days(self) -> list[int]:
        """The days for which an earlier submission counts."""
        return [row["day"] for row in self.days if row in self.earlier]

    def after(self, stored: LearnerResult) -> LearnerResult:
        """Return the result with the verdicts on earlier submissions, of which `stored` is the last.

        A file that has not changed has today's verdict, and is on time if it was on time once.
        """
        today = {(row["day"], row["file"]): row for row in self.days}
        earlier: list[dict[str, Any]] = []
        for row in (*stored.days, *stored.earlier):
            same = today.get((row["day"], row["file"]))
            row = same | {"late": row["late"]} if same else row
            if row["handed_in"] and row not in (*self.days, *earlier):
                earlier.append(row)
        return replace(self, earlier=earlier)

    @property
    def unseen(self) -> bool:
        """Whether a file could not be looked through for shortcuts and copies."""
        return any(shortcut.what == UNSEEN for shortcut in self.review)

    @property
    def lost_day(self) -> bool:
        """Whether the grader failed on one of the days."""
        return any("fault" in day for day in self.days)

    def as_json(self, weights: Weights) -> dict[str, Any]:
        """The object that `results/<learner>.json` holds."""
        first = {
            "version": VERSION,
            "learner": self.learner,
            "verdict": self.verdict,
            "points": rounded(weights.total(weights.counting(self))),
            "max_points": rounded(weights.max_points),
        }
        return first | asdict(self) | {"computed": round(self.computed, 3)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> LearnerResult:
        """Read it back.

        Raises:
            KeyError, TypeError: it is not what `as_json` makes.
        """
        kinds = {"review": Shortcut, "taken": FileNote, "ignored": FileNote}
        items = {name: [kind(**values) for values in entry[name]] for name, kind in kinds.items()}
        return cls(**{attribute.name: entry[attribute.name] for attribute in fields(cls)} | items)


class Weights:
    """How many points each day gives, and what for: one, and all for its core, unless told otherwise."""

    def __init__(
        self,
        days: Iterable[Day],
        points: Mapping[int, float] | None = None,
        watertight: Fraction = Fraction(0),
        policy: Policy | None = None,
    ) -> None:
        """Take the days that are graded, in their order.

        Args:
            points: points by a day's number, where it is not one.
            watertight: the part of an exercise's points that its watertight checks earn.
            policy: what counts beside the checks.
        """
        self.policy = policy or Policy()
        self.days = list(days)
        self.watertight = watertight
        self._given = dict(points or {})

    def of(self, number: int) -> Fraction:
        """The points that all of a day gives."""
        return Fraction(str(self._given.get(number, 1)))

    @property
    def max_points(self) -> Fraction:
        return sum((self.of(day.number) for day in self.days), Fraction(0))

    def counting(self, result: LearnerResult) -> LearnerResult:
        """Return the result with each day's best submission, of equals the last that has a file for the day,
        if the policy wants that.

        If the last submission was not graded, earlier ones count where there is one for every day.
        """
        rows = [
            [row for row in (*result.days, *result.earlier) if row["day"] == day.number]
            for day in self.days
        ]
        asked = self.policy.keep_best and result.verdict != GRADER_FAULT
        if not (asked and result.earlier and all(rows)):
            return result

        def earned(row: Mapping[str, Any]) -> tuple[Fraction, bool]:
            return self.day_points(row) - self.day_penalty(result, row), row["handed_in"]

        days = [max(of_day, key=earned) for of_day in rows]
        late = any(row["late"] for row in days)
        return replace(result, verdict=GRADED, days=days, late=late)

    def total(self, result: LearnerResult) -> Fraction:
        """The points of a learner: those that the days earn, less what being late costs; or set by hand."""
        by_hand = self.policy.points.get(result.learner)
        if by_hand is not None:
            return by_hand
        return sum(map(self.day_points, result.days), -self.penalty(result))

    def penalty(self, result: LearnerResult) -> Fraction:
        """The points that being late costs."""
        return sum((self.day_penalty(result, day) for day in result.days), Fraction(0))

    def day_penalty(self, result: LearnerResult, day: Mapping[str, Any]) -> Fraction:
        """The points that being late costs on one day: a share of those that the day earns."""
        costs = day["late"] and result.learner not in self.policy.named
        return self.policy.late * self.day_points(day) if costs else Fraction(0)

    def remark(self, result: LearnerResult) -> str:
        """Why the points are not those of the last submission's days, in sentences; else nothing."""
        if result.learner in self.policy.points:
            return "The points were set by hand."
        remarks = []
        if lost := rounded(self.penalty(result)):
            cost = f"{lost:g} point{'s' * (lost != 1)}"
            remarks.append(f"Handed in late: {_days(result.late_days)}, which costs {cost}.")
        if days := result.earlier_days:
            remarks.append(f"An earlier submission counts: {_days(days)}.")
            if result.reason:
                remarks.append(f"The last submission was not graded: {result.reason}")
        return " ".join(remarks)

    def day_points(self, result: Mapping[str, Any]) -> Fraction:
        """The points that one day's verdicts earn.

        A day's points are shared equally by its exercises. Checks that were skipped are not asked, and
        an exercise that was skipped whole earns nothing.
        """
        exercises = BY_NUMBER[result["day"]].exercises
        by_exercise = (
            [c for c in result["checks"] if c["exercise"] == exercise] for exercise in exercises
        )
        earned = sum(map(self._earned, by_exercise), Fraction(0))
        return self.of(result["day"]) * earned / len(exercises)

    def _earned(self, checks: list[Mapping[str, Any]]) -> Fraction:
        """The part of its points that an exercise earns: none unless all of its core passes, and all of
        them only if what else was asked passes too."""
        core, extra = _asked(checks, core=True), _asked(checks, core=False)
        if not core or not all(core):
            return Fraction(0)
        return Fraction(1) if all(extra) else 1 - self.watertight


def _days(numbers: list[int]) -> str:
    return f"day{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _asked(checks: Iterable[Mapping[str, Any]], *, core: bool) -> list[bool]:
    """Whether each check of a tier passes, those that were skipped aside."""
    return [
        check["status"] == "passed"
        for check in checks
        if (check["tier"] == CORE) == core and check["status"] != "skipped"
    ]


def rounded(points: Fraction) -> float:
    """Points as a reader wants them: thirds do not come out even."""
    return round(float(points), 4)
