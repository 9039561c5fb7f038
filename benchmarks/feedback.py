"""How long a learner waits for a verdict and for a diagnosis.

For each day, four answers are saved in turn: a right one, one with a known mistake, one with an unknown
mistake, and one that raises. Warm is `course watch`: the time from the save to the verdict, and to the
diagnosis or the message that none is known. Cold is `course check` in a new process, with a full cache and
with an empty one. CPU is the time of `course watch` and its workers from one save to the next, including
the search for a diagnosis.

    python benchmarks/feedback.py                 every day, three rounds
    python benchmarks/feedback.py --warm          `course watch` alone
    python benchmarks/feedback.py --rounds 9 --days 2 14 --json feedback.json
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import frame
import psutil
from rich.live import Live

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT, Day
from course.desk.verdicts import LOOKING, UNKNOWN
from course.judging.judge import Judge
from course.judging.misconceptions import load_misconceptions

BETWEEN_SAVES = 2.0  # seconds in which a learner reads the verdict, and spare workers warm up
WARM = ("watch: verdict", "watch: diagnosis", "watch: CPU")
COLD = ("check, cache full", "check, cache empty")

COURSE = [sys.executable, "-m", "course.cli"]

Waits = dict[str, dict[str, list[float]]]
"""Seconds by the kind of answer and the column."""

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
RAISING = """

def _raises(*arguments, **options):
    raise ValueError("no such thing")


{name} = _raises
"""


def answers_of(day: Day) -> dict[str, str]:
    """Return a day's file, right and wrong in three ways."""
    right = read_answer(day.solution)
    known = load_misconceptions(day)[0]
    name = day.exercises[-1]
    return {
        "right": right,
        "known": f"{right}\n\n{known.text(day)}",
        "unknown": right + UNKNOWN_MISTAKE.format(name=name),
        "raises": right + RAISING.format(name=name),
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


def warm(watch: subprocess.Popen[str], file: Path, text: str) -> tuple[float, float, float]:
    """Return seconds from a save to the verdict and to the diagnosis, and CPU seconds up to the next save."""
    started, spent = time.perf_counter(), computed(watch.pid)
    file.write_text(text, encoding="utf-8")
    verdict, diagnosis = shown(watch)
    time.sleep(BETWEEN_SAVES)
    return verdict - started, diagnosis - started, computed(watch.pid) - spent


def computed(process: int) -> float:
    """Return the CPU seconds of a process and its children, including those that have ended."""
    first = psutil.Process(process)
    together = 0.0
    for one in (first, *first.children(recursive=True)):
        with suppress(psutil.Error):
            together += sum(one.cpu_times()[:4])  # user, system, and the same of ended children
    return together


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
    seen = json.loads(done.stdout)
    wrong = seen["total"] - seen["passed"] + seen["total_watertight"] - seen["passed_watertight"]
    if (wrong == 0) != (kind == "right"):
        raise RuntimeError(f"day {day.number}, {kind}: {wrong} checks did not pass")
    return seconds


def fill(day: Day) -> None:
    """Cache what diagnoses of the day and the next need, as `course watch` does when idle."""
    for one in (other for other in DAYS if 0 <= other.number - day.number <= 1):
        for _ in Judge(one).prepare():
            pass


# --- All of it ------------------------------------------------------------------------------------


def measure(day: Day, rounds: int, full: Path, columns: Sequence[str]) -> Waits:
    """Return all waits of a day in seconds, by kind of answer."""
    texts = answers_of(day)
    waits: Waits = {kind: {column: [] for column in columns} for kind in texts}
    fill(day)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / f"{day.stem}.py"
        file.write_text(texts["right"], encoding="utf-8")
        with watching(day, file.parent) as watch:
            time.sleep(2 * BETWEEN_SAVES)
            for _ in range(rounds):
                for kind, text in texts.items():
                    for column, wait in zip(WARM, warm(watch, file, text), strict=True):
                        waits[kind][column].append(wait)
        for _ in range(rounds if COLD[0] in columns else 0):
            for kind, text in texts.items():
                file.write_text(text, encoding="utf-8")
                waits[kind]["check, cache full"].append(cold(day, kind, file.parent, full))
                with tempfile.TemporaryDirectory() as empty:
                    waits[kind]["check, cache empty"].append(
                        cold(day, kind, file.parent, Path(empty))
                    )
    return waits


def in_short(waits: list[float]) -> str:
    """Return the median and the 90th percentile."""
    ninth = sorted(waits)[max(0, -(-9 * len(waits) // 10) - 1)]
    return f"{statistics.median(waits):.2f} ({ninth:.2f})"


def main() -> None:
    """Measure the given days, and print a row for each day and kind of answer."""
    parser = frame.options(__doc__, rounds=3)
    parser.add_argument("--days", type=int, nargs="*", help="all if left out")
    parser.add_argument("--warm", action="store_true", help="`course watch` alone")
    arguments = parser.parse_args()
    days = [
        day for day in DAYS if day.ready and (not arguments.days or day.number in arguments.days)
    ]
    facts = frame.show_machine()
    columns = WARM if arguments.warm else WARM + COLD
    lines = frame.table(["day", "answer"], list(columns), "seconds: median (nine in ten)")
    figures: dict[str, Waits] = {}
    with (
        tempfile.TemporaryDirectory() as cache,
        Live(lines, console=frame.console, auto_refresh=False),
    ):
        os.environ["COURSE_CACHE"] = cache
        for day in days:
            figures[day.stem] = waits = measure(day, arguments.rounds, Path(cache), columns)
            for kind, found in waits.items():
                lines.add_row(str(day.number), kind, *(in_short(found[c]) for c in columns))
        together = [
            in_short([s for day in figures.values() for kind in day.values() for s in kind[column]])
            for column in columns
        ]
        lines.add_row("all", "all", *together)
    frame.write({"machine": facts, "days": figures}, arguments.json)


if __name__ == "__main__":
    main()
