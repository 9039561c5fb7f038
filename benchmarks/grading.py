"""What grading behind walls costs, beside the same submissions in plain workers.

    python benchmarks/grading.py [learners]

Each round grades a class of right answers to all days twice, with walls and without, in turn. Printed
are the medians: CPU time of the whole machine for each submission (so let nothing else run), the clock,
how busy the cores were, and the most memory that all processes together held; the last for a class a
third of the size, too.
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
from pathlib import Path

import psutil

from course.answers import read_answer
from course.curriculum import DAYS, ROOT

ROUNDS = 3
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
        rounds = [(grade(large), grade(large, "--unsafe")) for _ in range(ROUNDS)]
        third = grade(small)
    walled, plain = ([pair[side] for pair in rounds] for side in (0, 1))
    print(
        f"{learners} submissions of {len(READY)} days, medians of {ROUNDS}, {os.cpu_count()} cores"
    )
    for words, costs in (("with walls", walled), ("plain", plain)):
        print(
            f"  {words:<11}{median(costs, 'computed'):6.2f} s of CPU a submission"
            f"{median(costs, 'seconds'):8.1f} s in all{median(costs, 'busy'):6.0%} busy"
            f"{median(costs, 'memory') / 2**30:6.2f} GB"
        )
    ratio = statistics.median(one.computed / other.computed for one, other in rounds)
    print(f"  ratio      {ratio:6.2f}")
    print(f"  a third of the class: {third.memory / 2**30:.2f} GB")


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
