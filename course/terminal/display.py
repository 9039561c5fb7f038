"""Colors, marks and words that several rooms print. Untrusted text is shown without markup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.text import Text
from rich.theme import Theme

from course.curriculum import ROOT

THEME = Theme(
    {
        "passed": "green",
        "watertight": "bold green",
        "failed": "red",
        "error": "red",
        "in_progress": "yellow",
        "not_started": "default",
        "skipped": "cyan",
        "quiet": "dim",
        "command": "bold cyan",
        "markdown.code": "bold cyan",
    }
)
MARKS = {
    "passed": "✔",
    "watertight": "★",
    "failed": "✘",
    "error": "✘",
    "in_progress": "◐",
    "not_started": "○",
    "skipped": "–",
}
MAX_PRINTED_LINES = 12


def console(**how: object) -> Console:
    """Return a console in the course's colors."""
    return Console(theme=THEME, highlight=False, soft_wrap=False, **how)  # type: ignore[arg-type]


def safe(text: str) -> Text:
    """Return untrusted text without markup, with visible control characters."""
    return Text("".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text))


def printed(words: str, most: int = MAX_PRINTED_LINES) -> list[RenderableType]:
    """Return what the learner's code printed, cut to a readable length."""
    lines = words.rstrip().splitlines()
    if not most:
        count = "a line" if len(lines) == 1 else f"{len(lines)} lines"
        return [Text(f"Your code printed {count}.", "quiet")]
    text = safe("\n".join(lines[:most]))
    text.no_wrap, text.overflow = True, "ellipsis"
    if len(lines) > most:
        text.append(f"\n… and {len(lines) - most} more lines", "quiet")
    return [Panel(text, title="your code printed", title_align="left", border_style="quiet")]


def shown(path: Path) -> str:
    """Return a file's path relative to the course's folder."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write a file within the context; if that fails, print the reason, and end the command with status
    1."""
    try:
        yield
    except OSError as error:
        fail(f"{shown(path)} cannot be written: {error.strerror}. Nothing was changed.")


def fail(words: str) -> NoReturn:
    """Print why something cannot be done, and end with status 1."""
    console(stderr=True).print(Text(words, "failed"))
    raise typer.Exit(1)
