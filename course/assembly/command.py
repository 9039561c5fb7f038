"""`course assemble`."""

from __future__ import annotations

import typer
from rich.text import Text

from course.assembly import graduation
from course.assembly.assembling import assemble as run
from course.curriculum import ROOT
from course.terminal import display
from course.terminal.arguments import EXERCISES, Answers
from course.workers.worker import NotStarted, WorkerStopped


def assemble(answers: Answers = EXERCISES) -> None:
    """A Transformer of your own parts, trained to copy. Exit 0 if it copies all that it never saw."""
    console = display.console()
    try:
        with graduation.training(console) as report:
            result = run(answers, report)
    except (WorkerStopped, NotStarted) as stop:
        display.fail(str(stop))
    console.print(graduation.report(result))
    if result.attention:
        picture = ROOT / "my" / "assembled.png"
        with display.writing(picture):
            graduation.draw(result.attention, picture)
        console.print(Text(f"Every layer and head: {display.shown(picture)}", "quiet"))
    console.print(graduation.verdict(result))
    raise typer.Exit(0 if result.exact == 1.0 else 1)
