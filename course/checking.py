"""Checking a day: the learner's code in a worker, the verdict here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from course.answers import find_answer
from course.checks import Seen
from course.definitions import cut_sources, stub_text
from course.judge import Judge, Outcome
from course.messages import describe_raised
from course.observation import BadFrame, raised_from
from course.results import DayResult
from course.workers import GIBBERISH, Pool, Worker, WorkerStopped

LONGEST_WAITS = 2  # checks of one exercise that may run out of time; the rest would, too


def check_day(judge: Judge, answers: Path, pool: Pool) -> DayResult:
    """Check one day's file in a folder of answers."""
    started = time.monotonic()
    path = find_answer(judge.day, answers)
    if path is None:
        missing = f"{answers / judge.day.stem}.py is not there."
        if answers.resolve() == judge.day.stub.parent:
            missing += f" `course reset {judge.day.number}` makes it anew."
        outcomes = {check.name: Outcome(None, "not_started", missing) for check in judge.checks}
        return DayResult(judge.day, tuple(judge.results(outcomes)), begun=False)
    run = _Run(judge, path, pool)
    outcomes = run.outcomes()
    return DayResult(
        judge.day,
        tuple(judge.results(outcomes, run.begun)),
        begun=bool(run.begun),
        seconds=time.monotonic() - started,
        printed=run.printed,
    )


class _Run:
    """The observations of one answer, made by as many workers as it takes to get through the checks."""

    def __init__(self, judge: Judge, path: Path, pool: Pool) -> None:
        self.begun: list[str] = list(judge.day.exercises)
        self.printed = ""
        self._judge = judge
        self._path = path
        self._pool = pool
        self._outcomes = judge.skipped()
        self._left = {
            check.name: check for check in judge.checks if check.name not in self._outcomes
        }
        self._waits: dict[str, int] = {}

    def outcomes(self) -> dict[str, Outcome]:
        while self._left:
            worker = self._pool.take(self._judge.torch_on)
            self._judge.look()  # while the worker starts
            try:
                worker.ask(self._request())
                self._hear(worker)
            except WorkerStopped as stop:
                self._stopped(stop)
            finally:
                worker.end()
                self.printed += worker.printed
        return self._outcomes

    def _request(self) -> dict[str, Any]:
        day = self._judge.day
        return {
            "day": day.number,
            "names": list(self._left),
            "answer": str(self._path.resolve()),
            "shown": str(self._path),
            "stub": stub_text(day),
            "cut": cut_sources(day),
            "seed": self._judge.seed,
            "device": self._judge.device,
        }

    def _hear(self, worker: Worker) -> None:
        """Take in what one worker says, until every check has an outcome or the worker stops."""
        since = time.monotonic()
        loaded, _ = worker.hear()
        self._take_loading(loaded)
        while self._left:
            message, observation = worker.hear()
            now = time.monotonic()
            try:
                name = str(message["check"])
                problem = raised_from(message["raised"]) if message["raised"] else None
                damaged = tuple(str(other)[:100] for other in message["damaged"])
            except (BadFrame, KeyError, TypeError) as error:
                raise WorkerStopped(GIBBERISH) from error
            if name not in self._left:
                raise WorkerStopped(GIBBERISH)
            seen = Seen(observation, problem, damaged)
            self._settle(name, Outcome(seen, seconds=now - since))
            since = now

    def _take_loading(self, loaded: dict[str, Any]) -> None:
        """What became of loading the file: perhaps nothing can be checked, or not everything."""
        if "unreadable" in loaded:
            self._settle_all("error", str(loaded["unreadable"])[:1000])
        elif "raised" in loaded:
            try:
                problem = raised_from(loaded["raised"])
            except BadFrame as error:
                raise WorkerStopped(GIBBERISH) from error
            what = describe_raised(problem, {})
            self._settle_all("error", f"{self._path.name} cannot be loaded.\n{what}")
        else:
            self.begun = _names(loaded.get("begun"))
            missing = _names(loaded.get("missing"))
            for check in list(self._left.values()):
                if lacking := sorted(check.uses & set(missing)):
                    self._settle(check.name, Outcome(None, "error", _missing(self._path, lacking)))

    def _stopped(self, stop: WorkerStopped) -> None:
        """The check that was under way gets the blame; the others get another worker."""
        name, check = next(iter(self._left.items()))
        self._settle(name, Outcome(None, stop.status, str(stop)))
        self._waits[check.exercise] = self._waits.get(check.exercise, 0) + 1
        if self._waits[check.exercise] >= LONGEST_WAITS:
            why = (
                f"Not run: {LONGEST_WAITS} checks of `{check.exercise}` before it ended so. {stop}"
            )
            for other in list(self._left.values()):
                if other.exercise == check.exercise:
                    self._settle(other.name, Outcome(None, stop.status, why))

    def _settle(self, name: str, outcome: Outcome) -> None:
        self._outcomes[name] = outcome
        del self._left[name]

    def _settle_all(self, status: str, message: str) -> None:
        for name in list(self._left):
            self._settle(name, Outcome(None, status, message))


def _names(claimed: Any) -> list[str]:
    return [str(name) for name in claimed] if isinstance(claimed, list) else []


def _missing(path: Path, names: list[str]) -> str:
    which = " and ".join(f"`{name}`" for name in names)
    remedy = "The name must be exactly that; `course reset` gives the stub again."
    return f"{path.name} defines no {which}. {remedy}"
