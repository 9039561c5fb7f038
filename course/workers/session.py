"""A worker that serves several days of one answer: what takes long to import is imported once."""

from __future__ import annotations

import time
from collections.abc import Callable

from course.workers.worker import Worker

WAITING = 3.0  # times as long by the clock as it may compute


class WorkerSession:
    """The workers of one learner: one for all days, or another where that one was stopped."""

    def __init__(self, start: Callable[[str | None], Worker], apart: bool = False) -> None:
        """Nothing is started yet.

        Args:
            start: gives a worker that has served nobody, given the device on which it needs torch.
            apart: whether days that need no torch have a worker without it.
        """
        self.used = False
        """Whether the worker has served an earlier day."""
        self.stopped = 0
        """How many workers had to be stopped."""
        self._start = start
        self._apart = apart
        self._torch_on: str | None = None
        self._worker: Worker | None = None
        self._told = 0
        self._computed = 0.0
        self._since = time.monotonic()

    @property
    def computed(self) -> float:
        """Seconds of CPU time that the learner has had."""
        return self._computed + (self._worker.computed if self._worker else 0.0)

    def exhausted(self, seconds: float) -> bool:
        """Whether it has computed as long, or taken several times as long by the clock."""
        return self.computed > seconds or time.monotonic() - self._since > WAITING * seconds

    def take(self, torch_on: str | None = None) -> Worker:
        """The learner's worker."""
        if self._apart and torch_on != self._torch_on:
            self.renew()
        if self._worker is None:
            self._worker, self._torch_on = self._start(torch_on), torch_on
            self.used = False
            self._told = 0
        return self._worker

    def give_back(self, worker: Worker) -> str:
        """Keep it for the next day, unless it was stopped. Returns what was printed since the last time."""
        printed = worker.printed
        new, self._told = printed[self._told :], len(printed)
        if worker.ended:
            self.stopped += 1
            self._leave(worker)
        return new

    def renew(self) -> None:
        """Have another worker next."""
        if self._worker is not None:
            self._worker.end()
            self._leave(self._worker)

    def _leave(self, worker: Worker) -> None:
        self._computed += worker.computed
        self._worker = None

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.renew()
