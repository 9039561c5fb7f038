"""A worker that serves several days of one learner, so that PyTorch is imported once."""

from __future__ import annotations

import time
from collections.abc import Callable

from course.workers.worker import Worker

WAITING = 12.0  # times as long by the clock as it may compute, for a machine that is busy


class WorkerSession:
    """One learner's worker for all days, which is replaced whenever it had to be stopped."""

    def __init__(self, start: Callable[[str | None], Worker], apart: bool = False) -> None:
        """Create a session without a worker.

        Args:
            start: returns a fresh worker, given the device on which it needs torch.
            apart: whether days that need no torch get a worker without torch.
        """
        self.used = False
        """Whether the worker has served an earlier day."""
        self.stopped = 0
        """How many workers had to be stopped."""
        self._start = start
        self._apart = apart
        self._torch_on: str | None = None
        self._worker: Worker | None = None
        self._reported = 0
        self._computed = self._slept = 0.0
        self._since = time.monotonic()

    @property
    def computed(self) -> float:
        """Seconds of CPU time that the learner's workers have used."""
        return self._computed + (self._worker.computed if self._worker else 0.0)

    def exhausted(self, seconds: float, slept: float) -> bool:
        """Whether the session has used this much CPU time, has slept so long, or has used `WAITING` times as
        much wall time."""
        waited = time.monotonic() - self._since
        sleep = self._slept + (self._worker.slept if self._worker else 0.0)
        return self.computed > seconds or sleep > slept or waited > WAITING * seconds

    def take(self, torch_on: str | None = None) -> Worker:
        """Return the learner's worker, started if there is none."""
        if self._apart and torch_on != self._torch_on:
            self.renew()
        if self._worker is None:
            self._worker, self._torch_on = self._start(torch_on), torch_on
            self.used = False
            self._reported = 0
        return self._worker

    def give_back(self, worker: Worker) -> str:
        """Keep a worker for the next day unless it was stopped. Returns what it has printed since the
        last call."""
        printed = worker.printed
        new, self._reported = printed[self._reported :], len(printed)
        if worker.ended:
            self.stopped += 1
            self._drop(worker)
        return new

    def renew(self) -> None:
        """End the worker, so that the next day gets a fresh one."""
        if self._worker is not None:
            self._worker.end()
            self._drop(self._worker)

    def _drop(self, worker: Worker) -> None:
        self._computed += worker.computed
        self._slept += worker.slept
        self._worker = None

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.renew()
