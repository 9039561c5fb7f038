"""The `course` command: what the rooms offer, joined.

A room is entered when one of its commands is asked for, as each takes a while to import.
"""

from __future__ import annotations

import enum
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from course.references.editions import WHOLE
from course.terminal.arguments import EXERCISES, Answers

if TYPE_CHECKING:  # training is not in an edition
    from training.program import Program

DESK = "course.desk.commands"
TRAINING = "training.commands"

COMMANDS = {  # and where they are, in the order of the help
    **{"check": DESK, "watch": DESK, "assemble": __name__},
    **{"hint": DESK, "reset": DESK, "lesson": DESK, "solution": DESK, "doctor": __name__},
    "bundle": "course.edition.command",
    "sync": "course.judging.command",
    "explore": "explorer.command",
    "study": "laboratory.command",
    "grade": "course.grading.command",
    **{"train": TRAINING, "translate": TRAINING, "generate": TRAINING, "chat": TRAINING},
    **{"evaluate": TRAINING, "attention": TRAINING, "compare": TRAINING},
    **{"quantize": TRAINING, "export": TRAINING},
}
IN_AN_EDITION = ("check", "watch", "hint", "reset", "lesson", "solution", "doctor")


class Commands(TyperGroup):
    """Commands that are imported when they are asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS if WHOLE else IN_AN_EDITION)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command of that name, or None. One that an edition lacks is refused in a sentence."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            ctx.fail(
                f"'{cmd_name}' is not in the student edition: it needs the references of all days."
            )
        module = COMMANDS[cmd_name]
        one = typer.Typer(add_completion=False, rich_markup_mode="rich")
        settings = {"obj": _program()} if module == TRAINING else {}
        one.command(context_settings=settings)(getattr(importlib.import_module(module), cmd_name))
        return typer.main.get_command(one)


class Graduate(enum.StrEnum):
    """The models that a learner's parts make."""

    transformer = "transformer"
    llama = "llama"


app = typer.Typer(
    cls=Commands,
    help="Forty days from a softmax to a Transformer. Without a command: the board.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def board(context: typer.Context) -> None:
    """Forty days from a softmax to a Transformer. Without a command: the board."""
    if context.invoked_subcommand is None:
        from course.desk.commands import board

        board()


def assemble(
    model: Annotated[
        Graduate, typer.Argument(help="transformer of days 8 to 22, or llama of days 23 to 32.")
    ] = Graduate.transformer,
    answers: Answers = EXERCISES,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, metavar="DIR", help="llama: where Shakespeare lies."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="llama: of its training.")] = None,
) -> None:
    """A model of your own parts. The transformer is trained to copy: exit 0 if it copies all that it never
    saw. The llama reads Shakespeare, is quantised and exported, and speaks."""
    from course.desk.standing import failing

    if model is Graduate.llama:
        from course.assembly.llama import assemble_llama

        assemble_llama(_program(), answers, failing, data_dir, steps)
    elif data_dir or steps:
        raise typer.BadParameter("--data-dir and --steps are for llama: the copy task has neither")
    else:
        from course.assembly.command import assemble

        assemble(answers, failing)


def doctor() -> None:
    """What this machine has, and what would be missing."""
    from course.desk.doctor import examine

    walls: Iterable[str] = ()
    if WHOLE:
        from course.grading import sandbox

        walls = sandbox.in_words()
    raise typer.Exit(0 if examine(walls) else 1)


def _program() -> Program:
    """What the commands of training are joined to."""
    from course.assembly import runs
    from course.terminal import display
    from training.program import Program

    return Program("course.cli", display.console, display.safe, runs)


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
