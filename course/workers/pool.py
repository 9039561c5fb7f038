"""Workers that are started before they are needed."""

from __future__ import annotations

from collections import deque

from course.workers.worker import Worker


class WorkerPool:
    """A pool of workers that are started before they are needed, each of which serves once."""

    def __init__(self, spares: int, torch_on: str | None = None) -> None:
        self._spares: deque[Worker] = deque()
        self._ahead = spares
        self._torch_on = torch_on
        self.refill()

    def take(self, torch_on: str | None = None) -> Worker:
        """Return the worker started first. No replacement is started yet: that would slow it down.

        Spares that were started for a different device are ended.
        """
        if torch_on != self._torch_on:
            self.close()
            self._torch_on = torch_on
        return self._spares.popleft() if self._spares else Worker(self._torch_on)

    def give_back(self, worker: Worker) -> str:
        """End a worker. Returns what the learner's code printed."""
        worker.end()
        return worker.printed

    def refill(self) -> None:
        """Start the workers that are missing."""
        while len(self._spares) < self._ahead:
            self._spares.append(Worker(self._torch_on))

    def close(self) -> None:
        """End the spare workers."""
        while self._spares:
            self._spares.pop().end()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
