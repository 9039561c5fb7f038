"""The parts of the paper's Transformer that are a learner's, put together with the reference's others."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from course.checks.answers import Unreadable, begun, build_answer, find_answer, read_answer
from course.curriculum import DAYS, Day
from course.references.editions import stub_of
from course.references.modules import build_module
from course.references.text import reference

REFERENCE = "implementation.py"
MODULE = "implementation"

# Why the reference stands in for a part without anything being wrong.
NO_FILE, NOT_BEGUN, IMPORTED = "no file", "not begun", "imported from it"
NOTHING_WRONG = (NO_FILE, NOT_BEGUN, IMPORTED)


def part_days() -> list[Day]:
    """The days whose exercises are parts of the paper's Transformer."""
    return [day for day in DAYS if REFERENCE in day.references]


def files_of(answers: Path) -> dict[str, str]:
    """For each day of which there is a file: where it lies."""
    found = {day.stem: find_answer(day, answers) for day in part_days()}
    return {stem: str(path) for stem, path in found.items() if path is not None}


def put_together(
    files: dict[str, Path],
) -> tuple[ModuleType, list[str], dict[str, list[str]]]:
    """The reference with the learner's own definitions in place of its own.

    Each file finds the learner's earlier parts where it imports from the reference.

    Returns:
        The module; the exercises that are the learner's; those that are not, with the reason.
    """
    parts = build_module(MODULE, reference(REFERENCE).source)
    sys.modules[MODULE] = parts
    own: list[str] = []
    filled: dict[str, list[str]] = {}
    for day in part_days():
        names, answer, reason = _own_of(day, files.get(day.stem))
        for name in day.exercises:
            found = getattr(answer, name, None) if name in names else None
            if found is None:
                filled.setdefault(reason or NOT_BEGUN, []).append(name)
            elif found is getattr(parts, name):  # `from implementation import *`
                filled.setdefault(IMPORTED, []).append(name)
            else:
                setattr(parts, name, found)
                own.append(name)
    return parts, own, filled


def _own_of(day: Day, path: Path | None) -> tuple[list[str], ModuleType | None, str]:
    """The exercises of a day that the learner has begun, their module, or why there is none."""
    if path is None:
        return [], None, NO_FILE
    try:
        source = read_answer(path)
        names = begun(source, stub_of(day), day.exercises)
        return names, build_answer(str(path), source) if names else None, ""
    except Unreadable as error:
        return [], None, str(error)
    except (Exception, SystemExit) as error:
        return [], None, f"{path.name} cannot be loaded: {type(error).__name__}: {error}"
