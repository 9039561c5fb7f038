"""Arguments that several commands share."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from course.curriculum import DAYS, ROOT, Day, NoSuchDay, find_day, find_days

EXERCISES = ROOT / "exercises"


class Device(enum.StrEnum):
    """The device on which checks of PyTorch days run: `practice` has the rules of a GPU and the numbers
    of the CPU. NumPy days always run on the CPU."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"
    practice = "practice"


def day_argument(text: str) -> Day:
    """Return the available day that was typed."""
    with _usage_errors():
        return _available(find_day(text))


def are_days(text: str) -> bool:
    """Return whether the argument names days by number, such as `1`, `day08` or `8-14`."""
    return bool(re.fullmatch(r"(day)?\d[\d,-]*", text))


def complete_day(incomplete: str) -> list[tuple[str, str]]:
    """Return the days whose number begins with this text, with their titles, for shell completion."""
    days = ((str(day.number), day.title) for day in DAYS)
    return [(number, title) for number, title in days if number.startswith(incomplete)]


class Days(tuple[Day, ...]):
    """One day, or a range of days."""


def days_argument(text: str) -> Days:
    """Return the available days that were typed."""
    with _usage_errors():
        return Days(map(_available, find_days(text)))


def listed_days(text: str) -> list[Day]:
    """Return the available days that a list such as `1-3,8` names, each once, in order."""
    chosen = days_argument(text)
    return [day for day in DAYS if day in chosen]


def in_plain_words(parameter: Any) -> Any:
    """Return the same parameter, whose help describes its value in plain words: `N≥1` for `<int
    range>`, nothing for a switch or if the argument's name says it."""
    if "display_type_rich" in vars(parameter):
        return parameter  # seen before: parameters are listed to parse and to help
    about = parameter.type_descriptor
    if about.is_choice:
        words = "|".join(map(str, about.choices))
    elif parameter.metavar is not None:
        words = parameter.metavar
    elif about.annotation is bool:
        words = ""
    elif parameter.min is not None:
        words = (
            f"N≥{parameter.min}" if parameter.max is None else f"{parameter.min}…{parameter.max}"
        )
    else:
        words = {int: "N", float: "X"}.get(about.annotation, "TEXT")
    parameter.min = parameter.max = None  # which only the help reads
    if parameter.param_type_name == "argument":
        words = ""
    parameter.display_type_rich = lambda ctx: words
    return parameter


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except NoSuchDay as error:
        raise typer.BadParameter(str(error)) from error


def _available(day: Day) -> Day:
    if not day.ready:
        here = ", ".join(str(other.number) for other in DAYS if other.ready)
        raise NoSuchDay(
            f"Day {day.number} ({day.title}) is not in this edition, which has days {here}."
        )
    return day


def folder_that_opens(folder: Path) -> Path:
    """Return a folder whose files can be opened; listing a folder does not require that permission."""
    if not os.access(folder, os.X_OK):
        raise typer.BadParameter(
            f"The files in '{folder}' cannot be opened: you lack permission to enter the folder."
        )
    return folder


OneDay = Annotated[
    Day,
    typer.Argument(
        parser=day_argument,
        metavar="DAY",
        help="8, day08 or a topic such as decoder",
        autocompletion=complete_day,
    ),
]
OneDayOrNext = Annotated[
    Day | None,
    typer.Argument(
        parser=day_argument,
        metavar="DAY",
        help="8, day08 or a topic; by default the next day that does not pass",
        autocompletion=complete_day,
    ),
]
Answers = Annotated[
    Path,
    typer.Option(
        "--answers",
        exists=True,
        file_okay=False,
        callback=folder_that_opens,
        metavar="DIR",
        help="A folder of dayNN_*.py files or of solution notebooks.",
        show_default="exercises",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the checks' inputs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
