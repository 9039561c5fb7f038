"""The cost of grading in a sandbox, beside the same submissions without.

    python benchmarks/grading.py [learners] [--rounds 3]

Each round grades a class of right answers to all days twice, with and without a sandbox, alternating. The
table has medians: CPU time of the entire machine per submission (so run nothing else), elapsed time, and the
peak memory of all processes; the last also for a class a third of the size.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import frame
import psutil

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT

SANDBOXED, PLAIN = "sandbox", "plain"
READY = [day for day in DAYS if day.ready]


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=3)
    parser.add_argument("learners", type=int, nargs="?", default=12)
    args = parser.parse_args()
    frame.show_machine()
    with tempfile.TemporaryDirectory() as name:
        large, small = Path(name, "large"), Path(name, "small")
        make_class(large, args.learners)
        make_class(small, max(1, args.learners // 3))
        ways = {SANDBOXED: partial(grade, large), PLAIN: partial(grade, large, "--unsafe")}
        by_way = frame.in_turns(ways, args.rounds)
        third = grade(small)
    title = f"{args.learners} submissions of {len(READY)} days, medians of {args.rounds}"
    lines = frame.table([""], ["CPU a submission", "in all", "memory"], title)
    for way, costs in by_way.items():
        computed, seconds, memory = map(statistics.median, zip(*costs, strict=True))
        lines.add_row(way, f"{computed:.2f} s", f"{seconds:.1f} s", frame.in_mib(memory))
    over = frame.ratios(*([cost[0] for cost in by_way[way]] for way in (SANDBOXED, PLAIN)))
    lines.add_row("ratio", f"{statistics.median(over):.2f}")
    lines.add_row("a third of the class", "", "", frame.in_mib(third[2]))
    frame.console.print(lines)


def make_class(folder: Path, learners: int) -> None:
    """Write the submissions of learners whose answers are all right."""
    for number in range(learners):
        own = folder / f"learner{number:03d}"
        own.mkdir(parents=True)
        for day in READY:
            (own / f"{day.stem}.py").write_text(read_answer(day.solution), encoding="utf-8")


def grade(class_: Path, *how: str) -> tuple[float, float, int]:
    """Return the machine's CPU seconds per submission, the seconds, and the bytes at the peak."""
    with tempfile.TemporaryDirectory() as out:
        started, before, memory = time.perf_counter(), sum(psutil.cpu_times()[:3]), 0
        command = [sys.executable, "-m", "course.cli", "grade", class_, "--out", out, "--seed", "1"]
        process = subprocess.Popen([*command, *how], cwd=ROOT, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            memory = max(memory, held(process.pid))
            time.sleep(0.2)
        seconds, used = time.perf_counter() - started, sum(psutil.cpu_times()[:3]) - before
        results = [json.loads(path.read_text()) for path in Path(out, "results").glob("*.json")]
        assert all(result["points"] == result["max_points"] for result in results)
        return used / len(results), seconds, memory


def held(process: int) -> int:
    """Return the unshared bytes of a process and its children."""
    total = 0
    with suppress(psutil.Error):
        family = psutil.Process(process)
        for member in [family, *family.children(recursive=True)]:
            total += member.memory_info().rss - member.memory_info().shared
    return total


if __name__ == "__main__":
    main()
