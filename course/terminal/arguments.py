"""What several commands take."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from course.curriculum import DAYS, ROOT, Day, NoSuchDay, find_day, find_days

EXERCISES = ROOT / "exercises"


class Device(enum.StrEnum):
    """Where checks of PyTorch days run. NumPy knows the CPU alone."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


def day_argument(asked: str) -> Day:
    """A day that is there, from what was typed."""
    with _told():
        return _there(find_day(asked))


class Days(tuple[Day, ...]):
    """One day, or a range of them."""


def days_argument(asked: str) -> Days:
    """Days that are there, from what was typed."""
    with _told():
        return Days(map(_there, find_days(asked)))


def listed_days(asked: str) -> list[Day]:
    """The days that are there of those that `1-3,8` names, in their order.

    Raises:
        typer.BadParameter: a piece is no day and no range of days, or one of the days is not there.
    """
    ready = {day.number: day for day in DAYS if day.ready}
    numbers: set[int] = set()
    for piece in asked.split(","):
        found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", piece.strip())
        if found is None:
            raise typer.BadParameter(f"'{piece}' is no day: 8, 1-7 and 1-3,8 are understood.")
        first, last = found[1].lstrip("0"), (found[2] or found[1]).lstrip("0")
        for number in (first, last):
            if number not in map(str, ready):
                there = f"days 1 to {max(ready)} are there"
                raise typer.BadParameter(f"There is no day {number[:9] or 0}: {there}.")
        if int(first) > int(last):
            raise typer.BadParameter(f"'{piece}' ends before it begins: {last}-{first} is meant?")
        numbers |= set(range(int(first), int(last) + 1))
    return [day for number, day in ready.items() if number in numbers]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NoSuchDay as error:
        raise typer.BadParameter(str(error)) from error


def _there(day: Day) -> Day:
    if not day.ready:
        last = [other.number for other in DAYS if other.ready][-1]
        raise NoSuchDay(f"Day {day.number} ({day.title}) is not there yet: days 1 to {last} are.")
    return day


OneDay = Annotated[
    Day,
    typer.Argument(parser=day_argument, metavar="DAY", help="8, day08 or a topic such as decoder"),
]
Answers = Annotated[
    Path,
    typer.Option(
        "--answers",
        exists=True,
        file_okay=False,
        metavar="DIR",
        help="A folder of dayNN_*.py files or of solution notebooks.",
        show_default="exercises",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Where the inputs of the checks come from.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="One object on standard output, and nothing else there.")
]
