"""`course bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from course.curriculum import LAST_DAY, ROOT
from course.edition.bundle import bundle as write
from course.terminal import display
from course.terminal.arguments import listed_days


def bundle(
    out: Annotated[
        Path,
        typer.Option(file_okay=False, metavar="DIR", help="A new or empty folder."),
    ],
    through: Annotated[
        int,
        typer.Option(min=0, max=LAST_DAY, metavar="DAY", help="The last day that is released."),
    ] = 0,
    days: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS",
            help="The days in it, such as 1-9,23; by default all. A day that is left out before "
            "the last of them comes with its reference, on which later days build.",
        ),
    ] = None,
    hints: Annotated[
        bool, typer.Option(help="Include the hints of days that are not released.")
    ] = True,
) -> None:
    """Write the student edition.

    It has no reference and no solution of any of its days after --through.
    """
    console = display.console()
    chosen = listed_days(days) if days else None
    if out.resolve().is_relative_to(ROOT):
        raise typer.BadParameter(
            "The edition must be outside the course's folder.", param_hint="--out"
        )
    try:
        write(out, through, lambda day: console.print(f"Recording day {day.number}"), chosen, hints)
    except FileExistsError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from error
    except OSError as error:
        raise typer.BadParameter(
            f"{out} cannot be written: {error.strerror or error}.", param_hint="--out"
        ) from error
    except KeyboardInterrupt:
        console.print("Stopped. Finished recordings are kept: the same command resumes from here.")
        raise typer.Exit(1) from None
    released = f"days 1 to {through} are" if through else "no day is"
    console.print(f"The student edition is in {out}: {released} released.")
    if chosen and len(chosen) < (last := chosen[-1].number):
        console.print(f"It includes the references of the days before {last} that it leaves out.")
