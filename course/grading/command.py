"""`course grade`: what was asked for, what is shown meanwhile, and what is said at the end."""

from __future__ import annotations

import contextlib
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from course.curriculum import DAYS, Day
from course.grading.gradebook import LearnerResult, Weights
from course.grading.job import Plan, edition, lacking_device
from course.grading.pools import Cluster, Processes, closing, processes_that_fit
from course.grading.reports import Returned
from course.grading.run import InUse, Run, grade_all, read_weights, remember, seed_of, sole_use
from course.grading.sandbox import NoSandbox, walls
from course.grading.submissions import NothingHandedIn, find_sources
from course.judging.messages import Feedback
from course.terminal import display

SAID = {
    "graded": "quiet",
    "nothing_found": "in_progress",
    "refused": "in_progress",
    "grader_fault": "failed",
}
MOST_NAMED = 10  # learners in a sentence
DEVICES = ("cpu", "cuda", "mps", "practice")


class Told(enum.StrEnum):
    """How much learners are told (`Feedback` says what each means)."""

    full = "full"
    discreet = "discreet"
    verdict = "verdict"


def share(text: str) -> Fraction:
    """A part of a whole, such as `0.2` or `1/5`."""
    try:
        part = Fraction(text)
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise typer.BadParameter(f"'{text}' is no share: 0, 1 and what lies between are, as 0.2.")
    return part


def grade(
    submissions: Annotated[
        Path,
        typer.Argument(
            exists=True,
            help="A folder with a folder or an archive for each learner, or a download of Canvas or Moodle.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(file_okay=False, metavar="DIR", help="Where the reports go.")
    ],
    days: Annotated[
        str | None, typer.Option(help="Such as 8, 1-7 or 1-3,8; all days if left out.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Submissions at once; as many as there are cores.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Where inputs come from; fresh and secret if left out."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or practice.")] = "cpu",
    resume: Annotated[
        bool, typer.Option(help="Whether what is graded already, with the same files, stands.")
    ] = True,
    weights: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, metavar="FILE", help="YAML with points by day: `8: 2`."
        ),
    ] = None,
    watertight: Annotated[
        Fraction,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="The part of an exercise's points, from 0 to 1, that its watertight checks earn.",
        ),
    ] = Fraction(0),
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler; its machines grade.")
    ] = None,
    feedback: Annotated[
        Told,
        typer.Option(
            help="How much is told: with the checks' numbers, without them, or which checks pass."
        ),
    ] = Told.discreet,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Without walls: only for work that you trust.")
    ] = False,
) -> None:
    """Grade a class, in sandboxes. Exit 0; 1 if the grader itself failed somewhere; 2 if not asked well."""
    console = display.console()
    chosen = _days(days)
    _device(device, cluster)
    if out.resolve().is_relative_to(submissions.resolve()):
        raise typer.BadParameter("The reports cannot go into the folder of the submissions.")
    try:
        with sole_use(out):
            lacking = _walls(unsafe, console) if cluster is None else []
            points = _weights(chosen, weights, watertight)
            run = _run(submissions, out, points, seed, device, resume, unsafe, Feedback(feedback))
            remember(out, run.plan)
            with _pool(cluster, jobs, device) as pool, _shown(console, len(run.sources)) as done:
                grade_all(run, pool, resume, done)
            aside, gone = run.put_aside(datetime.now(UTC))
            graded, returned = run.report(lacking)
    except InUse as error:
        raise typer.BadParameter(f"{error}.") from error
    except OSError as error:
        raise typer.BadParameter(f"{error.filename or out}: {error.strerror or error}.") from error
    except KeyboardInterrupt:
        console.print("Stopped. What is graded is kept: the same command goes on from here.")
        raise typer.Exit(1) from None
    verdicts = Counter(result.verdict for result in graded.results())
    _conclude(console, out, verdicts)
    _tell_returned(console, returned)
    if gone:
        who = "a learner" if gone == 1 else f"{gone} learners"
        words = f"What an earlier run said of {who} no more in this class is now in {aside}."
        console.print(Text(words, "in_progress"))
    raise typer.Exit(1 if verdicts["grader_fault"] else 0)


def _run(
    submissions: Path,
    out: Path,
    weights: Weights,
    seed: int | None,
    device: str,
    resume: bool,
    unsafe: bool,
    feedback: Feedback,
) -> Run:
    try:
        sources = find_sources(submissions)
    except NothingHandedIn as error:
        raise typer.BadParameter(str(error)) from error
    numbers = tuple(day.number for day in weights.days)
    plan = Plan(numbers, seed_of(out, seed, resume), device, unsafe, edition(), feedback)
    return Run(out, plan, weights, sources)


def _weights(days: list[Day], file: Path | None, watertight: Fraction) -> Weights:
    try:
        given = read_weights(file, days) if file else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--weights") from error
    return Weights(days, given, watertight)


def _days(asked: str | None) -> list[Day]:
    """The days that `1-3,8` names, in their order."""
    ready = [day for day in DAYS if day.ready]
    if asked is None:
        return ready
    numbers: set[int] = set()
    for part in asked.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers |= set(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise typer.BadParameter(
                f"'{part}' is no day: 8, 1-7 and 1-3,8 are understood."
            ) from None
    known = {day.number for day in ready}
    if not numbers or not numbers <= known:
        wrong = ", ".join(map(str, sorted(numbers - known))) or asked
        raise typer.BadParameter(f"There is no day {wrong}: days 1 to {max(known)} are there.")
    return [day for day in ready if day.number in numbers]


def _device(device: str, cluster: str | None) -> None:
    """Refuse a device that is not here: every check on it would be skipped, and earn nothing."""
    if device not in DEVICES:
        raise typer.BadParameter(f"Device '{device}': {', '.join(DEVICES)} are known.")
    lacking = (
        lacking_device(device) if cluster is None else None
    )  # a cluster's machines have their own
    if lacking:
        raise typer.BadParameter(
            f"Device '{device}': {lacking}. Nothing was graded, and nothing written."
        )


def _walls(unsafe: bool, console: Console) -> list[str]:
    """What the sandbox lacks on this machine. Without a sandbox there is no grading."""
    if unsafe:
        words = "Without walls: every submission can read, write and send what you can."
        console.print(Text(words, "failed"))
        return [words]
    try:
        with walls() as found:
            return found.missing
    except NoSandbox as error:
        raise typer.BadParameter(
            f"There is no sandbox here. {error} For work that you trust, and no other: --unsafe."
        ) from error


@contextlib.contextmanager
def _pool(cluster: str | None, jobs: int | None, device: str) -> Iterator[Processes | Cluster]:
    if cluster is None:
        with closing(Processes(jobs or processes_that_fit())) as pool:
            yield pool
        return
    try:
        connected = Cluster(cluster, device)
    except ImportError as error:
        raise typer.BadParameter("--cluster needs Dask: pip install 'distributed'.") from error
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"No Dask scheduler answers at {cluster}: {error}") from error
    with closing(connected) as pool:
        yield pool


@contextlib.contextmanager
def _shown(console: Console, total: int) -> Iterator[Callable[[LearnerResult, bool], None]]:
    """Within it, results are told as they come: by a bar in a terminal, else by a line each."""
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn())
    progress = Progress(
        TextColumn(columns[0]), *columns[1:], TimeRemainingColumn(), console=console,
        disable=not console.is_terminal,
    )  # fmt: skip
    task = progress.add_task("Grading", total=total)
    count = 0

    def done(result: LearnerResult, kept: bool) -> None:
        nonlocal count
        count += 1
        progress.advance(task)
        if not console.is_terminal or result.verdict != "graded":
            console.print(_line(f"{count}/{total}", result, kept))

    with progress:
        yield done


def _line(count: str, result: LearnerResult, kept: bool) -> Text:
    passed = sum(day["status"] == "passed" for day in result.days)
    stars = sum(day["watertight"] for day in result.days)
    days = f"{passed} of {len(result.days)} days passed, {stars} watertight"
    words = {
        "graded": days + (", graded before" if kept else ""),
        "nothing_found": "nothing found to grade: the page says what there is",
        "refused": f"refused: {result.reason}",
        "grader_fault": f"not graded, by a fault that is not the learner's: {result.reason}",
    }[result.verdict]
    who = display.safe(result.learner.replace("\n", " "))
    return Text.assemble(
        (f"{count:>9}  ", "quiet"), who, "  ", (str(display.safe(words)), SAID[result.verdict])
    )


def _conclude(console: Console, out: Path, verdicts: Counter[str]) -> None:
    parts = [f"{verdicts['graded']} graded"]
    nothing = verdicts["nothing_found"]
    parts += [f"{nothing} with nothing to grade"] if nothing else []
    parts += [f"{verdicts['refused']} refused"] if verdicts["refused"] else []
    faults = verdicts["grader_fault"]
    parts += [f"{faults} not graded by a fault here: run it again"] if faults else []
    console.print(", ".join(parts) + ".")
    console.print(Text(f"Gradebook: {out / 'grades.csv'}   Report: {out / 'report.html'}", "quiet"))


def _tell_returned(console: Console, returned: Sequence[Returned]) -> None:
    """Name the zips of pages to hand back, and for whom they have none."""
    for path, without in returned:
        console.print(Text(f"To hand back: {path}", "quiet"))
        if without:
            words = "It has no page for " + ", ".join(without[:MOST_NAMED])
            words += f" and {len(without) - MOST_NAMED} more" if len(without) > MOST_NAMED else ""
            console.print(
                display.safe(words.replace("\n", " ") + ", who handed in no file: see feedback/.")
            )
