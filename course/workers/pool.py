"""Workers that start ahead of time and stand ready."""

from __future__ import annotations

from collections import deque

from course.workers.worker import Worker


class WorkerPool:
    """Workers that start ahead of time and stand ready."""

    def __init__(self, spares: int, torch_on: str | None = None) -> None:
        self._spares: deque[Worker] = deque()
        self._ahead = spares
        self._torch_on = torch_on
        self.refill()

    def take(self, torch_on: str | None = None) -> Worker:
        """A worker, the warmest first. Nothing is started in its place yet: that would slow it down.

        Where the spares were made ready for something else, they go, and later ones are made ready for
        this.
        """
        if torch_on != self._torch_on:
            self.close()
            self._torch_on = torch_on
        return self._spares.popleft() if self._spares else Worker(self._torch_on)

    def give_back(self, worker: Worker) -> str:
        """End a worker: it serves once. Returns what the learner's code printed."""
        worker.end()
        return worker.printed

    def refill(self) -> None:
        """Start as many workers as are missing."""
        while len(self._spares) < self._ahead:
            self._spares.append(Worker(self._torch_on))

    def close(self) -> None:
        """End the spares."""
        while self._spares:
            self._spares.pop().end()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
