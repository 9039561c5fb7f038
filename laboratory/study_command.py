"""`course study`: list the studies, or run one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from course.terminal import display
from training.errors import Refused
from training.program import INTERRUPTED, REFUSED


def study(  # as its command is called
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY", help="A study, such as norms; by default the list of all studies."
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Only write the report, from the results that exist.")
    ] = False,
    seeds: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Extend the results to N seeds and to new variants; finished runs are kept.",
        ),
    ] = 0,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="cpu, cuda or mps; by default the CPU.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of runs at once; by default one for each core, or GPU."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="The data folder; by default the cache.",
        ),
    ] = None,
) -> None:
    """Answer a question by training models: list the studies, or run one."""
    with _told(name):
        if name is None:
            _list()
            return
        if name == "sharpening":
            if device or jobs or data_dir:
                raise Refused(
                    "sharpening runs on one core: it takes no --device, --jobs or --data-dir"
                )
            _sharpening(report, seeds)
            return
        from laboratory.report.document import found_for, write
        from laboratory.running import runner  # torch takes a second to import
        from laboratory.study import description, results  # torch takes a second to import

        chosen = description.read(name, seeds)
        if not report:
            extends = seeds and (chosen.folder / results.FILE).exists()
            old = results.read(chosen.folder) if extends else None
            outcome = runner.run(
                chosen, device or "cpu", jobs, data_dir, display.console(), earlier=old
            )
            results.write(outcome, chosen.folder)
        path = write(found_for(name), results.read(chosen.folder))
        display.console().print(Text(f"The report is {path}"), soft_wrap=True)


def _sharpening(report: bool, seeds: int) -> None:
    """Run the study that has a runner and a report of its own: see `laboratory.study.sharpening`."""
    from laboratory.report import document, sharpening  # torch takes a second to import
    from laboratory.running import sharpening as runner
    from laboratory.study.sharpening import read_grid, read_results, write_results

    study = read_grid(seeds)
    if not report:
        write_results(runner.run(study, display.console()))
    path = sharpening.write(study, read_results())
    document.write_index()
    display.console().print(Text(f"The report is {path}"), soft_wrap=True)


def _list() -> None:
    """Print each study with its question and its cost where it was run."""
    from laboratory.running.cost import core_minutes
    from laboratory.study import description, results, sharpening

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("study", "question", "runs", "on one core"):
        table.add_column(column, overflow="fold")
    for name in description.names():
        described = description.read(name)
        try:
            minutes = core_minutes(described, results.read(described.folder))
        except Refused:
            minutes = math.nan
        takes = f"about {max(1, round(minutes))} min" if minutes == minutes else "not known"
        table.add_row(Text(name, "bold"), described.question, str(len(described.cells)), takes)
    own = sharpening.read_grid()
    runs = len(own.seeds) * (len(own.bases) + len(own.variants))
    table.add_row(Text(sharpening.NAME, "bold"), own.question, str(runs), own.takes)
    display.console().print(table)


@contextmanager
def _told(name: str | None) -> Iterator[None]:
    """Print a refusal in a sentence and exit with 2; exit with 130 on Ctrl-C."""
    console = display.console(stderr=True)
    try:
        yield
    except Refused as error:
        message = display.safe(str(error))
        message.stylize("failed")
        console.print(message, soft_wrap=True)
        raise typer.Exit(REFUSED) from error
    except KeyboardInterrupt as error:
        console.print(f"Stopped. Finished cells are kept. To resume: course study {name or ''}")
        raise typer.Exit(INTERRUPTED) from error
