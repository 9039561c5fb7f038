"""Which tests run: what a change affects, wholly, and of what costs much a share, by turn.

A test that costs less than 0.1 CPU seconds is never left out. What costs more is marked `by_turn`, and is
left out where nothing that it tests has changed, except at its turn. The turn is the number of commits of
the branch, so that a share of n has been everywhere after n commits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.affected import DAY_TESTS, PAGE_TESTS, Plan
from tests.changes import git, parent

# One in so many of the tests marked `by_turn` of a file or folder is run; the first line that fits counts.
SHARE = {
    "tests/course/test_days.py": 4,
    "tests/course/grading/test_classes.py": 2,
    "tests/course/grading": 4,
    "tests/course/hostile": 8,
    "tests/course/edition": 12,
    "tests/course/assembly": 6,
    "tests/course/desk": 4,
    "tests/explorer": 8,
    "tests/notebooks": 12,
    "tests/website": 4,
    "tests/laboratory": 4,
    "tests": 3,
}


def turn() -> int:
    """Return the number of commits of the branch, first parents alone; 0 where HEAD has no parent."""
    count = git("rev-list", "--count", "--first-parent", "HEAD") if parent() else None
    return int(count or 0)


@dataclass(frozen=True)
class Whole:
    """What is run without regard to turns."""

    files: frozenset[str]
    subjects: frozenset[str]
    """Days and pages, of the files where what is affected is chosen by these."""

    @classmethod
    def of(cls, plan: Plan, arguments: Iterable[str]) -> Whole:
        """What a change affects, and what is named on the command line."""
        named = {one.partition("::")[0] for one in arguments}
        subjects = plan.pages | {day.stem for day in plan.days}
        return cls(
            frozenset(plan.tests | {one for one in named if one.endswith(".py")}),
            frozenset(subjects),
        )

    def __contains__(self, nodeid: str) -> bool:
        file = nodeid.partition("::")[0]
        return file in self.files or (
            file in (*DAY_TESTS, *PAGE_TESTS) and not self.subjects.isdisjoint(parameters(nodeid))
        )


def parameters(nodeid: str) -> list[str]:
    """Return the parts of a test's id in brackets."""
    return re.split(r"[-./]", nodeid.partition("[")[2].rstrip("]"))


def day_of(nodeid: str) -> str | None:
    """Return the stem of the day that a test is about."""
    return next((one for one in parameters(nodeid) if re.match(r"day\d\d_", one)), None)


def unit(nodeid: str, of: str = "") -> str:
    """Return what is run together at one turn: a test, or all of its day, its file or its function."""
    file, _, _ = nodeid.partition("::")
    together = {"day": day_of(nodeid), "file": file, "function": nodeid.partition("[")[0]}
    return together.get(of) or nodeid


def left_out(items: Sequence[Any], whole: Whole, number: int) -> set[Any]:
    """Return the tests marked `by_turn` of which this is not the turn.

    Args:
        items: all tests, in order.
        whole: the tests that stay.
        number: the turn.
    """
    units: dict[str, dict[str, list[Any]]] = {}
    for item in items:
        if mark := item.get_closest_marker("by_turn"):
            units.setdefault(line_of(item.nodeid), {}).setdefault(
                unit(item.nodeid, *mark.args), []
            ).append(item)
    return {
        item
        for line, of_line in units.items()
        for place, together in enumerate(of_line.values())
        if (place + number) % SHARE[line]
        for item in together
        if item.nodeid not in whole
    }


def line_of(nodeid: str, lines: Collection[str] = SHARE) -> str:
    """Return the first of a table's lines that holds for a test."""
    return next(line for line in lines if nodeid.startswith((f"{line}/", f"{line}::")))
