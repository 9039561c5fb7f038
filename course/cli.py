"""The `course` command."""

from __future__ import annotations

import enum
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from course import display
from course.answers import find_answer
from course.curriculum import DAYS, ROOT, Day, NoSuchDay, find_day
from course.recorded import WHOLE, NotRecorded
from course.results import DayResult, report_json

app = typer.Typer(
    help="Forty days from a softmax to a Transformer. Without a command: the board.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
EXERCISES = ROOT / "exercises"


class Device(enum.StrEnum):
    """Where checks of PyTorch days run. NumPy knows the CPU alone."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


def day_argument(asked: str) -> Day:
    """A day that is there, from what was typed."""
    try:
        day = find_day(asked)
    except NoSuchDay as error:
        raise typer.BadParameter(str(error)) from error
    if not day.ready:
        last = [other.number for other in DAYS if other.ready][-1]
        raise typer.BadParameter(
            f"Day {day.number} ({day.title}) is not there yet: days 1 to {last} are."
        )
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


@app.callback(invoke_without_command=True)
def board(context: typer.Context) -> None:
    """Forty days from a softmax to a Transformer. Without a command: the board."""
    if context.invoked_subcommand is None:
        console = display.console()
        console.print(display.board(_all_results(), console))


@app.command()
def check(
    days: Annotated[
        list[Day] | None,
        typer.Argument(
            parser=day_argument,
            metavar="[DAY]...",
            help="8, day08 or a topic such as decoder; all if left out",
        ),
    ] = None,
    answers: Answers = EXERCISES,
    device: Annotated[Device, typer.Option(help="Where PyTorch days are checked.")] = Device.cpu,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check days once. Exit 0 if all that was asked for passes, 1 if not, 2 if it could not be asked."""
    from course.checking import check_day
    from course.judge import Judge
    from course.state import belongs_on_board, fingerprint, keep_result
    from course.workers import Pool

    wanted = days or [day for day in DAYS if day.ready]
    console = display.console(stderr=as_json)
    results: list[DayResult] = []
    try:
        judges = [Judge(day, seed, device.value) for day in wanted]
    except NotRecorded as error:
        raise typer.BadParameter(str(error)) from error
    with Pool(spares=min(2, len(wanted)), torch_on=judges[0].torch_on) as pool:
        for index, (day, judge) in enumerate(zip(wanted, judges, strict=True)):
            mark = fingerprint(day, find_answer(day, answers))
            result = check_day(judge, answers, pool)
            results.append(result)
            if len(wanted) - index > 2:
                pool.refill()
            if belongs_on_board(answers, seed, device.value):
                keep_result(result, mark)
            if not as_json:
                console.print(display.verdict(result))
    if as_json:
        print(json.dumps(report_json(results), ensure_ascii=False))
    raise typer.Exit(0 if all(result.status == "passed" for result in results) else 1)


@app.command()
def watch(
    day: Annotated[
        Day | None,
        typer.Argument(
            parser=day_argument,
            metavar="[DAY]",
            help="8, day08 or a topic; the next that does not pass if left out",
        ),
    ] = None,
    answers: Answers = EXERCISES,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check a day now and at every save."""
    from course.watching import Watch

    try:
        Watch(day or _next_day(), answers, display.console(), as_json, seed).run()
    except NotRecorded as error:
        raise typer.BadParameter(str(error)) from error


@app.command(hidden=not WHOLE)
def assemble(answers: Answers = EXERCISES) -> None:
    """A Transformer of your own parts, trained to copy. Exit 0 if it copies all that it never saw."""
    from course import graduation
    from course.assembly import assemble as run
    from course.workers import NotStarted, WorkerStopped

    console = display.console()
    try:
        with graduation.training(console) as report:
            result = run(answers, report)
    except (WorkerStopped, NotStarted) as stop:
        _fail(str(stop))
    console.print(graduation.report(result))
    if result.attention:
        picture = ROOT / "my" / "assembled.png"
        _write(lambda: graduation.draw(result.attention, picture), picture)
        console.print(Text(f"Every layer and head: {_shown(picture)}", "quiet"))
    console.print(graduation.verdict(result))
    raise typer.Exit(0 if result.exact == 1.0 else 1)


@app.command()
def hint(
    day: OneDay,
    exercise: Annotated[
        str | None, typer.Argument(help="Which exercise of the day; the first if left out.")
    ] = None,
) -> None:
    """One more hint each time; the last is nearly the answer."""
    from course.hints import next_hint

    if exercise is not None and exercise not in day.exercises:
        raise typer.BadParameter(
            f"Day {day.number} has no exercise '{exercise}': it has {', '.join(day.exercises)}."
        )
    chosen = exercise or day.exercises[0]
    display.console().print(display.hint(day, chosen, *next_hint(day, chosen)))
    others = [name for name in day.exercises if name != chosen]
    if exercise is None and others:
        display.console().print(
            Text(f"Other exercises: course hint {day.number} {' | '.join(others)}", "quiet")
        )


@app.command()
def reset(day: OneDay) -> None:
    """The day's stub again. The old file is kept, and named."""
    from course.recorded import stub_of
    from course.sync import is_untouched

    console = display.console()
    if day.stub.exists() and is_untouched(day, day.stub):
        console.print(f"{_shown(day.stub)} is the stub already.")
        return
    kept = _keep_aside(day.stub) if day.stub.exists() else None
    _write(lambda: day.stub.write_text(stub_of(day), encoding="utf-8", newline="\n"), day.stub)
    console.print(
        f"{_shown(day.stub)} is the stub again."
        + (f" Your file is kept as {_shown(kept)}." if kept else "")
    )


@app.command()
def lesson(day: OneDay) -> None:
    """Open a copy of the day's lesson, yours to change."""
    _open_copy(day.lesson)


@app.command()
def solution(day: OneDay) -> None:
    """Open a copy of the day's worked answer."""
    _open_copy(day.solution)


@app.command()
def doctor() -> None:
    """What this machine has, and what would be missing."""
    from course.doctor import findings

    table = Table.grid(padding=(0, 2))
    missing = 0
    for finding in findings():
        missing += finding.fine is False
        mark = {True: Text("✔", "passed"), False: Text("✘", "failed"), None: Text("·", "quiet")}[
            finding.fine
        ]
        table.add_row(mark, finding.what, display.safe(finding.found))
    console = display.console()
    console.print(table)
    console.print(
        Text(
            "All that is needed is there." if not missing else f"{missing} missing, marked ✘.",
            "bold",
        )
    )
    raise typer.Exit(1 if missing else 0)


@app.command(hidden=not WHOLE)
def bundle(
    out: Annotated[
        Path, typer.Option(file_okay=False, metavar="DIR", help="A folder that is not there yet.")
    ],
    through: Annotated[
        int,
        typer.Option(min=0, max=len(DAYS), metavar="DAY", help="The last day that is released."),
    ] = 0,
) -> None:
    """Write the student edition: no reference and no solutions of days after DAY."""
    from course.bundle import bundle as write

    console = display.console()
    if out.resolve().is_relative_to(ROOT):
        raise typer.BadParameter("The edition must lie outside the course.", param_hint="--out")
    try:
        write(out, through, lambda day: console.print(f"Recording day {day.number}"))
    except OSError as error:
        raise typer.BadParameter(f"{error}", param_hint="--out") from error
    console.print(f"The student edition is in {out}: released through day {through}.")


@app.command(hidden=not WHOLE)
def sync(
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if something has drifted.")
    ] = False,
) -> None:
    """Write stubs and solution cells from the references; what someone has begun is left alone."""
    from course.sync import sync as run

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


if WHOLE:
    from course import runs
    from course.grading.command import grade

    for command in (
        grade,
        runs.train,
        runs.translate,
        runs.generate,
        runs.evaluate,
        runs.attention,
    ):
        app.command()(command)


# --- What several commands need -------------------------------------------------------------------


def _all_results() -> dict[int, DayResult]:
    """The verdict on every day that is there: remembered, where the file has not changed since."""
    from course.recorded import stub_of
    from course.state import fingerprint, keep_result, kept_result

    results: dict[int, DayResult] = {}
    stale: list[tuple[Day, str]] = []
    for day in (day for day in DAYS if day.ready):
        mark = fingerprint(day, find_answer(day, EXERCISES))
        if day.stub.exists() and day.stub.read_bytes() == stub_of(day).encode():
            results[day.number] = _untouched(day)
        elif (kept := kept_result(day, mark)) is not None:
            results[day.number] = kept
        else:
            stale.append((day, mark))
    if stale:
        from course.checking import check_day
        from course.judge import Judge
        from course.workers import Pool

        with Pool(spares=min(2, len(stale))) as pool:
            for index, (day, mark) in enumerate(stale):
                results[day.number] = check_day(Judge(day), EXERCISES, pool)
                keep_result(results[day.number], mark)
                if len(stale) - index > 2:
                    pool.refill()
    return dict(sorted(results.items()))


def _untouched(day: Day) -> DayResult:
    from course.results import CheckResult

    checks = tuple(CheckResult(name, name, "not_started") for name in day.exercises)
    return DayResult(day, checks, begun=False)


def _next_day() -> Day:
    results = _all_results()
    return next((result.day for result in results.values() if result.status != "passed"), DAYS[0])


def _keep_aside(path: Path) -> Path:
    """Move a file out of the way under a name of its own."""
    folder = ROOT / "my" / "kept"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = folder / f"{path.stem}-{stamp}{path.suffix}"
    count = 1
    while target.exists():
        count += 1
        target = folder / f"{path.stem}-{stamp}-{count}{path.suffix}"

    def move() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)

    _write(move, target)
    return target


def _open_copy(notebook: Path) -> None:
    """Open one's own copy of a notebook under `my/`, so that later pulls never conflict with it."""
    if not notebook.exists():
        _fail(f"{_shown(notebook)} is not there yet.")
    copy = ROOT / "my" / notebook.relative_to(ROOT)

    def make() -> None:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(notebook, copy)

    console = display.console()
    if not copy.exists():
        _write(make, copy)
    elif copy.read_bytes() != notebook.read_bytes():
        console.print(
            f"This is the copy you have worked in. To begin anew, delete it: {_shown(copy)}"
        )
    console.print(f"Your copy: {_shown(copy)}")
    if sys.stdout.isatty() and "COURSE_NO_BROWSER" not in os.environ:
        console.print(Text("Ctrl-C here ends it.", "quiet"))
        subprocess.run([sys.executable, "-m", "jupyter", "lab", str(copy)], check=False)


def _write(action: Callable[[], object], path: Path) -> None:
    try:
        action()
    except OSError as error:
        _fail(f"{_shown(path)} cannot be written: {error.strerror}. Nothing was changed.")


def _fail(words: str) -> None:
    display.console(stderr=True).print(Text(words, "failed"))
    raise typer.Exit(1)


def _shown(path: Path | None) -> str:
    return str(path.relative_to(ROOT)) if path and path.is_relative_to(ROOT) else str(path)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # ✔ and √ on any terminal
    app()


if __name__ == "__main__":
    main()
