"""The night run: a class of 120, graded in one command that is killed twice on the way.

A third of the class is right in every day, a third has mistakes in some days, and a third is hostile.
Whatever is not as it should be is told, and makes the exit status 1.

    python -m tests.class_of_120
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.curriculum import BY_NUMBER, DAYS
from course.grading.pools import processes_that_fit
from course.judging.misconceptions import Misconception, load_misconceptions
from course.references.text import definition_text
from tests.course.hostile.classes import KINDS, Class, called, listeners
from tests.course.hostile.kinds import GRADED, Kind, right

THIRD = 40
KILLED_AT = (45, 90)  # results that are there when the command is killed
READY = [day for day in DAYS if day.ready]
HOSTILE = [KINDS[number * len(KINDS) // THIRD] for number in range(THIRD)]

Statuses = dict[int, str]


def main() -> int:
    """Make the class, have it graded, and compare every day of everybody with what it must be."""
    with tempfile.TemporaryDirectory(prefix="course-class-") as name:
        Path(name).chmod(0o755)  # workers belong to nobody
        class_ = Class(Path(name))
        with listeners() as sockets:
            mistakes = fill(class_, sockets[0].getsockname()[1])
            grade(class_)
            wrong = ["an attack has reached a socket"] if called(sockets) else []
        wrong += differences(class_, mistakes)
    print("\n".join(wrong) or f"All {3 * THIRD} verdicts are as they must be.")
    return 1 if wrong else 0


def fill(class_: Class, port: int) -> dict[str, dict[int, Misconception]]:
    """Make everybody's submission.

    Returns:
        who has which mistakes, by day.
    """
    everything = {day.number: right(day.number) for day in READY}
    mistakes = dict(mistaken())
    for number in range(THIRD):
        class_.add(f"right-{number:02d}", everything)
    for learner, wrong in mistakes.items():
        class_.add(
            learner, everything | {n: with_mistake(n, mistake) for n, mistake in wrong.items()}
        )
    for kind in HOSTILE:
        class_.add_kind(kind, port)
    return mistakes


def mistaken() -> Iterator[tuple[str, dict[int, Misconception]]]:
    """Forty learners with one to five known mistakes each, every day's in turn."""
    for number in range(THIRD):
        days = [READY[(number * 5 + step) % len(READY)] for step in range(1 + number % 5)]
        by_day = {day.number: load_misconceptions(day) for day in days}
        yield f"mistaken-{number:02d}", {n: all_[number % len(all_)] for n, all_ in by_day.items()}


def with_mistake(number: int, mistake: Misconception) -> str:
    """The right answer to a day with one definition wrong."""
    day = BY_NUMBER[number]
    definition = definition_text(day, mistake.definition).strip()
    assert right(number).count(definition) == 1, (day.stem, mistake.definition)
    wrong = right(number).replace(definition, mistake.text(day).strip())
    return f"import torch\n{wrong}" if day.uses_torch else wrong  # which the right one may not need


def grade(class_: Class) -> None:
    """Grade the class by one command, given three times, as it is killed twice."""
    days = [day.number for day in READY]
    for kill_at in (*KILLED_AT, None):
        before, started = class_.finished(), time.monotonic()
        class_.grade(processes_that_fit(), days, kill_at)
        after = class_.finished()
        ended = "killed" if class_.returncode == -signal.SIGKILL else f"exit {class_.returncode}"
        print(f"{ended}, {len(after)} results, {time.monotonic() - started:.0f} s", flush=True)
        assert {name: after[name] for name in before} == before, "a finished result has changed"
    reused = class_.printed.count("graded before")
    print(f"{reused} of the last command's had been graded before it was killed")


def differences(class_: Class, mistakes: dict[str, dict[int, Misconception]]) -> Iterator[str]:
    """What is not as it must be, in words."""
    if class_.returncode:
        yield f"the command ended with {class_.returncode}"
    for number in range(THIRD):
        yield from honest(class_.result(f"right-{number:02d}"), {})
    for learner, wrong in mistakes.items():
        yield from honest(class_.result(learner), wrong)
    for kind in HOSTILE:
        yield from hostile(class_.result(kind.shown), kind)


def honest(result: dict[str, Any], mistakes: dict[int, Misconception]) -> Iterator[str]:
    """Every day that has no mistake is watertight; one that has is not, and the mistake is named."""
    who = result["learner"]
    for day in result["days"]:
        mistake = mistakes.get(day["day"])
        named = {check["misconception"] for check in day["checks"]} - {None}
        if mistake is None and not day["watertight"]:
            yield f"{who}, day {day['day']}: {day['status']}, and it is right"
        if mistake is not None and day["watertight"]:
            yield f"{who}, day {day['day']}: watertight with {mistake.id}"
        if mistake is not None and mistake.id not in named:
            yield f"{who}, day {day['day']}: {mistake.id} is named {named or 'nothing'}"
    if not mistakes and result["points"] != len(READY):
        yield f"{who}: {result['points']} points"


def hostile(result: dict[str, Any], kind: Kind) -> Iterator[str]:
    """The verdict and every day's status are those of its kind; no other day was handed in."""
    rest = {} if kind.refused else {day.number: "not_started" for day in READY}
    statuses = {day["day"]: day["status"] for day in result["days"]}
    if result["verdict"] != kind.verdict or kind.refused not in result["reason"]:
        yield f"{kind.name}: {result['verdict']} {result['reason']}"
    if statuses != rest | kind.expected:
        yield f"{kind.name}: { ({n: statuses[n] for n in GRADED if n in statuses}) }"
    if result["points"] != kind.points:
        yield f"{kind.name}: {result['points']} points"


if __name__ == "__main__":
    sys.exit(main())
