"""The verdict: what was seen beside what the reference sees, and beside what known wrong answers see."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from course.checks.loading import Check, load_checks
from course.checks.observation import Raised
from course.checks.seeing import Seen, takes_device
from course.curriculum import Day
from course.judging.comparison import compare
from course.judging.diagnosis import Diagnostician
from course.judging.expected import Expected
from course.judging.likeness import Likeness
from course.judging.messages import (
    describe,
    describe_damage,
    describe_discreetly,
    describe_raised,
    not_started,
)
from course.judging.misconceptions import Misconception
from course.judging.recorded import truth_of
from course.judging.results import CheckResult
from course.judging.truth import RIGHT, Diagnosis


@dataclass(frozen=True)
class Outcome:
    """What came of one check: what was seen, or why nothing could be."""

    seen: Seen | None
    status: str = ""
    """Where nothing was seen: error, timed_out, out_of_memory, not_started or skipped."""
    message: str = ""
    seconds: float = 0.0


DISCREET = 150  # characters of an exception's first line: it may say what was found where it ran
DISCREET_KIND = 60  # of its kind's name


class Judge:
    """The judge of one day, for one seed and device. It remembers what it has computed."""

    def __init__(
        self, day: Day, seed: int = 0, device: str = "cpu", discreet: bool = False
    ) -> None:
        """Nothing is computed yet.

        Args:
            day: the day, which is there.
            seed: where the inputs come from.
            device: where they lie.
            discreet: whether messages are to name no number that a check holds.

        Raises:
            NotRecorded: the day's reference is not here, and was not recorded for this.
        """
        self.day = day
        self.seed = seed
        self.device = device
        self._discreet = discreet
        self.checks = load_checks(day)
        self._truth = truth_of(day, seed, device)
        self._likeness = Likeness(self._truth)
        self._diagnostician = Diagnostician(day, self.checks, self._truth)

    @property
    def torch_on(self) -> str | None:
        """The device on which a worker needs torch, if it needs torch at all."""
        return self.device if self.day.uses_torch else None

    def skipped(self) -> dict[str, Outcome]:
        """The checks that cannot be run here, with the reason: there is no such device."""
        if self.torch_on is None:
            return {}
        from course.checks.tensors import missing_device  # torch takes a second to import

        reason = missing_device(self.device)
        stopped = [check for check in self.checks if reason and takes_device(check)]
        return {check.name: Outcome(None, "skipped", f"Skipped: {reason}.") for check in stopped}

    @property
    def misconceptions(self) -> list[Misconception]:
        return self._truth.misconceptions

    def expected(self, check: Check) -> Expected:
        """What the reference sees in this check, and how far off a right answer may be."""
        return self._truth.exactly(RIGHT, check)

    def seen_by(self, wrong: Diagnosis, check: Check) -> Seen:
        """What the reference with these mistakes sees in this check."""
        return self._truth.roughly(wrong, check).seen

    def passes(self, check: Check, seen: Seen) -> bool:
        """Whether an observation is the reference's: to the last bit in a single run, or to rounding."""
        return self._likeness.passes(check, seen)

    def look(self) -> None:
        """Compute what verdicts on answers that are the reference's to the last bit will need."""
        for check in self.checks:
            self.seen_by(RIGHT, check)

    def prepare(self) -> Iterator[None]:
        """Compute ahead what other verdicts will need, then what diagnoses will, a piece at each step."""
        for check in self.checks:
            self.expected(check)
            yield
        for check in self.checks:
            for wrong in self.misconceptions:
                self.seen_by((wrong,), check)
                yield

    def forget(self) -> None:
        """Let go of what there is too much of to keep for a whole class."""
        self._truth.forget()

    def discreetly(self, raised: Raised) -> Raised:
        """An exception as it may be told: in grading, not with whatever the learner makes it say."""
        if not self._discreet:
            return raised
        first, _, _ = raised.message.partition("\n")
        return replace(raised, kind=raised.kind[:DISCREET_KIND], message=first[:DISCREET])

    def results(
        self, outcomes: dict[str, Outcome], begun: Collection[str] = ()
    ) -> list[CheckResult]:
        """The verdict on each check, in the order of the checks.

        Args:
            outcomes: what came of the checks, by their names.
            begun: the exercises in which there is code of the learner's own.
        """
        judged = [
            self._judge(check, outcomes[check.name], begun)
            for check in self.checks
            if check.name in outcomes
        ]
        wrong = {result.exercise for result in judged if result.status in ("failed", "error")}
        seen = {name: outcome.seen for name, outcome in outcomes.items()}
        told = self._diagnostician.diagnose(seen, wrong)
        return [
            _with_diagnosis(
                result, told[result.exercise], self._diagnostician.shaky(result.exercise, wrong)
            )
            if result.exercise in told
            else result
            for result in judged
        ]

    def _judge(self, check: Check, outcome: Outcome, begun: Collection[str]) -> CheckResult:
        def result(status: str, message: str = "") -> CheckResult:
            return CheckResult(
                check.name,
                check.exercise,
                status,
                message,
                check.says,
                None,
                outcome.seconds,
                self._device(check),
            )

        if outcome.seen is None:
            return result(outcome.status, outcome.message)
        if self._likeness.is_same(RIGHT, check, outcome.seen):
            return result("passed")
        raised = outcome.seen.raised
        if raised is not None and raised.not_started:
            return result("not_started", not_started(check.exercise, raised, begun))
        expected = self.expected(check)
        if raised is not None:
            status = "out_of_memory" if raised.kind == "MemoryError" else "error"
            inputs = {} if self._discreet else expected.inputs
            return result(status, describe_raised(self.discreetly(raised), inputs))
        difference = compare(outcome.seen.observation, expected)
        if difference is not None:
            tolerance = expected.tolerance.get(difference.path, 0.0)
            message = (
                describe_discreetly(difference, tolerance)
                if self._discreet
                else describe(difference, tolerance, expected.inputs)
            )
            return result("failed", "\n".join([message, *_damage(outcome.seen)]))
        if outcome.seen.damaged:
            right = "The result is right, but an input is not what it was."
            return result("failed", "\n".join([right, *_damage(outcome.seen)]))
        return result("passed")

    def _device(self, check: Check) -> str:
        return self.device if takes_device(check) else "cpu"


def _damage(seen: Seen) -> list[str]:
    return [describe_damage(seen.damaged)] if seen.damaged else []


def _with_diagnosis(result: CheckResult, wrong: Diagnosis, shaky: list[str]) -> CheckResult:
    """The verdict with what was misunderstood, or else with where one had better begin."""
    if result.status not in ("failed", "error"):
        return result
    if not wrong:
        names = " and ".join(f"`{name}`" for name in shaky)
        advice = f"\nIf it uses your {names}, mend that first: its checks fail." if shaky else ""
        return replace(result, message=f"{result.message}{advice}")
    told = " ".join(
        one.tell
        if one.definition == result.exercise
        else f"This comes from `{one.definition}`. {one.tell}"
        for one in wrong
    )
    both = f"Two things at once. {told}" if len(wrong) > 1 else told
    return replace(result, misconception=wrong[0].id, message=f"{both}\n{result.message}")
