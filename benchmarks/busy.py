"""Whether verdicts depend on the load of the machine: right answers and stubs, beside busy processes.

For each day `course check` checks the worked solution, every accepted answer and the unchanged stub, each in
a process of its own with an empty cache. The solution and the accepted answers must pass with a star, and
the stub must not be started. Any other verdict is wrong, and is printed. With `--json`, days that are in the
file already are skipped, so that the benchmark can run in parts.

    python benchmarks/busy.py                              every day, beside 6 busy processes
    python benchmarks/busy.py --days 33 34 --beside 12
    python benchmarks/busy.py --json busy.json             resumes
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import frame

from course.curriculum import DAYS, ROOT, Day
from course.references.stubs import stub_text


def answers_of(day: Day) -> dict[str, tuple[str, bytes]]:
    """Return a day's answers by name: the suffix of the file, and its content."""
    accepted = {path.stem: (".py", path.read_bytes()) for path in sorted(day.accepted.glob("*.py"))}
    return {
        "stub": (".py", stub_text(day).encode()),
        "solution": (".ipynb", day.solution.read_bytes()),
        **accepted,
    }


def check(day: Day, ending: str, content: bytes) -> dict[str, Any]:
    """Return the report of `course check --json` on an answer, without a cache."""
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
    """Return the checks with a wrong verdict, with their messages."""
    right = "not_started" if kind == "stub" else "passed"
    return [
        f"{kind}, {one['name']}: {one['status']}. {one['message']}"
        for one in report["checks"]
        if one["status"] != right
    ]


def measure(day: Day) -> dict[str, Any]:
    """Return the number of a day's verdicts, the wrong ones, and the slowest check."""
    verdicts, mistakes, longest, started = 0, [], (0.0, ""), time.perf_counter()
    for kind, (ending, content) in answers_of(day).items():
        report = check(day, ending, content)
        verdicts += len(report["checks"])
        mistakes += wrong(kind, report)
        longest = max(longest, *((one["seconds"], one["name"]) for one in report["checks"]))
    seconds = time.perf_counter() - started
    return {"verdicts": verdicts, "wrong": mistakes, "longest": longest, "seconds": seconds}


def main() -> None:
    """Check the given days, and print a row for each. Exit 1 if a verdict is wrong."""
    parser = frame.options(__doc__)
    parser.add_argument("--days", type=int, nargs="*", help="all if left out")
    parser.add_argument("--beside", type=int, default=6, help="busy processes beside it")
    arguments = parser.parse_args()
    facts = frame.show_machine()
    figures: dict[str, Any] = {"machine": facts, "beside": arguments.beside, "days": {}}
    if arguments.json and arguments.json.exists():
        figures = json.loads(arguments.json.read_text(encoding="utf-8"))
    lines = frame.table(
        ["day"], ["verdicts", "wrong", "longest check, s", "its name", "all, s"], ""
    )
    with frame.busy(arguments.beside):
        for day in DAYS:
            if arguments.days and day.number not in arguments.days:
                continue
            if day.stem not in figures["days"]:
                figures["days"][day.stem] = measure(day)
                if arguments.json:
                    frame.write(figures, arguments.json)
            found = figures["days"][day.stem]
            seconds, name = found["longest"]
            count = (str(found["verdicts"]), str(len(found["wrong"])))
            lines.add_row(
                str(day.number), *count, f"{seconds:.2f}", name, f"{found['seconds']:.0f}"
            )
            frame.console.print(f"day {day.number}: {count[1]} of {count[0]} verdicts are wrong")
            for words in found["wrong"]:
                frame.console.print(f"  {words}", markup=False)
    frame.console.print(lines)
    days = figures["days"].values()
    mistakes = sum(len(found["wrong"]) for found in days)
    frame.console.print(f"{mistakes} wrong verdicts of {sum(found['verdicts'] for found in days)}")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
