"""Check a day: run the learner's code in a worker, and judge it here."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from course.checks.answer_files import find_answer
from course.checks.arrays import PRACTICE
from course.curriculum import Day
from course.judging.diagnosis import Search
from course.judging.judge import Judge, Outcome
from course.judging.results import RUNNING, DayResult
from course.workers.answer_run import Answer, AnswerRun, Running, WorkerSource
from course.workers.pool import WorkerPool
from course.workers.session import WorkerSession
from course.workers.worker import NotStarted, run_to_end


class PendingVerdict:
    """A day's verdict, and the search for its diagnosis."""

    def __init__(
        self,
        verdict: DayResult,
        search: Search | None = None,
        practice_steps: VerdictSteps | None = None,
    ) -> None:
        self.verdict = verdict
        """The verdict on the CPU, before any diagnosis."""
        self.search = search
        self._practice_steps = practice_steps
        self._practice: PendingVerdict | None = None
        self._result, self._state = verdict, -1

    @property
    def result(self) -> DayResult:
        """Return the verdict so far, with the diagnoses and the checks on the practice GPU."""
        state = sum(search.diagnosed_exercises for search in self.searches)
        state += self._practice is not None
        if state != self._state:
            self._result, self._state = self._built(), state
        return self._result

    def _built(self) -> DayResult:
        result = self.verdict
        if self.search is not None:
            result = replace(result, checks=tuple(self.search.diagnosed(result.checks)))
        practice = self._practice
        return result if practice is None else result.with_practice(practice.result.checks)

    @property
    def searches(self) -> list[Search]:
        """Return the search for a diagnosis, and the one for the practice GPU once the checks have run
        on it."""
        both = (self.search, self._practice.search if self._practice else None)
        return [search for search in both if search is not None]

    @property
    def awaits_practice(self) -> bool:
        """Return whether checks still have to run on the practice GPU."""
        return self._practice_steps is not None

    def run_on_practice(self) -> Generator[Running, None, Search | None]:
        """Run the remaining checks on the practice GPU, in a worker that has served no other day since.
        Returns the search for a diagnosis."""
        if self._practice_steps is not None:
            self._practice, self._practice_steps = (yield from self._practice_steps), None
        return self._practice.search if self._practice else None

    def finish(self) -> DayResult:
        """Run the remaining checks on the practice GPU, and search for diagnoses as long as a learner
        waits. Returns the verdict with the diagnoses."""
        for search in (self.search, run_to_end(self.run_on_practice())):
            if search is not None:
                search.run()
        return self.result

    def finish_in_batch(self, max_runs: int) -> int:
        """Do the same within the limits of a batch. Returns the number of runs that it took."""
        spent = 0
        for search in (self.search, run_to_end(self.run_on_practice())):
            if search is not None:
                spent += search.run_in_batch(max_runs - spent)
        return spent


VerdictSteps = Generator[Running, None, PendingVerdict]
"""A check of a day under way. It yields whenever it waits, so that the caller can do other work."""


def _wait(day: Day, steps: VerdictSteps) -> PendingVerdict:
    return run_to_end(steps)


def check_days(
    days: Sequence[Day],
    answers: Path,
    seed: int = 0,
    device: str = "cpu",
    wait: Callable[[Day, VerdictSteps], PendingVerdict] = _wait,
) -> Iterator[PendingVerdict]:
    """Check several days' files in a folder of answers, one after the other.

    Args:
        wait: completes the check of a day, and may show its progress.

    Raises:
        NotRecorded: the edition has no reference of a day, and no recording for this seed and
            device.
    """
    if not days:
        return
    torch_on = None
    if any(day.uses_torch for day in days):
        torch_on = "cpu" if device == PRACTICE else device
    with WorkerPool(1, torch_on) as pool, WorkerSession(lambda _: pool.take(torch_on)) as session:
        for day in days:  # while the worker starts
            judge = Judge(day, seed, device)
            yield wait(day, day_steps(judge, answers, session))
            judge.keep()


def day_steps(judge: Judge, answers: Path, workers: WorkerSource) -> VerdictSteps:
    """Check one day's file in a folder of answers, if it exists and a worker starts."""
    yield Running("", time.monotonic())  # what the checks are may take a second to find out
    path = find_answer(judge.day, answers)
    if path is None:
        missing = f"{answers / judge.day.stem}.py is not there."
        if answers.resolve() == judge.day.stub.parent:
            missing += f" `course reset {judge.day.number}` creates it again."
        return PendingVerdict(not_observed(judge, "not_started", missing))
    try:
        return (yield from _answer_steps(judge, Answer(str(path), str(path.resolve())), workers))
    except NotStarted as error:
        return PendingVerdict(not_observed(judge, "error", str(error)))


def not_observed(judge: Judge, status: str, why: str) -> DayResult:
    """Return a verdict with the same status for every check of a day, without running any check."""
    outcomes = {check.name: Outcome(None, status, why) for check in judge.checks}
    verdict = DayResult(judge.day, tuple(judge.verdicts(outcomes)), begun=False)
    return verdict.with_repeats(_repeated(judge))


def _repeated(judge: Judge) -> list[str]:
    """Return the checks that run on the practice GPU after the CPU."""
    return (
        [check.name for check in judge.checks if check.on_practice] if judge.device == "cpu" else []
    )


def check_answer(judge: Judge, answer: Answer, workers: WorkerSource) -> PendingVerdict:
    """Check one answer.

    Raises:
        NotStarted: a worker did not start.
    """
    return run_to_end(_answer_steps(judge, answer, workers))


def _answer_steps(judge: Judge, answer: Answer, workers: WorkerSource) -> VerdictSteps:
    """Check an answer, again in a new worker where earlier days' code may have made it fail."""
    if not isinstance(workers, WorkerSession):
        return (yield from _attempt_steps(judge, answer, workers))
    workers.take(judge.torch_on)
    used, stopped = workers.used, workers.stopped
    checked = yield from _attempt_steps(judge, answer, workers)
    spoilt = not checked.verdict.as_new or (used and workers.stopped > stopped)
    if spoilt and any(check.went_wrong for check in checked.verdict.checks):
        workers.renew()
        checked = yield from _attempt_steps(judge, answer, workers)
    workers.used = True
    return checked


def _attempt_steps(judge: Judge, answer: Answer, workers: WorkerSource) -> VerdictSteps:
    started = time.monotonic()
    run = AnswerRun(judge, answer, workers)
    outcomes = yield from run.outcomes()
    verdicts = judge.verdicts(outcomes, run.begun)
    verdict = DayResult(
        judge.day,
        tuple(verdicts),
        begun=bool(run.begun),
        seconds=time.monotonic() - started,
        printed=run.printed,
        as_new=run.as_new,
        called=tuple(sorted(run.called)),
    )
    verdict = verdict.with_repeats(_repeated(judge))
    names = [check.name for check in verdict.checks if check.status == RUNNING]
    practice_steps = _practice_steps(judge.practice, answer, workers, names) if names else None
    return PendingVerdict(verdict, judge.search(outcomes, verdicts), practice_steps)


def _practice_steps(
    judge: Judge | None, answer: Answer, workers: WorkerSource, names: Sequence[str]
) -> VerdictSteps:
    """Run the checks that passed on the CPU on the practice GPU."""
    assert judge is not None
    run = AnswerRun(judge, answer, workers, names)
    try:
        outcomes = yield from run.outcomes()
    except NotStarted as error:
        outcomes = {name: Outcome(None, "error", str(error)) for name in names}
    verdicts = judge.verdicts(outcomes, run.begun)
    return PendingVerdict(DayResult(judge.day, tuple(verdicts)), judge.search(outcomes, verdicts))
