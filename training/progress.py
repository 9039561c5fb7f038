"""Progress bars for measurements and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

OnProgress = Callable[[str, int, int], None]
"""Called with what is counted, how many are done, and how many there are."""


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def waiting(console: Console, words: str) -> Iterator[OnProgress]:
    """Show a bar that disappears at the end; without a terminal, print a plain line."""
    if not console.is_terminal:
        console.print(Text(f"{words} …"), soft_wrap=True)
        yield no_progress
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(words, total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{words}: {what}", completed=done, total=total)

        yield tell
