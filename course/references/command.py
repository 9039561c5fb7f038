"""`course sync`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from course.terminal import display


def sync(
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if something has drifted.")
    ] = False,
) -> None:
    """Write stubs and solution cells from the references; what someone has begun is left alone."""
    from course.references.sync import sync as run  # nbformat takes a second to import

    console = display.console()
    found = run(write=not only_check)
    for drift in found:
        mended = "drifted" if only_check else "by hand" if drift.by_hand else "written"
        console.print(
            Text.assemble((f"{'left alone' if drift.theirs else mended:<12}", "quiet"), str(drift))
        )
    drifted = [drift for drift in found if not drift.theirs]
    if not drifted:
        console.print("Stubs and solutions are what the references make of them.")
    left = drifted if only_check else [drift for drift in drifted if drift.by_hand]
    raise typer.Exit(1 if left else 0)
