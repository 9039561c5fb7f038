"""How long a learner waits for a verdict and for a diagnosis.

For each day, five answers are saved in turn: a right one, one with a known mistake, one with an unknown
mistake, one with a misspelled name, and one that never ends. Warm is `course watch`: the time from the save
to the verdict, and to the diagnosis or the message that none is known; a known mistake is also the first
save, a few seconds after `course watch` has started. Cold is `course check` in a new process, with a full
cache and with an empty one.

    python benchmarks/feedback.py                 every day, three rounds
    python benchmarks/feedback.py --rounds 9 --days 2 14
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import frame
from rich.live import Live

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT, Day
from course.desk.verdicts import LOOKING, UNKNOWN
from course.judging.judge import Judge
from course.judging.misconceptions import load_misconceptions

BETWEEN_SAVES = 2.0  # seconds in which a learner reads the verdict, and spare workers warm up
FIRST_SAVES = (1.0, 3.0, 9.0)  # seconds after the verdict with which `course watch` starts
COLUMNS = ("watch: verdict", "watch: diagnosis", "check, cache full", "check, cache empty")
COURSE = [sys.executable, "-m", "course.cli"]

Waits = dict[str, list[list[float]]]
"""Seconds by the kind of answer, for each of `COLUMNS`."""

UNKNOWN_MISTAKE = """

def _odd(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_odd, value))
    if isinstance(value, str):
        return value[1:]
    kind = str(getattr(value, "dtype", type(value).__name__))
    if kind.endswith("bool"):
        return ~value
    if kind == "ModuleList":
        return value[:-1]
    if kind == "generator":
        return (one for one in list(value)[1:])
    return value * 1.37 if "float" in kind else value + 3 if "int" in kind else value


def _oddly(function):
    return lambda *arguments, **options: _odd(function(*arguments, **options))


def _made_oddly(initialize):
    def made(self, *arguments, **options):
        initialize(self, *arguments, **options)
        self.__dict__.update({{key: _odd(value) for key, value in self.__dict__.items()}})

    return made


if isinstance({name}, type):
    _names = {{"forward", "__call__", "encode", "decode"}} & set(vars({name}))
    for _name in _names:
        setattr({name}, _name, _oddly(getattr({name}, _name)))
    if not _names:
        {name}.__init__ = _made_oddly({name}.__init__)
else:
    {name} = _oddly({name})
"""
MISSPELLED = """

def _misspelled(*arguments, **options):
    return argument


{name} = _misspelled
"""
ENDLESS = """

def _endless(*arguments, **options):
    while True:
        pass


{name} = _endless
"""


def answers_of(day: Day) -> dict[str, str]:
    """Return a day's file, right and wrong in four ways."""
    right = read_answer(day.solution)
    mistake = load_misconceptions(day)[0]
    name = day.exercises[-1]
    return {
        "right": right,
        "known": f"{right}\n\n{mistake.text(day)}",
        "unknown": right + UNKNOWN_MISTAKE.format(name=name),
        "misspelled": right + MISSPELLED.format(name=name),
        "endless": right + ENDLESS.format(name=name),
    }


# --- Warm -----------------------------------------------------------------------------------------


@contextmanager
def watching(day: Day, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `course watch`, from its first verdict on."""
    command = [*COURSE, "watch", str(day.number), "--answers", str(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as watch:
        try:
            shown(watch)
            yield watch
        finally:
            watch.kill()


def shown(watch: subprocess.Popen[str]) -> tuple[float, float]:
    """Return the times at which the next verdict and the result of the search for a diagnosis were shown."""
    assert watch.stdout is not None
    looking, verdict = False, 0.0
    for line in watch.stdout:
        now = time.perf_counter()
        looking = looking or LOOKING in line
        if line.startswith(("Watching ", "Passed: ")):
            verdict = now
            if not looking:
                return verdict, verdict
        elif verdict and (UNKNOWN in line or "╰" in line):
            return verdict, now
    raise RuntimeError("course watch has ended")


def warm(watch: subprocess.Popen[str], file: Path, text: str) -> list[float]:
    """Return the seconds from a save to the verdict and to the diagnosis."""
    started = time.perf_counter()
    file.write_text(text, encoding="utf-8")
    waits = [at - started for at in shown(watch)]
    time.sleep(BETWEEN_SAVES)
    return waits


# --- Cold -----------------------------------------------------------------------------------------


def cold(day: Day, kind: str, folder: Path, cache: Path) -> float:
    """Return the seconds of `course check` in a process of its own.

    Raises:
        RuntimeError: the verdict is wrong for this kind of answer.
    """
    command = [*COURSE, "check", str(day.number), "--json", "--answers", str(folder)]
    environment = os.environ | {"COURSE_CACHE": str(cache)}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    seconds = time.perf_counter() - started
    report = json.loads(done.stdout)
    wrong = (
        report["total"]
        - report["passed"]
        + report["total_watertight"]
        - report["passed_watertight"]
    )
    if (wrong == 0) != (kind == "right"):
        raise RuntimeError(f"day {day.number}, {kind}: {wrong} checks did not pass")
    return seconds


def fill(day: Day) -> None:
    """Cache what diagnoses of the day and the next need, as `course watch` does when idle."""
    for near in (other for other in DAYS if 0 <= other.number - day.number <= 1):
        for _ in Judge(near).prepare():
            pass


# --- All of it ------------------------------------------------------------------------------------


def measure(day: Day, rounds: int, full: Path) -> Waits:
    """Return all waits of a day in seconds."""
    texts = answers_of(day)
    waits: Waits = {kind: [[] for _ in COLUMNS] for kind in texts}
    fill(day)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / f"{day.stem}.py"
        file.write_text(texts["right"], encoding="utf-8")
        with watching(day, file.parent) as watch:
            time.sleep(2 * BETWEEN_SAVES)
            for kind, text in [*texts.items()] * rounds:
                for column, wait in zip(waits[kind], warm(watch, file, text), strict=False):
                    column.append(wait)
        for after in FIRST_SAVES:
            first = waits[f"known, first save after {after:.0f} s"] = [[] for _ in COLUMNS]
            for _ in range(rounds):
                file.write_text(texts["right"], encoding="utf-8")
                with watching(day, file.parent) as watch:
                    time.sleep(after)
                    for column, wait in zip(first, warm(watch, file, texts["known"]), strict=False):
                        column.append(wait)
        for kind, text in [*texts.items()] * rounds:
            file.write_text(text, encoding="utf-8")
            with tempfile.TemporaryDirectory() as empty:
                for column, cache in zip(waits[kind][2:], (full, Path(empty)), strict=True):
                    column.append(cold(day, kind, file.parent, cache))
    return waits


def in_short(waits: list[float]) -> str:
    """Return the median and the 90th percentile, or a dash for what is not measured."""
    if not waits:
        return "–"
    ninth = sorted(waits)[max(0, -(-9 * len(waits) // 10) - 1)]
    return f"{statistics.median(waits):.2f} ({ninth:.2f})"


def main() -> None:
    """Measure the given days, and print a row for each day and kind of answer, and one for all."""
    parser = frame.options(__doc__, rounds=3)
    parser.add_argument("--days", type=int, nargs="*", help="all if left out")
    args = parser.parse_args()
    days = [day for day in DAYS if day.ready and (not args.days or day.number in args.days)]
    frame.show_machine()
    lines = frame.table(["day", "answer"], list(COLUMNS), "seconds: median (nine in ten)")
    everything: list[list[float]] = [[] for _ in COLUMNS]
    with (
        tempfile.TemporaryDirectory() as cache,
        Live(lines, console=frame.console, auto_refresh=False),
    ):
        os.environ["COURSE_CACHE"] = cache
        for day in days:
            for kind, times in measure(day, args.rounds, Path(cache)).items():
                lines.add_row(str(day.number), kind, *map(in_short, times))
                everything = [total + other for total, other in zip(everything, times, strict=True)]
        lines.add_row("all", "all", *map(in_short, everything))


if __name__ == "__main__":
    main()
