"""`course assemble reasoner`: the learner's own LLaMA learns to add, in three stages.

Training runs the learner's code in this process, as `course train --answers` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from course.assembly import graduation, runs
from course.curriculum import Day
from course.judging.results import DayResult
from course.terminal import display
from training.program import Program


def assemble_reasoner(
    program: Program,
    answers: Path,
    failing: Callable[[Sequence[Day], Path], list[DayResult]],
    seed: int,
    out: Path | None,
    resume: Path | None,
) -> None:
    """Train a reasoner of the learner's parts, or resume a run.

    Args:
        failing: returns those of some days that fail, so that they are named before training.
    """
    console = display.console()
    if resume is None:
        with console.status("Checking your parts …"):
            wrong = failing(runs.days_of(runs.REASONER), answers)
        if wrong:
            console.print(graduation.warning(wrong))
    with program.refusals():
        from training.reasoning import running  # torch takes a second to import

        if resume is not None:
            raise typer.Exit(running.run(program, resume))
        raise typer.Exit(running.assemble(program, out, answers, seed))
