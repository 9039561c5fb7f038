"""`course grade`: its options, its progress bar, and its summary."""

from __future__ import annotations

import contextlib
import enum
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from course.curriculum import DAYS
from course.grading.gradebook import GRADER_FAULT, LearnerResult, Weights
from course.grading.instructions import read_map, read_policy, read_roster, read_weights
from course.grading.job import Plan, course_digest, lacking_device
from course.grading.pools import DaskPool, Pool, ProcessPool, processes_that_fit
from course.grading.reports.lms_tables import named_as, submission_of
from course.grading.reports.returning import Returned
from course.grading.run import ClassRun, InUse, grade_all, remember, seed_of, sole_use
from course.grading.sandbox import NoSandbox, open_sandbox
from course.grading.submission.archives import ARCHIVES
from course.grading.submission.names import ANSWERS, matches
from course.grading.submission.sources import UNCLEAR, Source, attributed, find_sources
from course.judging.messages import Feedback
from course.terminal import display
from course.terminal.arguments import Device, listed_days

SAID = {
    "graded": "quiet",
    "nothing_found": "in_progress",
    "refused": "in_progress",
    "grader_fault": "failed",
}
MAX_NAMED = 10  # learners in a sentence
# How much learners learn about failures (see `Feedback`).
FeedbackLevel = enum.StrEnum("FeedbackLevel", ["full", "discreet", "verdict"])


def share(text: str) -> Fraction:
    """A part of a whole, such as `0.2` or `1/5`."""
    try:
        part = Fraction(text)
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise typer.BadParameter(f"'{text}' must be a number from 0 to 1, such as 0.2.")
    return part


def _file(says: str, *names: str) -> Any:
    """Return an option that takes an instructor's file."""
    return typer.Option(*names, exists=True, dir_okay=False, metavar="FILE", help=says)


Submissions = Annotated[
    Path,
    typer.Argument(
        exists=True,
        metavar="SUBMISSIONS",
        help="A folder with a folder or an archive for each learner, or a download from Canvas, Moodle, "
        "Brightspace or Blackboard.",
    ),
]
Out = Annotated[
    Path, typer.Option(file_okay=False, metavar="DIR", help="The folder for the reports.")
]
GradedDays = Annotated[
    str | None, typer.Option(metavar="DAYS", help="Such as 8, 1-7 or 1-3,8; by default all days.")
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Number of submissions graded at once; by default one for each core."),
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Random seed of the inputs; by default fresh and secret.")
]
OnDevice = Annotated[Device, typer.Option(help="The device on which PyTorch days run.")]
Resume = Annotated[bool, typer.Option(help="Keep the grades of files that have not changed.")]
WeightsFile = Annotated[Path | None, _file("YAML with points by day: `8: 2`.")]
Watertight = Annotated[
    Fraction,
    typer.Option(
        parser=share,
        metavar="SHARE",
        help="The part of an exercise's points, from 0 to 1, that its watertight checks earn.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    _file(
        "YAML: `late`, the share of its points that a late day loses; `excused`, a list of learners; "
        "`points`, which replace the computed points: `{jane_12: 7.5}`."
    ),
]
NamesFile = Annotated[
    Path | None,
    _file(
        "YAML: the day of an oddly named file or of a pattern, `hw2*.py: day02_attention.py`, or the learner "
        "of a submission.",
        "--map",
    ),
]
RosterFile = Annotated[
    Path | None, _file("CSV with `id,name,group`: who is in the class, and in which group.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler whose machines grade.")
]
HowMuch = Annotated[
    FeedbackLevel,
    typer.Option(
        metavar="HOW",
        help="full (with the checks' numbers), discreet (without them), or verdict (only which checks "
        "pass).",
    ),
]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe", help="Grade without a sandbox: only for submissions that you trust."),
]


def grade(
    submissions: Submissions,
    out: Out,
    days: GradedDays = None,
    jobs: Jobs = None,
    seed: Seed = None,
    device: OnDevice = Device.cpu,
    resume: Resume = True,
    weights: WeightsFile = None,
    watertight: Watertight = Fraction(0),
    policy: PolicyFile = None,
    names: NamesFile = None,
    roster: RosterFile = None,
    cluster: Scheduler = None,
    feedback: HowMuch = FeedbackLevel.discreet,
    unsafe: Unsafe = False,
) -> None:
    """Grade a class, in sandboxes.

    Exit 0 if every submission was judged, 1 if the grader itself failed, 2 for a usage error.
    """
    console = display.console()
    chosen = listed_days(days) if days else [day for day in DAYS if day.ready]
    _device(device, cluster)
    if out.resolve().is_relative_to(submissions.resolve()):
        raise typer.BadParameter("The reports cannot go into the folder of the submissions.")
    try:
        with sole_use(out):
            lacking = _missing_protections(unsafe, console) if unsafe or cluster is None else []
            points = Weights(
                chosen,
                _valid("--weights", read_weights, weights, chosen) if weights else None,
                watertight,
                _valid("--policy", read_policy, policy) if policy else None,
            )
            files, learners = _valid("--map", read_map, names) if names else ({}, {})
            members = _valid("--roster", read_roster, roster) if roster else []
            sources = _valid("--map", attributed, _valid(None, find_sources, submissions), learners)
            plan = Plan(
                days=tuple(day.number for day in chosen),
                seed=_valid("--seed", seed_of, out, seed, resume),
                device=device.value,
                unsafe=unsafe,
                edition=course_digest(),
                feedback=Feedback(feedback),
                names=tuple(sorted(files.items())),
            )
            run = ClassRun(out, plan, points, sources, members)
            remember(out, plan)
            with _pool(cluster, jobs, device) as pool, _shown(console, len(run.sources)) as done:
                _print_bound(console, run, pool.width)
                grade_all(run, pool, resume, done)
            aside, gone = run.put_aside(datetime.now(UTC))
            graded, returned = run.report(lacking)
    except InUse as error:
        raise typer.BadParameter(f"{error}.") from error
    except OSError as error:
        raise typer.BadParameter(f"{error.filename or out}: {error.strerror or error}.") from error
    except KeyboardInterrupt:
        console.print("Stopped. Finished grades are kept: the same command resumes from here.")
        raise typer.Exit(1) from None
    failed = _print_summary(console, out, graded.results)
    for words in notes(run, files, returned):
        console.print(display.safe(words.replace("\n", " ")))
    if gone:
        who = "a learner" if gone == 1 else f"{gone} learners"
        words = f"An earlier run's reports on {who} no longer in this class are now in {aside}."
        console.print(Text(words, "in_progress"))
    raise typer.Exit(1 if failed else 0)


T = TypeVar("T")


def _valid(option: str | None, read: Callable[..., T], *arguments: object) -> T:
    """Return what a function reads; what it refuses is a usage error of the option."""
    try:
        return read(*arguments)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _device(device: Device, cluster: str | None) -> None:
    """Refuse a device that is not here: every check on it would be skipped, and earn nothing."""
    # A cluster's machines have their own.
    lacking = lacking_device(device) if cluster is None else None
    if lacking:
        raise typer.BadParameter(f"Device '{device}': {lacking}. Nothing was graded or written.")


def _missing_protections(unsafe: bool, console: Console) -> list[str]:
    """Return what the sandbox lacks on this machine. Refuse to grade without a sandbox."""
    if unsafe:
        words = "Without a sandbox, every submission can read, write and send all that you can."
        console.print(Text(words, "failed"))
        return [words]
    try:
        with open_sandbox() as sandbox:
            return sandbox.missing
    except NoSandbox as error:
        raise typer.BadParameter(
            f"There is no sandbox here. {error} Use --unsafe only for submissions that you trust."
        ) from error


@contextlib.contextmanager
def _pool(cluster: str | None, jobs: int | None, device: Device) -> Iterator[Pool]:
    if cluster is None:
        with contextlib.closing(ProcessPool(jobs or processes_that_fit())) as pool:
            yield pool
        return
    try:
        connected = DaskPool(cluster, device)
    except ImportError as error:
        raise typer.BadParameter("--cluster needs Dask: pip install -e '.[cluster]'.") from error
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"No Dask scheduler answers at {cluster}: {error}") from error
    with contextlib.closing(connected) as pool:
        yield pool


@contextlib.contextmanager
def _shown(console: Console, total: int) -> Iterator[Callable[[LearnerResult, bool], None]]:
    """Show results as they come: in a progress bar in a terminal, otherwise a line each."""
    description = TextColumn("[progress.description]{task.description}")
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    task = progress.add_task("Grading", total=total)
    count = 0

    def done(result: LearnerResult, reused: bool) -> None:
        nonlocal count
        count += 1
        progress.advance(task)
        if not console.is_terminal or result.verdict != "graded":
            console.print(_line(f"{count}/{total}", result, reused))

    with progress:
        try:
            yield done
        except KeyboardInterrupt:
            console.print("Stopping once the submissions in progress are done.")
            raise


def _line(count: str, result: LearnerResult, reused: bool) -> Text:
    passed = sum(day["status"] == "passed" for day in result.days)
    stars = sum(day["watertight"] for day in result.days)
    days = f"{passed} of {len(result.days)} days passed, {stars} watertight"
    words = {
        "graded": days + (", graded before" if reused else ""),
        "nothing_found": "nothing found to grade: the learner's page says what was found",
        "refused": f"refused: {result.reason}",
        "grader_fault": f"not graded, through no fault of the learner: {result.reason}",
    }[result.verdict]
    who = display.safe(result.learner.replace("\n", " "))
    return Text.assemble(
        (f"{count:>9}  ", "quiet"), who, "  ", (str(display.safe(words)), SAID[result.verdict])
    )


def _print_summary(console: Console, out: Path, results: Iterable[LearnerResult]) -> int:
    """Print how many submissions ended how, and where the reports are. Returns with how many the grader
    failed."""
    verdicts, unseen, lost = Counter[str](), 0, 0
    for result in results:
        verdicts[result.verdict] += 1
        unseen += result.unseen
        lost += result.lost_day
    counts = [
        (verdicts["nothing_found"], "with nothing to grade"),
        (verdicts["refused"], "refused"),
        (verdicts["grader_fault"], "not graded because the grader failed: run it again"),
        (lost, "with a day on which the grader failed"),
        (unseen, "with files that could not be searched"),
    ]
    parts = [f"{verdicts['graded']} graded", *(f"{n} {what}" for n, what in counts if n)]
    console.print(", ".join(parts) + ".")
    where = f"Gradebook: {out / 'grades.csv'}   Report: {out / 'report.html'}"
    console.print(Text(f"{where}   Python {platform.python_version()}", "quiet"))
    return verdicts[GRADER_FAULT] + lost


def _print_bound(console: Console, run: ClassRun, width: int) -> None:
    """Print how long grading can take at most."""
    most = f"This takes {run.longest(width):.1f} hours at most on an idle machine, {width} at once"
    console.print(Text(f"{most}, if every submission uses all of its time.", "quiet"))


def notes(run: ClassRun, files: Mapping[str, str], returned: Sequence[Returned]) -> Iterator[str]:
    """Yield what an instructor should know of the class beside the verdicts, a sentence or two each."""
    for path, without in returned:
        yield f"To hand back: {path}"
        if without:
            yield f"It has no page for {_first(without)}, who handed in no file: see feedback/."
    doubts = list(_doubts(run.sources))
    yield from doubts[:MAX_NAMED]
    if len(doubts) > MAX_NAMED:
        yield f"And {len(doubts) - MAX_NAMED} more: see the report."
    lines = unused(files, run.results()) if files else []
    if lines:
        yield f"--map has lines that fit no file: {_first(lines)}."
    systems = {source.learner: source.system for source in run.sources}
    missing = [
        member.name or member.id for member in run.roster if submission_of(member, systems) is None
    ]
    if missing:
        words = f"{len(missing)} of {len(run.roster)} in the roster handed in nothing"
        yield f"{words}: {_first(missing)} (roster.csv)."
    named = run.weights.policy.named
    if unknown := sorted(named - {*systems, *(named_as(member, named) for member in run.roster)}):
        yield f"--policy names {_first(unknown)}, but no submission or roster has that name."


def _doubts(sources: Sequence[Source]) -> Iterator[str]:
    """Yield the submissions whose learner is unclear, or that may be two learners' or one learner's."""
    learners = {source.learner for source in sources}
    for source in sources:
        if source.unclear:
            yield (
                f"It is unclear whose submission {source.learner.removeprefix(UNCLEAR)} is: "
                f"{' or '.join(source.unclear)}. It was graded separately."
            )
        if source.numbers:
            yield (
                f"{source.learner} handed in under the numbers {_first(source.numbers)}, and the newest "
                "files count. If these are two people, rename a folder."
            )
        for beside in sorted(learners & {f"{source.learner}{ending}" for ending in ARCHIVES}):
            yield (
                f"{source.learner} and {beside} are in the class: if they are one learner's, remove one "
                "of them."
            )


def unused(files: Iterable[str], results: Iterable[LearnerResult]) -> list[str]:
    """Return the lines of the instructor's map that fit no file."""
    paths = (note.path for result in results for note in (*result.taken, *result.ignored))
    names = {path.rpartition("/")[2] for path in paths} - ANSWERS
    return [line for line in files if not any(matches(name, line) for name in names)]


def _first(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
