"""How long a learner waits: from a save to the verdict of `course watch`, beside a cold `pytest`.

For each day the two are measured alternately in one run, on the same file, which is saved right and wrong in
turn (a wrong answer also pays for its diagnosis). A wait ends when the verdict's line arrives.

    python benchmarks/feedback.py            every day, five rounds
    python benchmarks/feedback.py --rounds 9 --days 2 4 --json feedback.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.live import Live
from rounds import console, machine, show_machine, table, write

from course.checks.answers import read_answer
from course.curriculum import DAYS, ROOT, Day
from course.judging.misconceptions import load_misconceptions

BETWEEN_SAVES = 1.0  # seconds in which a learner at least looks at the verdict, and spares warm up


def answers_of(day: Day) -> tuple[str, str]:
    """A right answer and a wrong one, as files."""
    right = read_answer(day.solution)
    wrong = load_misconceptions(day)[0]
    return right, f"{right}\n\n{wrong.text(day)}"


def watch_once(watch: subprocess.Popen[str], file: Path, text: str) -> tuple[float, str]:
    """Save, and wait for the verdict: seconds and status."""
    assert watch.stdout is not None
    started = time.perf_counter()
    file.write_text(text, encoding="utf-8")
    line = watch.stdout.readline()
    seconds = time.perf_counter() - started
    return seconds, json.loads(line)["days"][0]["status"]


def pytest_once(day: Day, folder: Path) -> tuple[float, str]:
    """A cold pytest of the day's checks: seconds and status."""
    command = [sys.executable, "-m", "pytest", "-q", str(day.checks), "--answers", str(folder)]
    started = time.perf_counter()
    code = subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode
    return time.perf_counter() - started, "passed" if code == 0 else "failed"


def measure(day: Day, rounds: int) -> dict[str, float | int]:
    """Medians of a day, in seconds."""
    texts = answers_of(day)
    waits: dict[str, list[float]] = {"right": [], "wrong": [], "pytest": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / f"{day.stem}.py"
        file.write_text(texts[0], encoding="utf-8")
        watch = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "course.cli",
                "watch",
                str(day.number),
                "--json",
                "--answers",
                name,
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watch.stdout is not None
        watch.stdout.readline()  # the check at the start is no save
        try:
            for round_ in range(2 * rounds):
                kind = ("wrong", "right")[round_ % 2]
                time.sleep(BETWEEN_SAVES)
                seconds, status = watch_once(watch, file, texts[kind == "wrong"])
                assert (status == "passed") == (kind == "right"), (day.stem, kind, status)
                waits[kind].append(seconds)
                time.sleep(BETWEEN_SAVES)
                seconds, status = pytest_once(day, folder)
                assert (status == "passed") == (kind == "right"), (day.stem, kind, status)
                waits["pytest"].append(seconds)
        finally:
            watch.terminate()
            watch.wait()
    medians = {kind: statistics.median(values) for kind, values in waits.items()}
    saves = statistics.median(waits["right"] + waits["wrong"])
    slowest = max(waits["right"] + waits["wrong"])
    return {
        "day": day.number,
        **medians,
        "watch": saves,
        "slowest": slowest,
        "ratio": medians["pytest"] / saves,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="saves of each kind")
    parser.add_argument("--days", type=int, nargs="*", help="all that are there if left out")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    days = [
        day for day in DAYS if day.ready and (not arguments.days or day.number in arguments.days)
    ]

    show_machine(machine())
    lines = table(
        ["day"],
        ["right", "wrong", "both", "slowest", "pytest", "ratio"],
        "medians in seconds, from a save to the verdict and of a cold pytest",
    )
    figures = []
    # A day's line is shown when it is there, and no thread redraws beside what is measured.
    with Live(lines, console=console, auto_refresh=False) as live:
        for day in days:
            row = measure(day, arguments.rounds)
            figures.append(row)
            waits = (row[kind] for kind in ("right", "wrong", "watch", "slowest", "pytest"))
            lines.add_row(day.stem, *(f"{wait:.3f}" for wait in waits), f"{row['ratio']:.1f}×")
            live.refresh()
    console.line()  # which Live leaves out where there is no terminal
    write(figures, arguments.json)


if __name__ == "__main__":
    main()
