"""The learner's clock: CPU time of the thread that runs their code, and of nothing else.

The clock stops while anything is imported, drawn, given weights or serialized. So its value does
not depend on the other work of the machine.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """Counts the CPU time of one thread, between starts and stops."""

    def __init__(self) -> None:
        self._state: tuple[float, float | None] = (0.0, None)
        """Seconds counted, and when counting began: one value, for another thread reads it."""
        self._read = time.thread_time

    def follow_this_thread(self) -> None:
        """Count this thread's time, and let other threads read it."""
        if hasattr(time, "pthread_getcpuclockid"):
            clock = time.pthread_getcpuclockid(threading.get_ident())
            self._read = lambda: time.clock_gettime(clock)
        else:  # macOS and Windows have no such clock
            self._read = time.process_time

    @property
    def seconds(self) -> float:
        """CPU seconds since the clock was started, without the stops."""
        counted, since = self._state
        return counted + (self._read() - since if since is not None else 0.0)

    @property
    def runs(self) -> bool:
        """Return whether the clock is running."""
        return self._state[1] is not None

    @contextmanager
    def started(self) -> Iterator[None]:
        """Let the clock count from 0 within the context."""
        self._state = 0.0, self._read()
        try:
            yield
        finally:
            self._state = self.seconds, None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop a running clock within the context."""
        if not self.runs:
            yield
            return
        self._state = self.seconds, None
        try:
            yield
        finally:
            self._state = self._state[0], self._read()


CLOCK = Clock()
"""The clock of the learner whose code runs in this process."""


def leave_imports_out() -> None:
    """Stop the clock during every import: PyTorch imports 800 modules at the first step of an optimizer."""
    imported = builtins.__import__

    def import_off_the_clock(*arguments: Any, **options: Any) -> Any:
        with CLOCK.stopped():
            return imported(*arguments, **options)

    builtins.__import__ = import_off_the_clock
