"""The `course` command: what the rooms offer, joined."""

from __future__ import annotations

import os
import sys

import typer

from course.desk import commands as desk
from course.desk.doctor import examine
from course.desk.standing import failing
from course.references.editions import WHOLE
from course.terminal.arguments import EXERCISES, Answers

PROGRAM = None
if WHOLE:
    from course.assembly import command as assembly
    from course.assembly import runs
    from course.edition.command import bundle
    from course.grading import sandbox
    from course.grading.command import grade
    from course.references.command import sync
    from course.terminal import display
    from training import commands as training
    from training.program import Program

    PROGRAM = Program("course.cli", display.console, display.safe, runs)

app = typer.Typer(
    help="Forty days from a softmax to a Transformer. Without a command: the board.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"obj": PROGRAM},
)


def assemble(answers: Answers = EXERCISES) -> None:
    """A Transformer of your own parts, trained to copy. Exit 0 if it copies all that it never saw."""
    assembly.assemble(answers, failing)


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


def _wait_passively() -> None:
    """Have threads that wait for each other sleep, here and in every process that is started from here.

    They spin otherwise, each on a core that somebody else could use: beside two busy programs on two
    cores a training took three times as long. OpenMP reads this when torch is imported, so it is said
    before anything imports torch. What the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """Run the command."""
    _wait_passively()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # ✔ and √ on any terminal
    app()


if __name__ == "__main__":
    main()
