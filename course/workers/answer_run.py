"""Run the checks of one answer: request them from workers, and decide how each outcome ended."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from course.checks.answer_files import Unreadable, source_in
from course.checks.arrays import PRACTICE
from course.checks.frames import BadFrame, raised_from
from course.checks.loading import CORE, Outline
from course.checks.observation import Observation, Raised, flatten
from course.checks.seeing import CheckRun
from course.curriculum import DAYS
from course.judging.closed_words import NO_TORCH, closed_raised, lacks_torch
from course.judging.judge import Judge, Outcome
from course.judging.messages import describe_raised
from course.references.editions import is_recorded, stub_of
from course.references.redacted import redacted_references
from course.workers.limits import (
    BACKSTOP,
    GIBBERISH,
    LOST_GPU,
    MAX_DAY_SECONDS,
    MAX_SLEEP_SECONDS,
    NAP,
    WAITING,
)
from course.workers.worker import (
    NotStarted,
    Overran,
    TimedOut,
    Wait,
    Worker,
    WorkerLost,
    WorkerStopped,
)

CANNOT_LOAD = "cannot be loaded."
MAX_DAMAGED = 20  # inputs changed in place that a message names
MAX_STOPPED = 2  # checks of one exercise that may be stopped before the others are skipped
MAX_LOST = 2  # workers that may be lost before the day fails

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """A day's file, for a worker to load.

    Attributes:
        shown: the name in messages.
        path: the path in the worker's file system.
        data: the content, if the worker cannot read the file itself. Its messages are not trusted
            then.
        listen: the functions of torch whose calls are reported.
    """

    shown: str
    path: str
    data: bytes | None = None
    listen: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.shown).name

    def raised(self, reported: Raised, stub: str) -> Raised:
        """Return an exception that a worker reports, as far as the worker is trusted."""
        if self.data is None:
            return reported
        try:
            return closed_raised(reported, source_in(self.data, self.name), stub)
        except Unreadable:
            return closed_raised(reported, "", stub)

    def unreadable(self, reported: str) -> str:
        """Return why the file cannot be read, as the worker or this process found it."""
        if self.data is None:
            return reported
        try:
            source_in(self.data, self.name)
        except Unreadable as error:
            return str(error)
        return f"{self.name} cannot be read."


class WorkerSource(Protocol):
    """A pool or a session, which hands out workers and takes them back."""

    def take(self, torch_on: str | None) -> Worker:
        """Return a worker that has started, or is starting."""

    def give_back(self, worker: Worker) -> str:
        """Take back a worker that is done or was stopped. Returns what the learner's code printed."""


@dataclass(frozen=True)
class Running:
    """The state of a running check."""

    check: str
    """The running check; empty while the worker starts and loads the file."""
    since: float
    """The time at which it began, by `time.monotonic`."""


class AnswerRun:
    """A run of the checks of one answer, in as many workers as necessary."""

    def __init__(
        self,
        judge: Judge,
        answer: Answer,
        workers: WorkerSource,
        names: Sequence[str] | None = None,
    ) -> None:
        self.begun: list[str] = list(judge.day.exercises)
        self.as_new = True
        self.printed = ""
        self.called: set[str] = set()
        self._judge = judge
        self._answer = answer
        self._workers = workers
        self._attempts = judge.skipped()
        self._left = {
            check.name: check
            for check in judge.checks
            if check.name not in self._attempts and (names is None or check.name in names)
        }
        self._stops: dict[str, int] = {}
        self._doubted: str | None = None
        """A check that timed out once by a clock that others share. It is reported only if it does so again,
        in a fresh worker."""
        self._lost = 0
        self._loaded = False
        self._running = Running("", time.monotonic())
        # A GPU's work is not seen from the processor.
        self._sleeping = NAP if judge.device in ("cpu", PRACTICE) else WAITING
        self._had: list[tuple[Worker, float, float]] = []
        """The workers so far, and the seconds that each had computed and slept before."""

    def outcomes(self) -> Generator[Running, None, dict[str, Outcome]]:
        while self._left:
            if self._is_over():
                most = f"{MAX_DAY_SECONDS:g} seconds were spent, or {MAX_SLEEP_SECONDS:g} waiting"
                self._settle_all("timed_out", f"Not run: {most}, before it.")
                break
            worker = self._workers.take(self._judge.torch_on)
            self._had.append((worker, worker.computed, worker.slept))
            try:
                for _ in self._judge.observing_reference():  # while the worker starts
                    yield self._running
                yield from self._while_waiting(worker.sending(self._request(), self._file()))
                yield from self._receive(worker)
            except WorkerStopped as stop:
                worker.end()
                self._stopped(stop)
            except GeneratorExit:  # the caller has stopped waiting
                worker.end()
                raise
            finally:
                self.printed += self._workers.give_back(worker)
        return self._attempts

    def _is_over(self) -> bool:
        """Whether the day has had its time. What the machine or the reference takes is not counted."""
        slept = sum(worker.slept - before for worker, _, before in self._had)
        computed = sum(max(0.0, worker.computed - before) for worker, before, _ in self._had)
        return computed + slept > MAX_DAY_SECONDS or slept > max(
            MAX_SLEEP_SECONDS, 2 * self._sleeping
        )

    def _while_waiting(self, wait: Wait[T]) -> Generator[Running, None, T]:
        """Wait, yielding what is waited for."""
        while True:
            try:
                next(wait)
            except StopIteration as done:
                result: T = done.value
                return result
            yield self._running

    def _asked(self) -> list[str]:
        """The checks to ask a worker for: one alone, if it has to be confirmed that it times out."""
        return [self._doubted] if self._doubted else list(self._left)

    def _request(self) -> dict[str, Any]:
        day = self._judge.day
        return {
            "day": day.number,
            "names": self._asked(),
            "thoroughly": self._doubted is not None,
            "answer": self._answer.path,
            "shown": self._answer.shown,
            "stubs": {
                other.stem: stub_of(other) for other in DAYS if other == day or is_recorded(other)
            },
            "references": redacted_references(day),
            "listen": list(self._answer.listen),
            "seed": self._judge.seed,
            "device": self._judge.device,
        }

    def _file(self) -> Observation:
        answer = self._answer
        return {} if answer.data is None else as_leaves({answer.path: answer.data})

    def _receive(self, worker: Worker) -> Generator[Running, None, None]:
        """Read one worker's messages until each check that it was asked for has an outcome."""
        self._loaded, self._running = False, Running("", time.monotonic())
        loaded, _ = yield from self._while_waiting(
            worker.receiving(BACKSTOP, WAITING, self._sleeping)
        )
        self._loaded = True
        requested = set(self._asked())
        self._note_loading(loaded)
        while waiting := [name for name in self._left if name in requested]:
            if self._is_over():
                break
            self._running = Running(waiting[0], time.monotonic())
            receiving = worker.receiving(BACKSTOP, WAITING, self._sleeping)
            message, observation = yield from self._while_waiting(receiving)
            try:
                name = str(message["check"])
                problem = raised_from(message["raised"]) if message["raised"] else None
                damaged = tuple(str(other)[:100] for other in message["damaged"][:MAX_DAMAGED])
            except (BadFrame, KeyError, TypeError) as error:
                raise WorkerStopped(GIBBERISH) from error
            if name not in waiting:
                raise WorkerStopped(GIBBERISH)
            run = CheckRun(observation, problem, damaged)
            shown = self._showable(problem) if problem else None
            seconds = time.monotonic() - self._running.since
            exercise = self._left[name].exercise
            self._settle(name, Outcome(run, seconds=seconds, shown=shown))
            self._note_called(message.get("called"))
            if message.get("lost_gpu") is True:  # the other checks need a process that has one
                worker.end()
                self._count_stop(exercise, "error", LOST_GPU, MAX_STOPPED)
                break
        self._doubted = None

    def _note_called(self, claimed: Any) -> None:
        self.called |= set(_names(claimed)) & set(self._answer.listen)

    def _note_loading(self, loaded: dict[str, Any]) -> None:
        """Settle the checks that cannot run because of how the file loaded."""
        self.as_new = self.as_new and loaded.get("as_new") is True
        if "unreadable" in loaded:
            reason = self._answer.unreadable(str(loaded["unreadable"])[:1000])
            self._settle_all("error", reason)
        elif "raised" in loaded:
            try:
                problem = self._showable(raised_from(loaded["raised"]))
            except BadFrame as error:
                raise WorkerStopped(GIBBERISH) from error
            what = describe_raised(problem)
            self._settle_all("error", f"{self._answer.name} {CANNOT_LOAD}\n{what}")
        elif "lacking" in loaded:
            self.begun = _names(loaded.get("begun"))
            self._settle_without_earlier_days(str(loaded["lacking"])[:1000])
        else:
            self.begun = _names(loaded.get("begun"))
            missing = _names(loaded.get("missing"))
            for check in list(self._left.values()):
                if lacking := sorted(check.uses & set(missing)):
                    self._settle(
                        check.name, Outcome(None, "error", _missing(self._answer.name, lacking))
                    )

    def _settle_without_earlier_days(self, what: str) -> None:
        """Settle all checks of a day that needs an earlier day that is not done."""
        if (
            self._answer.data is not None
        ):  # in the sandbox every reference of an earlier day is there
            raise WorkerStopped(GIBBERISH)
        for check in list(self._left.values()):
            status = "error" if check.exercise in self.begun else "not_started"
            words = f"Day {self._judge.day.number} builds on an earlier day. {what}"
            self._settle(check.name, Outcome(None, status, words))

    def _showable(self, reported: Raised) -> Raised:
        """Return an exception as it may be shown."""
        shown = self._answer.raised(reported, stub_of(self._judge.day))
        in_sandbox = self._answer.data is not None
        if in_sandbox and not self._judge.day.uses_torch and lacks_torch(reported):
            return replace(shown, kind="ImportError", message=NO_TORCH)
        return shown

    def _stopped(self, stop: WorkerStopped) -> None:
        """Settle the check that was running; the others run in a new worker."""
        if isinstance(stop, WorkerLost):
            self._lost += 1
            if self._lost > MAX_LOST:
                raise NotStarted(str(stop))
            return
        name = next(candidate for candidate in self._asked() if candidate in self._left)
        if isinstance(stop, TimedOut) and not isinstance(stop, Overran) and name != self._doubted:
            self._doubted = name
            return
        self._doubted = None
        if not self._loaded:
            self._settle_all(stop.status, f"{self._answer.name} {CANNOT_LOAD}\n{stop}")
            return
        check = self._left[name]
        self._settle(name, Outcome(None, stop.status, str(stop)))
        if isinstance(stop, TimedOut) and self._answer.data is None:
            self._give_up_after(check)
            return
        # An endless loop takes its time in each check; what is beyond the core fails no day.
        most = 1 if isinstance(stop, TimedOut) and check.tier == CORE else MAX_STOPPED
        self._count_stop(check.exercise, stop.status, str(stop), most)

    def _give_up_after(self, check: Outline) -> None:
        """Run no others after a check that does not end: a learner waits. What is beyond the core fails no
        day, so the core is run all the same after it. Graders count each exercise, and have the time."""
        for other in list(self._left.values()):
            if check.tier == CORE or other.tier != CORE:
                self._settle(
                    other.name, Outcome(None, "timed_out", f"Not run: `{check.name}` does not end.")
                )

    def _count_stop(self, exercise: str, status: str, why: str, most: int) -> None:
        """Give up on an exercise of which so many checks have ended a worker."""
        self._stops[exercise] = self._stops.get(exercise, 0) + 1
        if self._stops[exercise] >= most:
            before = "a check" if most == 1 else f"{most} checks"
            message = f"Not run, because {before} of `{exercise}` ended the same way: {why}"
            for other in list(self._left.values()):
                if other.exercise == exercise:
                    self._settle(other.name, Outcome(None, status, message))

    def _settle(self, name: str, outcome: Outcome) -> None:
        self._attempts[name] = outcome
        del self._left[name]

    def _settle_all(self, status: str, message: str) -> None:
        for name in list(self._left):
            self._settle(name, Outcome(None, status, message))


def as_leaves(files: dict[str, bytes]) -> Observation:
    """Return files by their paths, in the form in which a worker receives them."""
    return flatten({path: np.frombuffer(data, np.uint8) for path, data in files.items()})


def _names(claimed: Any) -> list[str]:
    return [str(name) for name in claimed] if isinstance(claimed, list) else []


def _missing(file: str, names: list[str]) -> str:
    which = " and ".join(f"`{name}`" for name in names)
    remedy = "The name must match exactly; `course reset` restores the stub."
    return f"{file} defines no {which}. {remedy}"
