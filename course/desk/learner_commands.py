"""The learner's commands: the board, check, watch, hint, recall, reset, lesson, solution."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from course.checks.answer_files import find_answer
from course.checks.cases import names_like, snippet, steps
from course.curriculum import DAYS, ROOT, Day
from course.desk import recalling
from course.desk.board import board as board_
from course.desk.board import board_svg
from course.desk.hints import give_back, next_hint
from course.desk.jupyter import JupyterFailed, serve
from course.desk.progress import all_results, next_day
from course.desk.state import belongs_on_board, keep_result, kept_result, passed_days
from course.desk.verdicts import LOOKING, diagnoses, outcome_of, verdict
from course.desk.verdicts import case as case_
from course.desk.verdicts import hint as hint_
from course.desk.waiting import Waiting
from course.desk.watching import Watch
from course.judging.digests import verdict_digest
from course.judging.recorded import NotRecorded
from course.judging.results import CheckResult, DayResult, report_json
from course.references.editions import graders_python, stub_of
from course.references.lessons import times
from course.references.stub_digests import is_untouched
from course.terminal import display
from course.terminal.arguments import (
    EXERCISES,
    Answers,
    AsJson,
    Days,
    Device,
    OneDay,
    OneDayOrNext,
    Seed,
    complete_day,
    day_argument,
    days_argument,
)
from course.workers.checking import PendingVerdict, check_days


def board(svg: Path | None = None) -> None:
    """Show which days pass, and what is next; or write it as a picture."""
    console, results = display.console(), all_results()
    if svg is None:
        console.print(board_(results, console))
        passed = [result.day for result in results.values() if result.status == "passed"]
        if due := recalling.due(passed, date.today()):
            console.print(Text(f"Due: three questions (course recall {due[-1].number})", "bold"))
        return
    with display.writing(svg):
        svg.write_text(board_svg(results), encoding="utf-8")
    console.print(f"The board is in {display.shown(svg)}.")


def check(
    days: Annotated[
        list[Days] | None,
        typer.Argument(
            parser=days_argument,
            metavar="DAY",
            help="8, day08, 8-14, 1-3,8 or a topic such as decoder; by default all",
            autocompletion=complete_day,
        ),
    ] = None,
    answers: Answers = EXERCISES,
    device: Annotated[Device, typer.Option(help="Where PyTorch days are checked.")] = Device.cpu,
    seed: Seed = 0,
    case: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Show one check of one day, and Python that draws its inputs.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check days once.

    Exit 0 if every day passes, 1 if one does not, 2 for a usage error.
    """
    chosen = list(chain(*days)) if days else [day for day in DAYS if day.ready]
    if case is not None:
        if len(chosen) != 1 or as_json:
            raise typer.BadParameter(
                "--case shows one check of one day: course check 8 --case scale"
            )
        raise typer.Exit(_show_case(chosen[0], case, answers, device.value, seed))
    console = display.console(stderr=as_json)
    marks = {day: verdict_digest(day, find_answer(day, answers)) for day in chosen}
    results: list[DayResult] = []

    try:
        for checked in check_days(chosen, answers, seed, device.value, Waiting.on(console)):
            if as_json:
                result = checked.finish()
                if not all(search.done for search in checked.searches):
                    print(outcome_of(checked.searches, result), file=sys.stderr)
            else:
                result = _print_and_finish(console, checked, device, seed)
            results.append(result)
            if belongs_on_board(answers, seed, device.value):
                keep_result(result, marks[result.day])
    except NotRecorded as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        print(json.dumps(report_json(results), ensure_ascii=False))
    if newer := graders_python():
        console.print(Text(f"  {newer}", "quiet"))
    raise typer.Exit(0 if all(result.status == "passed" for result in results) else 1)


def _print_and_finish(
    console: Console, checked: PendingVerdict, device: Device, seed: int
) -> DayResult:
    """Print the verdict, and what the search for a diagnosis, which takes seconds, comes to.

    In a terminal the verdict is replaced by the one with the diagnosis in its place, if it fits the screen.
    """
    first = Group(*_verdict_lines(checked, device, seed))
    search, waited_for = checked.search, checked.awaits_practice
    if not waited_for and (search is None or search.done):
        console.print(first)
        return checked.result
    fits = len(console.render_lines(first, pad=False)) < console.height
    if console.is_terminal and fits:
        try:
            with Live(first, console=console, auto_refresh=False, transient=True):
                checked.finish()
        finally:
            console.print(verdict(checked.result, seed=seed))
    elif waited_for:  # one verdict, whose totals are final
        checked.finish()
        console.print(*_verdict_lines(checked, device, seed, checked.result), sep="\n")
    else:
        console.print(first)
        result = checked.finish()
        if any(check.misconception for check in result.checks):
            console.print(diagnoses(result))
    if words := outcome_of(checked.searches, checked.result):
        console.print(Text(f"  {words}", "quiet"))
    return checked.result


def _verdict_lines(
    checked: PendingVerdict, device: Device, seed: int, result: DayResult | None = None
) -> Iterator[RenderableType]:
    """The verdict, the first if no later one is given, and whether a diagnosis is still searched."""
    yield verdict(result or checked.verdict, seed=seed)
    if device is not Device.cpu and not checked.verdict.asks_of(device.value):
        where = f"no check of day {checked.verdict.day.number} can run on {device}."
        yield Text(f"  Checked on the CPU: {where}", "quiet")
    if checked.search is not None and not checked.search.done and checked.verdict.is_puzzling:
        yield Text(f"  {LOOKING}", "quiet")


def watch(
    day: OneDayOrNext = None,
    answers: Answers = EXERCISES,
    device: Annotated[Device, typer.Option(help="Where a PyTorch day is checked.")] = Device.cpu,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check a day now and at every save."""
    try:
        Watch(day or next_day(), answers, display.console(), as_json, seed, device.value).run()
    except NotRecorded as error:
        raise typer.BadParameter(str(error)) from error


def hint(
    day: OneDay,
    exercise: Annotated[
        str | None,
        typer.Argument(
            metavar="EXERCISE",
            help="An exercise of the day; by default the first that does not pass.",
        ),
    ] = None,
) -> None:
    """Show one more hint each time; the last hint is nearly the answer."""
    if exercise is not None and exercise not in day.exercises:
        raise typer.BadParameter(
            f"Day {day.number} has no exercise '{exercise}': it has {', '.join(day.exercises)}."
        )
    last = kept_result(day)
    chosen = exercise or (last.next_exercise if last else day.exercises[0])
    wrong = last.wrong_in(chosen) if last else None
    if last is not None and last.status == "passed":
        display.console().print(Text(f"Day {day.number} has passed.", "passed"))
    display.console().print(hint_(day, chosen, *next_hint(day, chosen), wrong), crop=False)
    remaining = [name for name in day.exercises if name != chosen]
    if exercise is None and remaining:
        display.console().print(
            Text(f"Other exercises: course hint {day.number} {' | '.join(remaining)}", "quiet")
        )


def recall(
    day: Annotated[
        Day | None,
        typer.Argument(
            parser=day_argument,
            metavar="DAY",
            help="8, day08 or a topic; by default the last lesson whose questions are due",
            autocompletion=complete_day,
        ),
    ] = None,
) -> None:
    """Ask the three questions of the last lesson, the day after; Enter shows an answer.

    The questions return after 3, 7 and 21 days.
    """
    console, today = display.console(), date.today()
    due = [scheduled for scheduled, when in recalling.scheduled().items() if when <= today]
    chosen = day or (due or _unscheduled(today))[-1]
    wait = None
    if sys.stdin.isatty() and console.is_terminal:

        def wait() -> object:
            return console.input("  Enter shows the answer. ")

    try:
        recalling.ask(chosen, console, wait)
    except (EOFError, KeyboardInterrupt):
        console.print("\nStopped: these questions keep their date.")
        raise typer.Exit(1) from None
    console.print(f"Next time: {_on(recalling.asked(chosen, today))}")
    rest = [str(other.number) for other in due if other != chosen]
    if rest:
        console.print(f"Also due: day {', '.join(rest)} (course recall {rest[-1]})")


def _unscheduled(today: date) -> list[Day]:
    """The days to ask where none is due: those that pass. Ends if there is none, or a date to come."""
    console, coming = display.console(), recalling.scheduled()
    if coming:
        first = min(coming, key=coming.__getitem__)
        console.print(f"Nothing is due today. Next: day {first.number}, {_on(coming[first])}")
        console.print(f"To answer its questions now: course recall {first.number}")
        raise typer.Exit
    if not (passed := passed_days()):
        console.print("Open a lesson first (course lesson 1), or name a day: course recall 1")
        raise typer.Exit
    return passed


def _on(when: date) -> str:
    return f"{when:%A}, {when.day} {when:%B %Y}"


def reset(day: OneDay) -> None:
    """Restore the day's stub, and start its hints over. Your file is kept, and the command says where."""
    console = display.console()
    if give_back(day):
        console.print("The hints start over with the first.")
    if day.stub.exists() and is_untouched(day, day.stub):
        console.print(f"{display.shown(day.stub)} is already the stub.")
        return
    backup = _keep_aside(day.stub) if day.stub.exists() else None
    with display.writing(day.stub):
        day.stub.write_text(stub_of(day), encoding="utf-8", newline="\n")
    console.print(
        f"{display.shown(day.stub)} is the stub again."
        + (f" Your file is kept as {display.shown(backup)}." if backup else "")
    )


def lesson(day: OneDayOrNext = None) -> None:
    """Open a copy of the day's lesson, to run and to change."""
    day = day or next_day()
    recalling.begin(day, date.today())
    if day.lesson.exists():
        display.console().print(Text(str(times(day)).replace("*", ""), "quiet"))
    _open_copy(day, day.lesson, _without_outputs)


def solution(day: OneDay) -> None:
    """Open a copy of the day's worked answer."""
    _open_copy(day, day.solution, lambda notebook: None)


# --- What several commands need -------------------------------------------------------------------


def _show_case(day: Day, check_name: str, answers: Path, device: str, seed: int) -> int:
    """Show one check, the first that fails of those that a name means. Returns the exit code."""
    try:
        [checked] = check_days([day], answers, seed, device)
    except NotRecorded as error:
        raise typer.BadParameter(str(error)) from error
    results: dict[str, CheckResult] = {}
    for check in checked.finish().checks:  # the practice GPU counts where the CPU passes
        if check.name not in results or (check.is_open and not check.repeats):
            results[check.name] = check
    try:
        names = names_like(check_name, day, list(results))
    except LookupError as error:
        raise typer.BadParameter(str(error)) from error
    chosen = next((name for name in names if results[name].is_open), names[0])
    console = display.console()
    console.print(case_(results[chosen]))
    for title, lines in (
        ("The same inputs in Python", snippet(day, chosen, seed, results[chosen].device)),
        (
            f"What {display.shown(day.checks)} does with them; `answer` is your file",
            steps(day, chosen),
        ),
    ):
        console.print(Text(f"\n{title}:\n", "quiet"))
        console.print(Text(textwrap.indent(lines, "    ")), soft_wrap=True)  # to be copied
    return 0 if results[chosen].status == "passed" else 1


def _keep_aside(path: Path) -> Path:
    """Move a file out of the way under a name of its own."""
    folder = ROOT / "my" / "kept"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = folder / f"{path.stem}-{stamp}{path.suffix}"
    count = 1
    while target.exists():
        count += 1
        target = folder / f"{path.stem}-{stamp}-{count}{path.suffix}"

    if not os.access(path, os.R_OK):
        display.fail(
            f"{display.shown(path)} cannot be read, so it cannot be kept. Nothing was changed."
        )
    with display.writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return target


def _open_copy(day: Day, notebook: Path, prepare: Callable[[dict[str, Any]], None]) -> None:
    """Open one's own copy of a notebook under `my/`, so that later pulls never conflict with it.

    Args:
        day: the day that the notebook is about.
        prepare: changes what is copied.
    """
    if not notebook.exists():
        display.fail(
            f"{display.shown(notebook)} is not in this edition: day {day.number} is not released."
        )
    copy = ROOT / "my" / notebook.relative_to(ROOT)

    console = display.console()
    content = json.loads(notebook.read_bytes())
    prepare(content)
    _link(content, day, notebook.parent, copy.parent)
    fresh = (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
    if not copy.exists():
        with display.writing(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(fresh)
    elif copy.read_bytes() != fresh:
        console.print(
            f"You have worked in this copy. To start over, delete it: {display.shown(copy)}"
        )
    console.print(f"Your copy: {display.shown(copy)}")
    console.print(
        f"The exercise: {display.shown(day.stub)}, checked by `course watch {day.number}`"
    )
    if os.environ.get("COURSE_NO_BROWSER", "0") not in ("", "0"):
        console.print(Text("Jupyter is not started: COURSE_NO_BROWSER is set.", "quiet"))
    elif sys.stdout.isatty():
        try:
            serve(copy, lambda line: console.print(Text(line), soft_wrap=True))
        except JupyterFailed as error:
            display.fail(f"Jupyter could not start, or ended with an error:\n{error}")


def _without_outputs(content: dict[str, Any]) -> None:
    """Remove a notebook's outputs, which would answer the questions that ask for a prediction."""
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}


def _link(content: dict[str, Any], day: Day, folder: Path, new: Path) -> None:
    """Have a copy's links lead to the same files from its new folder, and the exercise's name to the stub."""

    def moved(link: re.Match[str]) -> str:
        path, target = (folder / link[1]).resolve(), link[1]
        return f"]({_relative(path, new)})" if path.is_file() else f"]({target})"

    stub = f"`exercises/{day.stub.name}`"
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            text = re.sub(r"\]\(([\w./-]+)\)", moved, "".join(cell["source"]))
            text = text.replace(stub, f"[{stub}]({_relative(day.stub, new)})")
            cell["source"] = text.splitlines(keepends=True)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
