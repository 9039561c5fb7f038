"""The verdict: what was seen beside what the reference sees, and beside what known wrong answers see."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from course.checks import Check, Seen, load_checks
from course.comparison import compare, identical
from course.curriculum import Day
from course.expected import Expected
from course.messages import (
    describe,
    describe_damage,
    describe_discreetly,
    describe_raised,
    not_started,
)
from course.misconceptions import Misconception
from course.observation import Raised
from course.recorded import truth_of
from course.results import CheckResult
from course.truth import RIGHT, Diagnosis


@dataclass(frozen=True)
class Outcome:
    """What came of one check: what was seen, or why nothing could be."""

    seen: Seen | None
    status: str = ""
    """Where nothing was seen: error, timed_out, out_of_memory, not_started or skipped."""
    message: str = ""
    seconds: float = 0.0


TELLING = 2  # checks that are looked at for the one that tells most
MOST_PAIRS = 150  # of two wrong answers at once; more would take longer than a blink

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

    @property
    def torch_on(self) -> str | None:
        """The device on which a worker needs torch, if it needs torch at all."""
        return self.device if self.day.uses_torch else None

    def skipped(self) -> dict[str, Outcome]:
        """The checks that cannot be run here, with the reason: there is no such device."""
        if self.torch_on is None:
            return {}
        from course.tensors import missing_device

        reason = missing_device(self.device)
        stopped = [check for check in self.checks if reason and check.takes_device]
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
        return self._is_same(RIGHT, check, seen) or matches(seen, self.expected(check))

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
        judged = [self._judge(check, outcomes[check.name], begun) for check in self._seen(outcomes)]
        wrong = {result.exercise for result in judged if result.status in ("failed", "error")}
        told: dict[str, Diagnosis] = {}
        for exercise in (name for name in self._foundations_first() if name in wrong):
            told[exercise] = self._diagnose(exercise, outcomes, told)
        return [
            _with_diagnosis(result, told[result.exercise], self._shaky(result.exercise, wrong))
            if result.exercise in told
            else result
            for result in judged
        ]

    def _foundations_first(self) -> list[str]:
        """The day's exercises, each after those that it uses: a mistake is looked for where it is made."""
        ordered: list[str] = []
        left = list(self.day.exercises)
        while left:
            used = {name: self._truth.names_used(name) & set(left) - {name} for name in left}
            ordered.append(min(left, key=lambda name: len(used[name])))
            left.remove(ordered[-1])
        return ordered

    def _shaky(self, exercise: str, wrong: set[str]) -> list[str]:
        """The failing exercises of the day that this one stands on, if it is written as the reference is."""
        used = self._truth.names_used(exercise)
        return [name for name in self.day.exercises if name in wrong & used and name != exercise]

    def _diagnose(
        self, exercise: str, outcomes: dict[str, Outcome], told: dict[str, Diagnosis]
    ) -> Diagnosis:
        """The known wrong answer whose observations are exactly these, in every check of the exercise.

        If it is no single one, it may be two at once. A mistake in another exercise can show here as
        well, but is claimed only where it was found there.
        """
        mine = [check for check in self._seen(outcomes) if check.exercise == exercise]
        seen = {check.name: one for check in mine if (one := outcomes[check.name].seen)}
        if len(seen) < len(mine):
            return ()
        if any(not told.get(name) for name in self._shaky(exercise, set(told))):
            return ()  # what it stands on is wrong in an unknown way, and would be taken for its own
        # The checks that fail are the ones that tell wrong answers apart: ask them first.
        failing = [check for check in mine if not self.passes(check, seen[check.name])]
        mine.sort(key=lambda check: check not in failing)

        def explains(wrong: Diagnosis) -> bool:
            return all(self._sees(wrong, check, seen[check.name]) for check in mine)

        found = list(dict.fromkeys(itertools.chain.from_iterable(told.values())))
        known = found + [one for one in self.misconceptions if one.definition == exercise]
        singles: Iterator[Diagnosis] = ((one,) for one in known)
        candidates = itertools.chain(singles, self._pairs(known, failing, seen))
        return next((wrong for wrong in candidates if explains(wrong)), ())

    def _pairs(
        self, known: list[Misconception], failing: list[Check], seen: dict[str, Seen]
    ) -> Iterator[Diagnosis]:
        """The pairs of known wrong answers that can have to do with what is seen, likely ones first.

        Of the first checks that fail, the one that fewest known wrong answers fail tells most. One of
        the two must fail it as it was failed here, or both must fail it.
        """

        def culprits(check: Check) -> list[Misconception]:
            return [
                one
                for one in known
                if self._truth.is_possible((one,))
                and not self.passes(check, self.seen_by((one,), check))
            ]

        check = min(failing[:TELLING], key=lambda check: len(culprits(check)))
        guilty = culprits(check)
        alone = [
            one for one in guilty if matches(seen[check.name], self._truth.roughly((one,), check))
        ]
        pairs = list(itertools.combinations(known, 2))
        likely = [pair for pair in pairs if any(one in alone for one in pair)]
        others = [pair for pair in pairs if all(one in guilty for one in pair)]
        for pair in list(dict.fromkeys(likely + others))[:MOST_PAIRS]:
            if self._truth.is_possible(pair) and matches(
                seen[check.name], self._truth.roughly(pair, check)
            ):
                yield pair

    def _seen(self, outcomes: dict[str, Outcome]) -> Iterable[Check]:
        return [check for check in self.checks if check.name in outcomes]

    def _sees(self, wrong: Diagnosis, check: Check, seen: Seen) -> bool:
        """Whether wrong answers see this: to the last bit in a single run, or else to rounding."""
        return self._is_same(wrong, check, seen) or (
            matches(seen, self._truth.roughly(wrong, check))
            and matches(seen, self._truth.exactly(wrong, check))
        )

    def _is_same(self, wrong: Diagnosis, check: Check, seen: Seen) -> bool:
        """Whether they see this to the last bit: then it needs no tolerance, which takes longer."""
        theirs = self.seen_by(wrong, check)
        return (
            not (seen.raised or theirs.raised)
            and set(seen.damaged) == set(theirs.damaged)
            and identical(seen.observation, theirs.observation)
        )

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
        if self._is_same(RIGHT, check, outcome.seen):
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
        return self.device if check.takes_device else "cpu"


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


def matches(seen: Seen, expected: Expected) -> bool:
    """Whether an observation is, to rounding, the expected one, or the same exception.

    An exception is the same if it says the same, sizes included: many mistakes end in a ValueError.
    """
    if seen.raised is not None or expected.seen.raised is not None:
        said = [
            one.raised and (one.raised.kind, one.raised.message) for one in (seen, expected.seen)
        ]
        return said[0] == said[1]
    same_damage = set(seen.damaged) == set(expected.seen.damaged)
    return same_damage and compare(seen.observation, expected) is None
