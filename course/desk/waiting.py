"""The display while a verdict takes long: which check is running, and for how many seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from course.curriculum import Day
from course.workers.answer_run import Running

LONG = 0.5  # seconds after which it is shown in a terminal
VERY_LONG = (
    5.0  # seconds after which it is said, once, where nothing can be shown and removed again
)

T = TypeVar("T")


class Waiting:
    """Show the running check, in a terminal instead of the previous verdict, within the context."""

    def __init__(self, console: Console, day: Day, keys: str = "", long: float = LONG) -> None:
        """Create a display that shows nothing yet.

        Args:
            keys: a line about the available keys, if the screen is cleared.
            long: the seconds after which the check is shown.
        """
        self._console = console
        self._day = day
        self._keys = keys
        self._long = long
        self._started = time.monotonic()
        self._live: Live | None = None
        self._shown = ""

    def show(self, running: Running) -> None:
        """Show the running check, if the verdict has taken long."""
        now = time.monotonic()
        what = f"{running.check} is running" if running.check else "your file is being loaded"
        if not self._console.is_terminal:
            if now - self._started > VERY_LONG and not self._shown:
                self._shown = what
                print(f"Day {self._day.number}: {what} …", file=sys.stderr)
            return
        if now - self._started < self._long:
            return
        line = f"{what} … {now - running.since:.0f} s"
        if line == self._shown:
            return
        self._shown = line
        if self._live is None:
            if self._keys:
                self._console.clear()
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        title = (f"Day {self._day.number} · {self._day.title}", "bold")
        text = Text.assemble(title, f"   {line}\n", (self._keys, "quiet"))
        self._live.update(text, refresh=True)

    def until(self, steps: Generator[Running, None, T]) -> T:
        """Complete a check, show each step, and return the result."""
        with closing(steps):
            while True:
                try:
                    self.show(next(steps))
                except StopIteration as done:
                    result: T = done.value
                    return result

    @classmethod
    def on(cls, console: Console) -> Callable[[Day, Generator[Running, None, T]], T]:
        """Return what completes the check of a day, and shows it from the beginning."""

        def complete(day: Day, steps: Generator[Running, None, T]) -> T:
            with cls(console, day, long=0.0) as waiting:
                return waiting.until(steps)

        return complete

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
