"""What grading behind walls costs, beside the same submissions in plain workers.

    python benchmarks/grading.py [learners]

Each round grades a class of right answers to all days twice, with walls and without; the next round begins
with the other. Printed are the medians: CPU time of the whole machine for each submission (so let nothing
else run), the clock, how busy the cores were, and the most memory that all processes together held; the last
for a class a third of the size, too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from rounds import console, in_turns, in_words, machine, ratios, show_machine, table

from course.checks.answers import read_answer
from course.curriculum import DAYS, ROOT

ROUNDS = 3
WALLED, PLAIN = "with walls", "plain"
READY = [day for day in DAYS if day.ready]


@dataclass(frozen=True)
class Cost:
    """What one grading took.

    Attributes:
        computed: CPU seconds of the machine for each submission.
        seconds: by the clock, of everything.
        busy: share of the cores' time that was used.
        memory: bytes, the most at any moment.
    """

    computed: float
    seconds: float
    busy: float
    memory: int


def main() -> None:
    """Measure and print."""
    learners = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    with tempfile.TemporaryDirectory() as name:
        large, small = Path(name, "large"), Path(name, "small")
        make_class(large, learners)
        make_class(small, max(1, learners // 3))
        ways = {WALLED: partial(grade, large), PLAIN: partial(grade, large, "--unsafe")}
        found = in_turns(ways, ROUNDS)
        third = grade(small)
    show_machine(machine())
    show(found, third, f"{learners} submissions of {len(READY)} days, medians of {ROUNDS}")


def show(found: dict[str, list[Cost]], third: Cost, title: str) -> None:
    """A line for each way to grade, one for what walls cost, one for the smaller class."""
    lines = table([""], ["CPU a submission", "in all", "busy", "memory"], title)
    for way, costs in found.items():
        lines.add_row(
            way,
            f"{median(costs, 'computed'):.2f} s",
            f"{median(costs, 'seconds'):.1f} s",
            f"{median(costs, 'busy'):.0%}",
            in_words(median(costs, "memory")),
        )
    computed = {way: [cost.computed for cost in costs] for way, costs in found.items()}
    ratio = statistics.median(ratios(computed[WALLED], computed[PLAIN]))
    lines.add_row("ratio", f"{ratio:.2f}")
    lines.add_row("a third of the class", "", "", "", in_words(third.memory))
    console.print(lines)


def make_class(folder: Path, learners: int) -> None:
    for number in range(learners):
        own = folder / f"learner{number:03d}"
        own.mkdir(parents=True)
        for day in READY:
            (own / f"{day.stem}.py").write_text(read_answer(day.solution), encoding="utf-8")


def grade(class_: Path, *how: str) -> Cost:
    with tempfile.TemporaryDirectory() as out:
        started = time.monotonic()
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
        seconds = time.monotonic() - started
        used = sum(psutil.cpu_times()[:3]) - before
        results = [json.loads(path.read_text()) for path in Path(out, "results").glob("*.json")]
        assert all(one["points"] == one["max_points"] for one in results)
        return Cost(used / len(results), seconds, used / seconds / (os.cpu_count() or 1), memory)


def held(process: int) -> int:
    """Bytes that a process and all that it has started hold by themselves."""
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
