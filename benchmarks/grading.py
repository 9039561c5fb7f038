"""The cost of grading in a sandbox, beside the same submissions without.

    python benchmarks/grading.py [learners] [--rounds 3]

Each round grades a class of right answers to all days twice, with and without a sandbox, alternating. The
table has medians: CPU time of the entire machine per submission (so run nothing else), elapsed time, the
share of the cores' time in use, and the peak memory of all processes; the last also for a class a third of
the size.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import frame
import psutil

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT

SANDBOXED, PLAIN = "sandbox", "plain"
READY = [day for day in DAYS if day.ready]


@dataclass(frozen=True)
class Cost:
    """The cost of one grading.

    Attributes:
        computed: CPU seconds of the machine per submission.
        seconds: elapsed, in total.
        busy: the share of the cores' time in use.
        memory: bytes at the peak.
    """

    computed: float
    seconds: float
    busy: float
    memory: int


def main() -> None:
    """Measure and print."""
    parser = frame.options(__doc__, rounds=3)
    parser.add_argument("learners", type=int, nargs="?", default=12)
    given = parser.parse_args()
    learners = given.learners
    facts = frame.show_machine()
    with tempfile.TemporaryDirectory() as name:
        large, small = Path(name, "large"), Path(name, "small")
        make_class(large, learners)
        make_class(small, max(1, learners // 3))
        ways = {SANDBOXED: partial(grade, large), PLAIN: partial(grade, large, "--unsafe")}
        found = frame.in_turns(ways, given.rounds)
        third = grade(small)
    show(found, third, f"{learners} submissions of {len(READY)} days, medians of {given.rounds}")
    costs = {way: [asdict(cost) for cost in each] for way, each in found.items()}
    frame.write({"machine": facts, "costs": costs, "third of the class": asdict(third)}, given.json)


def show(found: dict[str, list[Cost]], third: Cost, title: str) -> None:
    """Print a row for each way to grade, one for their ratio, and one for the smaller class."""
    lines = frame.table([""], ["CPU a submission", "in all", "busy", "memory"], title)
    for way, costs in found.items():
        lines.add_row(
            way,
            f"{median(costs, 'computed'):.2f} s",
            f"{median(costs, 'seconds'):.1f} s",
            f"{median(costs, 'busy'):.0%}",
            frame.in_mib(median(costs, "memory")),
        )
    computed = {way: [cost.computed for cost in costs] for way, costs in found.items()}
    ratio = statistics.median(frame.ratios(computed[SANDBOXED], computed[PLAIN]))
    lines.add_row("ratio", f"{ratio:.2f}")
    lines.add_row("a third of the class", "", "", "", frame.in_mib(third.memory))
    frame.console.print(lines)


def make_class(folder: Path, learners: int) -> None:
    for number in range(learners):
        own = folder / f"learner{number:03d}"
        own.mkdir(parents=True)
        for day in READY:
            (own / f"{day.stem}.py").write_text(read_answer(day.solution), encoding="utf-8")


def grade(class_: Path, *how: str) -> Cost:
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "course.cli",
                "grade",
                class_,
                "--out",
                out,
                "--seed",
                "1",
                *how,
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        before = sum(psutil.cpu_times()[:3])
        memory = 0
        while process.poll() is None:
            memory = max(memory, held(process.pid))
            time.sleep(0.2)
        seconds = time.perf_counter() - started
        used = sum(psutil.cpu_times()[:3]) - before
        results = [json.loads(path.read_text()) for path in Path(out, "results").glob("*.json")]
        assert all(one["points"] == one["max_points"] for one in results)
        return Cost(used / len(results), seconds, used / seconds / (os.cpu_count() or 1), memory)


def held(process: int) -> int:
    """Return the unshared bytes of a process and its children."""
    total = 0
    try:
        family = psutil.Process(process)
        for one in [family, *family.children(recursive=True)]:
            total += one.memory_info().rss - one.memory_info().shared
    except psutil.Error:
        pass
    return total


def median(costs: list[Cost], what: str) -> float:
    return statistics.median(getattr(cost, what) for cost in costs)


if __name__ == "__main__":
    main()
