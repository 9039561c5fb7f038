"""Combine the parts of a model that a learner wrote with those of the reference."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from course.checks.answer_files import Unreadable, begun, build_answer, find_answer, read_answer
from course.curriculum import DAYS, Day, module_of
from course.references.editions import stub_of
from course.references.modules import build_module
from course.references.text import home_of, reference

PAPER = "implementation.py"

# Reasons for which the reference fills in a part though nothing is wrong.
NO_FILE, NOT_BEGUN, IMPORTED = "no file", "not begun", "imported from it"
NOTHING_WRONG = (NO_FILE, NOT_BEGUN, IMPORTED)


def part_days() -> list[Day]:
    """Return the days whose exercises are parts of the paper's Transformer."""
    return [day for day in DAYS if PAPER in day.references]


def files_of(answers: Path) -> dict[str, str]:
    """Return the path of each day's file, for the days that have one."""
    paths = {day.stem: find_answer(day, answers) for day in part_days()}
    return {stem: str(path) for stem, path in paths.items() if path is not None}


def put_together(
    files: dict[str, Path], references: Sequence[str] = (PAPER,)
) -> tuple[ModuleType, list[str], dict[str, list[str]]]:
    """Build references in which the learner's own definitions replace the originals.

    When a file imports from a reference, it gets the learner's earlier parts, and so does each
    reference that builds on others. The new modules replace the references in `sys.modules`.

    Args:
        files: the learner's files, by the stem of their day.
        references: the files of the references, each after those that it imports.

    Returns:
        The module of the last reference; the exercises that are the learner's; and the other
        exercises, with the reason.
    """
    own: list[str] = []
    filled: dict[str, list[str]] = {}
    for file in references:
        parts = build_module(module_of(file), reference(file).source)
        sys.modules[module_of(file)] = parts
        for day in (day for day in DAYS if file in day.references):
            names, answer, reason = _own_of(day, files.get(day.stem))
            for name in (name for name in day.exercises if home_of(day, name).file == file):
                definition = getattr(answer, name, None) if name in names else None
                if definition is None:
                    filled.setdefault(reason or NOT_BEGUN, []).append(name)
                elif definition is getattr(parts, name):  # `from implementation import *`
                    filled.setdefault(IMPORTED, []).append(name)
                else:
                    setattr(parts, name, definition)
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
