"""The verdict: compare an answer's runs with those of the reference and of known wrong answers."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import Outline
from course.checks.observation import Raised
from course.checks.seeing import CheckRun, takes_device
from course.curriculum import Day
from course.judging.comparison import compare, is_same
from course.judging.diagnosis import Search
from course.judging.expected import ExpectedRun
from course.judging.messages import (
    Feedback,
    describe_damage,
    describe_for,
    describe_raised,
    not_started,
)
from course.judging.recorded import truth_of
from course.judging.results import CheckResult
from course.judging.truth import Truth
from course.references.editions import returns_nothing

# Differences that the message explains completely.
EXPLAINED = ("names", "type", "dtype", "device")


@dataclass(frozen=True)
class Outcome:
    """An outcome to run one check on an answer: the run, or the reason why there is none."""

    run: CheckRun | None
    status: str = ""
    """Without a run: error, timed_out, out_of_memory, not_started or skipped."""
    message: str = ""
    seconds: float = 0.0
    shown: Raised | None = None
    """The exception as messages show it, where its own text is not trusted; a diagnosis uses its own text."""


class Judge:
    """The judge of one day, for one seed and device. It caches what it has computed."""

    def __init__(
        self,
        day: Day,
        seed: int = 0,
        device: str = "cpu",
        feedback: Feedback = Feedback.own,
        unasked: bool = False,
    ) -> None:
        """Create a judge without running anything.

        Args:
            feedback: how much messages reveal.
            unasked: whether to judge only the checks that run on the practice GPU by default.

        Raises:
            NotRecorded: the edition has no reference of the day, and no recording for this seed and device.
        """
        self.day = day
        self.seed = seed
        self.device = device
        self._feedback = feedback
        self.truth = truth_of(day, seed, device, after_cpu=unasked)
        self._unasked = unasked

    @functools.cached_property
    def checks(self) -> list[Outline]:
        """The day's checks, in order. Where they are not cached, this imports the day's file, and torch."""
        return [check for check in self.truth.outlines() if check.on_practice or not self._unasked]

    @functools.cached_property
    def practice(self) -> Judge | None:
        """The judge of the checks that run on the practice GPU by default, after the CPU."""
        if self.device != "cpu" or not any(check.on_practice for check in self.checks):
            return None
        return Judge(self.day, self.seed, PRACTICE, self._feedback, unasked=True)

    @property
    def torch_on(self) -> str | None:
        """The device on which a worker needs torch, or None if the day needs no torch."""
        if not self.day.uses_torch:
            return None
        return "cpu" if self.device == PRACTICE else self.device

    def skipped(self) -> dict[str, Outcome]:
        """Return the checks that cannot run because this machine lacks the device, with the reason."""
        if self._unasked:
            return {}
        stopped = [check for check in self.checks if self._device(check) != "cpu"]
        if not stopped:
            return {}
        from course.checks.tensors import missing_device  # torch takes a second to import

        reason = missing_device(self.device)
        reasons = {
            check.name: reason
            or (self.truth.check(check).real_devices if self.device == PRACTICE else "")
            for check in stopped
        }
        return {
            name: Outcome(None, "skipped", f"Skipped: {why}.")
            for name, why in reasons.items()
            if why
        }

    def outcomes(self, answer: Any, file: str | None = None) -> dict[str, Outcome]:
        """Run every check on an answer in this process (see `Truth.run`)."""
        return {check.name: Outcome(self.truth.run(check, answer, file)) for check in self.checks}

    def observing_reference(self) -> Iterator[None]:
        """Run each check on the reference, one at each step, for answers that agree to the last bit."""
        skipped = self.skipped()
        for check in self.checks:
            if check.name not in skipped:
                self.truth.observe_reference(check)
            yield

    def prepare(self) -> Iterator[None]:
        """Compute the runs that later verdicts and diagnoses will need, a piece at each step."""
        yield from self.truth.complete(self.checks)
        self.truth.keep()
        if self.practice is not None:
            yield from self.practice.prepare()

    @property
    def redrawn(self) -> dict[str, int]:
        """The checks whose inputs cannot be drawn at the judge's seed, and the seeds of those they have."""
        checks = [check for check in self.checks if check.name not in self.skipped()]
        seeds = {check.name: self.truth.observe_reference(check).drawn_at for check in checks}
        return {name: seed for name, seed in seeds.items() if seed is not None}

    def keep(self) -> None:
        """Write new runs to the cache, for the next judge of this day."""
        for truth in self._truths:
            truth.keep()

    def forget(self) -> None:
        """Drop what is too large to store for a whole class."""
        for truth in self._truths:
            truth.forget()

    @property
    def _truths(self) -> list[Truth]:
        practice: Judge | None = vars(self).get("practice")  # where it was asked for
        return [self.truth] if practice is None else [self.truth, practice.truth]

    def results(
        self, outcomes: dict[str, Outcome], begun: Collection[str] = ()
    ) -> list[CheckResult]:
        """Return the verdicts with their diagnoses, searched within the limits of a batch."""
        verdicts = self.verdicts(outcomes, begun)
        search = self.search(outcomes, verdicts)
        search.run_in_batch()
        return search.diagnosed(verdicts)

    def verdicts(
        self, outcomes: dict[str, Outcome], begun: Collection[str] = ()
    ) -> list[CheckResult]:
        """Return the verdict on each check, in order.

        Args:
            outcomes: the outcomes of the checks by name.
            begun: the exercises that contain code of the learner's own.
        """
        return [
            self._judge(check, outcomes[check.name], begun)
            for check in self.checks
            if check.name in outcomes
        ]

    def search(self, outcomes: dict[str, Outcome], verdicts: Sequence[CheckResult]) -> Search:
        """Return the search for a diagnosis, not begun yet."""
        wrong = defaultdict(list)
        for verdict in verdicts:
            if verdict.status in ("failed", "error"):
                wrong[verdict.exercise].append(verdict.name)
        checks = [check for check in self.checks if check.name in outcomes]
        runs = {name: outcome.run for name, outcome in outcomes.items()}
        return Search(self.day, checks, self.truth, runs, wrong)

    def _judge(self, check: Outline, outcome: Outcome, begun: Collection[str]) -> CheckResult:
        result = functools.partial(
            CheckResult,
            check.name,
            check.exercise,
            says=check.says,
            seconds=outcome.seconds,
            device=self._device(check),
            tier=check.tier,
            beyond=check.beyond,
        )

        if outcome.run is None:
            return result(outcome.status, outcome.message)
        if is_same(outcome.run, self.truth.observe_reference(check)):
            return result("passed")
        raised = outcome.shown or outcome.run.raised
        if raised is not None and raised.not_started:
            return result("not_started", not_started(check.exercise, raised, begun))
        expected = self.truth.right(check)
        inputs = expected.inputs if self._feedback in (Feedback.own, Feedback.full) else ""
        if raised is not None:
            status = "out_of_memory" if raised.kind == "MemoryError" else "error"
            return result(status, describe_raised(raised, inputs), explained=True)
        difference = compare(outcome.run.observation, expected)
        if difference is not None:
            if difference.yours is not None and difference.yours.type == "None":
                nothing = returns_nothing(self.day, check.exercise)
                difference = replace(difference, returns_nothing=nothing)
            tolerance = expected.tolerance.get(difference.path, 0.0)
            message = describe_for(self._feedback, difference, tolerance, inputs)
            message = "\n".join([message, *_damage(outcome.run, expected)])
            return result("failed", message, explained=difference.stage in EXPLAINED)
        if outcome.run.damaged:
            right = "The result is right, but an input was changed."
            message = "\n".join([right, *_damage(outcome.run, expected)])
            return result("failed", message, explained=True)
        return result("passed")

    def _device(self, check: Outline) -> str:
        """Return the device on which a check runs."""
        if self._unasked:
            return self.device
        if self.device == "cpu" or not takes_device(self.truth.check(check)):
            return "cpu"
        return self.device


def _damage(run: CheckRun, expected: ExpectedRun) -> list[str]:
    """Describe the inputs that were changed in place, by names that the check has."""
    damaged = tuple(name for name in expected.names if name in run.damaged)
    return [describe_damage(damaged)] if damaged else []
