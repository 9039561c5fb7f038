"""The `course` command: what the rooms offer, joined."""

from __future__ import annotations

import sys

import typer

from course.desk import commands as desk
from course.desk.doctor import examine
from course.references.editions import WHOLE

PROGRAM = None
if WHOLE:
    from training.program import Program

    from course.assembly import runs
    from course.assembly.command import assemble
    from course.edition.command import bundle
    from course.grading import sandbox
    from course.grading.command import grade
    from course.references.command import sync
    from course.terminal import display
    from training import commands as training

    PROGRAM = Program("course.cli", display.console, display.safe, runs)

app = typer.Typer(
    help="Forty days from a softmax to a Transformer. Without a command: the board.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"obj": PROGRAM},
)


def doctor() -> None:
    """What this machine has, and what would be missing."""
    complete = examine(sandbox.in_words() if WHOLE else ())
    raise typer.Exit(0 if complete else 1)


app.callback(invoke_without_command=True)(desk.board)
for command in (
    *(desk.check, desk.watch),
    *((assemble,) if WHOLE else ()),
    *(desk.hint, desk.reset, desk.lesson, desk.solution, doctor),
    *((bundle, sync, grade) if WHOLE else ()),
    *((training.train, training.translate, training.generate) if WHOLE else ()),
    *((training.evaluate, training.attention) if WHOLE else ()),
):
    app.command()(command)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # ✔ and √ on any terminal
    app()


if __name__ == "__main__":
    main()
