"""`course assemble`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from rich.text import Text

from course.assembly import graduation
from course.assembly.answer_parts import part_days
from course.assembly.assembling import assemble as run
from course.curriculum import ROOT, Day
from course.judging.results import DayResult
from course.terminal import display
from course.workers.worker import NotStarted, WorkerStopped


def assemble(answers: Path, failing: Callable[[Sequence[Day], Path], list[DayResult]]) -> None:
    """Assemble a learner's parts, train the model, and show the result.

    Args:
        answers: the folder with the parts.
        failing: returns those of some days that fail, so that they are named before training.
    """
    console = display.console()
    with console.status("Checking your parts …"):
        wrong = failing(part_days(), answers)
    if wrong:
        console.print(graduation.warning(wrong))
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
