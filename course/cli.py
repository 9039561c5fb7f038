"""The `course` command: what the rooms offer, joined.

A room is imported only when one of its commands is called, because each import takes a while.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from course.references.editions import WHOLE
from course.terminal.arguments import EXERCISES, Answers, are_days, in_plain_words

if TYPE_CHECKING:  # training is not in an edition
    from training.program import Program

DESK = "course.desk.learner_commands"
TRAINING = "training.commands"
LABORATORY = "laboratory.study_command"
EXPLORER = "explorer.explore_command"
GRADING = "course.grading.grade_command"

LEARN, TRAIN, TEACH, CONTRIBUTE = (
    "Learn",
    "Train and measure models",
    "Teach and grade",
    "Contribute",
)

COMMANDS = {  # (panel of the help, module), in the order of the help
    **dict.fromkeys(
        ("check", "watch", "hint", "recall", "lesson", "solution", "reset"), (LEARN, DESK)
    ),
    "update": (LEARN, "course.desk.updating"),
    "explore": (LEARN, EXPLORER),
    **dict.fromkeys(("assemble", "doctor"), (LEARN, __name__)),
    **dict.fromkeys(("train", "translate", "generate", "chat", "evaluate"), (TRAIN, TRAINING)),
    **dict.fromkeys(("attention", "compare", "quantize", "export"), (TRAIN, TRAINING)),
    "study": (TRAIN, LABORATORY),
    "grade": (TEACH, GRADING),
    "bundle": (TEACH, "course.edition.bundle_command"),
    "sync": (CONTRIBUTE, "course.edition.sync_command"),
}
# What an extra of pyproject.toml brings that its commands import, by the commands' module.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys((TRAINING, LABORATORY), ("train", ("gguf", "scipy", "tensorboard"))),
    EXPLORER: ("explore", ("anywidget", "latex2mathml", "marimo")),
    GRADING: ("grade", ("pyseccomp",) if sys.platform == "linux" else ()),
}
IN_AN_EDITION = ("check", "watch", "hint", "recall", "lesson", "solution", "reset", "doctor")


class OneCommand(TyperCommand):
    """A command with help in plain words, which says what is not installed but required."""

    def get_params(self, ctx: Any) -> Any:
        return list(map(in_plain_words, super().get_params(ctx)))

    def invoke(self, ctx: Any) -> Any:
        _need(COMMANDS[str(self.name)][1], str(self.name))
        return super().invoke(ctx)


class Commands(TyperGroup):
    """Commands that are imported when they are called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS if WHOLE else IN_AN_EDITION)  # type: ignore[assignment]

    def get_params(self, ctx: Any) -> Any:
        return list(map(in_plain_words, super().get_params(ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name; for only days (`course 1`) it is `check`."""
        return super().resolve_command(ctx, ["check", *args] if are_days(args[0]) else args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or None. A command that an edition lacks is refused with a
        message."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            ctx.fail(
                f"'{cmd_name}' is not in the student edition: it needs the references of all days."
            )
        panel, module = COMMANDS[cmd_name]
        command = typer.Typer(add_completion=False, rich_markup_mode="rich")
        settings = {"obj": _program()} if module == TRAINING else {}
        make = command.command(
            cmd_name, cls=OneCommand, context_settings=settings, rich_help_panel=panel
        )
        make(getattr(importlib.import_module(module), cmd_name))
        return typer.main.get_command(command)


class Graduate(enum.StrEnum):
    """The models that can be built from a learner's parts."""

    transformer = "transformer"
    llama = "llama"
    reasoner = "reasoner"


app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"course {version('transformers-from-scratch-course')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def board(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, metavar="FILE", help="Write the board as a picture, for a profile."
        ),
    ] = None,
) -> None:
    """Learn day by day, from a softmax to a LLaMA that reasons.

    Without a command, it shows the board. With only a day, as in `course 1`, it checks that day.
    """
    if context.invoked_subcommand is None:
        from course.desk.learner_commands import board

        board(svg)
    elif svg is not None:
        raise typer.BadParameter("--svg works only without a command: course --svg FILE")


def assemble(
    model: Annotated[
        Graduate,
        typer.Argument(
            metavar="MODEL",
            help="transformer (days 8 to 22), llama (days 8 to 32) or reasoner (LLaMA, and days 41, 45 and "
            "48).",
        ),
    ] = Graduate.transformer,
    answers: Answers = EXERCISES,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="llama: the folder with Shakespeare's text.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="llama: number of training steps.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="reasoner: random seed.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="reasoner: the run's folder; by default runs/reasoner-<time>."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="reasoner: resume a run that was stopped.")
    ] = None,
) -> None:
    """Build a model from your own parts and train it.

    The transformer learns to copy, and the command succeeds if it copies every unseen sequence.
    The llama reads Shakespeare, is quantized and exported, and generates text.
    The reasoner learns to add: pretraining, instruction tuning, and reinforcement learning.
    On two cores, this takes a few minutes, and about ten for the reasoner.
    """
    from course.desk.progress import failing

    if model is not Graduate.llama and (data_dir or steps):
        raise typer.BadParameter("--data-dir and --steps are for llama")
    if model is not Graduate.reasoner and (seed is not None or out or resume):
        raise typer.BadParameter("--seed, --out and --resume are for reasoner")
    if resume and (seed is not None or out):
        raise typer.BadParameter("A resumed run keeps its seed and its folder")
    if model is Graduate.llama:
        _need(TRAINING, "assemble llama")
        from course.assembly.assemble_llama import assemble_llama

        assemble_llama(_program(), answers, failing, data_dir, steps)
    elif model is Graduate.reasoner:
        _need(TRAINING, "assemble reasoner")
        from course.assembly.assemble_reasoner import assemble_reasoner

        assemble_reasoner(_program(), answers, failing, seed or 0, out, resume)
    else:
        from course.assembly.assemble_command import assemble

        assemble(answers, failing)


def doctor() -> None:
    """Show what this machine has, and what is missing."""
    from course.desk.doctor import examine

    missing: Iterable[str] = ()
    if WHOLE:
        from course.grading import sandbox

        missing = sandbox.in_words()
    raise typer.Exit(0 if examine(missing) else 1)


def _need(module: str, command: str) -> None:
    """Exit with the command that installs what is missing, if a package of the module's extra is."""
    extra, packages = EXTRAS.get(module, ("", ()))
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        typer.echo(
            f"course {command} needs {', '.join(missing)}, which is not installed here: "
            f'pip install -e ".[{extra}]"',
            err=True,
        )
        raise typer.Exit(2)


def _program() -> Program:
    """What the commands of training are joined to."""
    from course.assembly import runs
    from course.terminal import display
    from training.program import Program

    return Program("course.cli", display.console, display.safe, runs)


def _wait_passively() -> None:
    """Have threads that wait for each other sleep, here and in every process that is started from here.

    Otherwise they spin, each on a core that another process could use: beside two busy programs on two
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
    try:
        app(prog_name="course")
    finally:
        # An interrupt in source text that is executed, as dataclasses do on import, is noted by Python
        # and kills the process at its end, even if it was caught. Executing other text clears the note.
        exec("")


if __name__ == "__main__":
    main()
