"""Whether verdicts depend on how busy the machine is: right answers and stubs, beside busy processes.

For each day the worked solution, every accepted answer and the untouched stub are checked by `course check`
in a process of its own, with an empty cache. The solution and the accepted answers must pass with a star, and
nothing of the stub may be begun. Whatever else comes is a wrong verdict, and is printed. With `--json` the
days that are in the file already are left out, so that it can be run in parts.

    python benchmarks/busy.py                              every day, beside 6 busy processes
    python benchmarks/busy.py --days 33 34 --beside 12
    python benchmarks/busy.py --json busy.json             goes on where it was stopped
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rounds import busy, console, machine, show_machine, table, write

from course.curriculum import DAYS, ROOT, Day
from course.references.stubs import stub_text


def answers_of(day: Day) -> dict[str, tuple[str, bytes]]:
    """A day's answers by a name: the file's ending, and its content."""
    accepted = {path.stem: (".py", path.read_bytes()) for path in sorted(day.accepted.glob("*.py"))}
    return {
        "stub": (".py", stub_text(day).encode()),
        "solution": (".ipynb", day.solution.read_bytes()),
        **accepted,
    }


def check(day: Day, ending: str, content: bytes) -> dict[str, Any]:
    """What `course check --json` says of an answer, with nothing cached."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / f"{day.stem}{ending}").write_bytes(content)
        command = [sys.executable, "-m", "course.cli", "check", str(day.number), "--json"]
        done = subprocess.run(
            [*command, "--answers", name],
            cwd=ROOT,
            env=os.environ | {"COURSE_CACHE": str(Path(name) / "cache")},
            capture_output=True,
            check=False,
        )
    [report] = json.loads(done.stdout)["days"]
    return dict(report)


def wrong(kind: str, report: dict[str, Any]) -> list[str]:
    """The checks that have another verdict than they must, with their messages."""
    right = "not_started" if kind == "stub" else "passed"
    return [
        f"{kind}, {one['name']}: {one['status']}. {one['message']}"
        for one in report["checks"]
        if one["status"] != right
    ]


def measure(day: Day) -> dict[str, Any]:
    """All answers of a day: how many verdicts, which of them are wrong, and the check that took longest."""
    verdicts, mistakes, longest, started = 0, [], (0.0, ""), time.perf_counter()
    for kind, (ending, content) in answers_of(day).items():
        report = check(day, ending, content)
        verdicts += len(report["checks"])
        mistakes += wrong(kind, report)
        longest = max(longest, *((one["seconds"], one["name"]) for one in report["checks"]))
    seconds = time.perf_counter() - started
    return {"verdicts": verdicts, "wrong": mistakes, "longest": longest, "seconds": seconds}


def main() -> None:
    """Check the days that were asked for, and print a line for each. Exit 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, nargs="*", help="all if left out")
    parser.add_argument("--beside", type=int, default=6, help="busy processes beside it")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    arguments = parser.parse_args()
    facts = machine()
    show_machine(facts)
    figures: dict[str, Any] = {"machine": facts, "beside": arguments.beside, "days": {}}
    if arguments.json and arguments.json.exists():
        figures = json.loads(arguments.json.read_text(encoding="utf-8"))
    lines = table(["day"], ["verdicts", "wrong", "longest check, s", "its name", "all, s"], "")
    with busy(arguments.beside):
        for day in DAYS:
            if arguments.days and day.number not in arguments.days:
                continue
            if day.stem not in figures["days"]:
                figures["days"][day.stem] = measure(day)
                if arguments.json:
                    write(figures, arguments.json)
            found = figures["days"][day.stem]
            seconds, name = found["longest"]
            count = (str(found["verdicts"]), str(len(found["wrong"])))
            lines.add_row(
                str(day.number), *count, f"{seconds:.2f}", name, f"{found['seconds']:.0f}"
            )
            console.print(f"day {day.number}: {count[1]} of {count[0]} verdicts are wrong")
            for words in found["wrong"]:
                console.print(f"  {words}", markup=False)
    console.print(lines)
    days = figures["days"].values()
    mistakes = sum(len(found["wrong"]) for found in days)
    console.print(f"{mistakes} wrong verdicts of {sum(found['verdicts'] for found in days)}")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
