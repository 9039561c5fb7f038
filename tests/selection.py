"""Which tests run: what a change affects, wholly, and of what costs much a share, by turn.

A test that costs less than 0.1 CPU seconds is never left out. What costs more is marked `by_turn`, and is
left out of `make test` where nothing that it tests has changed, except at its turn. The turn is the number
of commits on the branch, so that a share of n has been everywhere after n commits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from tests.changes import git

# One in so many of the tests marked `by_turn` of a file or folder is run; the first line that fits counts.
SHARE = {
    "tests/course/test_days.py": 4,
    "tests/course/hostile": 8,
    "tests/explorer": 8,
    "tests/website": 4,
    "tests/laboratory": 4,
    "tests": 3,
}


class Item(Protocol):
    """What is needed of a test."""

    nodeid: str

    def get_closest_marker(self, name: str) -> object: ...


def turn() -> int:
    """Return the number of commits of the branch, first parents alone; 0 where git knows of none."""
    return int(git("rev-list", "--count", "--first-parent", "HEAD") or 0)


def unit(nodeid: str, of: str = "") -> str:
    """Return what is run together at one turn: a test, its day, its file, or its function with all
    parameters."""
    file, _, test = nodeid.partition("::")
    if of == "day":
        found = re.search(r"\bday\d\d", test)
        return found[0] if found else nodeid
    return {"file": file, "function": nodeid.partition("[")[0]}.get(of, nodeid)


def share_of(nodeid: str) -> tuple[str, int]:
    """Return the line of `SHARE` that holds for a test, and its share."""
    return next(
        (line, SHARE[line]) for line in SHARE if nodeid.startswith((f"{line}/", f"{line}::"))
    )


def left_out(items: Sequence[Item], number: int) -> set[Item]:
    """Return the tests marked `by_turn` of which this is not the turn.

    Args:
        items: all tests, in order.
        number: the turn.
    """
    units: dict[str, dict[str, list[Item]]] = {}
    for item in items:
        if mark := item.get_closest_marker("by_turn"):
            line, _ = share_of(item.nodeid)
            units.setdefault(line, {}).setdefault(unit(item.nodeid, *mark.args), []).append(item)
    return {
        item
        for line, of_line in units.items()
        for place, together in enumerate(of_line.values())
        if (place + number) % SHARE[line]
        for item in together
    }
