"""`course sync`: everything that is generated from the references, and the known wrong answers that
edit them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from course.curriculum import DAYS
from course.judging.misconceptions import faults
from course.terminal import display


def sync(
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if something has drifted.")
    ] = False,
) -> None:
    """Write stubs and solution cells from the references, and fold the answers in lessons.

    Files that someone has begun are left alone.

    Known wrong answers that no longer fit the references, or are not as they should be, are named, to be
    edited by hand.
    """
    from course.references.sync import Drift  # nbformat takes a second to import
    from course.references.sync import sync as run

    console = display.console()
    drifts = run(write=not only_check)
    for day in DAYS:
        drifts += [Drift(day.misconceptions, what, by_hand=True) for what in faults(day)]
    for drift in drifts:
        mended = "drifted" if only_check else "by hand" if drift.by_hand else "written"
        console.print(
            Text.assemble((f"{'left alone' if drift.theirs else mended:<12}", "quiet"), str(drift))
        )
    ours = [drift for drift in drifts if not drift.theirs]
    if not ours:
        console.print("Stubs, solutions, lessons and known wrong answers fit the references.")
    remaining = ours if only_check else [drift for drift in ours if drift.by_hand]
    raise typer.Exit(1 if remaining else 0)
