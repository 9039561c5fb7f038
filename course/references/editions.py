"""A student edition: which references it contains, and what replaces those that are not released.

For a day that is not released, it contains no definition, but a file in `recorded/` with the
necessary facts: the stub, and the names that each definition uses.
"""

from __future__ import annotations

import ast
import functools
import json
import platform
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from course.curriculum import DAYS, ROOT, Day, day_of_definition, module_of
from course.references.stubs import steps_of, stub_text
from course.references.text import import_of, names_in, names_used, reference, span, without

FOLDER = ROOT / "recorded"
GRADER = FOLDER / "python.txt"
"""In an edition: the Python with which it was made, which is the one that grades."""
PACKED = FOLDER / "reference.json"
"""In an edition: every reference, packed, for lessons to run on."""
WHOLE = not FOLDER.exists()
"""Whether all references are here: an edition for students has no use for some commands."""

OWN_PARTS = """

# What is missing above belongs to days that are not released: it is taken from your own exercises.
def __getattr__(name):
    from course.checks.unreleased import unreleased_part

    return unreleased_part(__name__, name)
"""


def graders_python() -> str:
    """In an edition a sentence if this Python is newer than the one that grades, and else nothing."""
    if not GRADER.exists():
        return ""
    version = GRADER.read_text(encoding="utf-8").strip()
    if sys.version_info[:2] <= tuple(int(part) for part in version.split(".")):
        return ""
    this = platform.python_version()
    return f"This is Python {this}. Your work is graded by Python {version}, which reads no newer syntax."


def is_recorded(day: Day) -> bool:
    """Return whether this is an edition without the day's reference."""
    return facts_file(day).exists()


def stub_of(day: Day) -> str:
    """Return the exercise file as a learner gets it, with or without the reference."""
    return str(_facts(facts_file(day))["stub"]) if is_recorded(day) else stub_text(day)


def steps_for(day: Day, exercise: str) -> str:
    """Return the numbered steps of an exercise as Markdown, with or without the reference; empty if it has
    none, or if an edition withholds them."""
    if is_recorded(day):
        return str(_facts(facts_file(day))["steps"].get(exercise, ""))
    return steps_of(day, exercise)


def names_used_by(day: Day, exercise: str) -> set[str]:
    """Return the names that the reference's definition of an exercise uses, with or without the
    reference."""
    if is_recorded(day):
        return set(_facts(facts_file(day))["uses"][exercise])
    return names_used(day, exercise)


def returns_nothing(day: Day, exercise: str) -> bool:
    """Return whether an exercise is a function that changes its arguments and returns nothing."""
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == exercise
        and isinstance(node.returns, ast.Constant)
        and node.returns.value is None
        for node in ast.parse(stub_of(day)).body
    )


def facts_file(day: Day) -> Path:
    """Return the file with the facts about a day without its reference."""
    return FOLDER / f"{day.stem}.json"


@functools.cache
def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


# --- Writing --------------------------------------------------------------------------------------


def facts_of(day: Day, stub: str, hints: bool) -> dict[str, Any]:
    """Return the facts about a day for an edition without its reference.

    Args:
        day: the day, whose reference is available.
        hints: whether they get hints, of which the steps are the first.
    """
    return {
        "stub": stub,
        "uses": {name: sorted(names_used(day, name)) for name in day.exercises},
        "steps": {name: steps_of(day, name) for name in day.exercises if hints},
    }


def released_part(file: str, through: int, provided: Collection[int] = ()) -> str:
    """Return a reference without the definitions of later days, the code that uses them, and the
    code that only they need.

    Code that only refuses bad arguments stays: worked solutions import it, and it gives nothing
    away.

    Args:
        file: the reference.
        through: the last day that is released.
        provided: later days without exercises, whose definitions stay.
    """
    source = reference(file)
    gone = _gone(file, through, frozenset(provided))
    if not gone:
        return source.source
    remaining = without(gone, source)
    beside = [node for node in source.tree.body if not hasattr(node, "name")]  # such as constants
    used = names_in((*beside, *(source.definitions[name] for name in remaining)), types=False)
    remaining = [
        name
        for name in remaining
        if name in used or not name.startswith("_") or _only_refuses(source.definitions[name])
    ]
    used = names_in((*beside, *(source.definitions[name] for name in remaining)), types=False)
    lines = source.source.splitlines()
    for node in source.tree.body:
        first, last = span(node)
        stays = lines[first:last]
        if isinstance(node, ast.Import | ast.ImportFrom):
            stays = "".join(import_of(node, used)).splitlines()
        elif getattr(node, "name", None) not in (None, *remaining):
            stays = []
        lines[first:last] = [*stays, *["\0"] * (last - first - len(stays))]
    _, end = span(source.tree.body[0])  # the docstring's
    lines[end:end] = ["", "from __future__ import annotations"]  # which may name what is withheld
    text = "\n".join(line for line in lines if line != "\0").rstrip() + "\n"
    return text + OWN_PARTS


@functools.cache
def _gone(file: str, through: int, provided: frozenset[int]) -> frozenset[str]:
    """A reference's definitions of later days, and what it imports that another one no longer has."""
    source = reference(file)
    later = {
        name
        for name in source.definitions
        if (home := day_of_definition(file, name))
        and home.number > through
        and home.number not in provided
    }
    files = {
        module_of(reference_file): reference_file
        for day in DAYS
        for reference_file in day.references
    }
    imported = {
        alias.asname or alias.name
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom) and node.module in files
        for alias in node.names
        if alias.name in _without_parts(files[node.module], through, provided)
    }
    return frozenset(later | imported)


def _without_parts(file: str, through: int, provided: frozenset[int]) -> set[str]:
    """The helpers of a reference that it no longer has; an exercise is taken from the learner's own."""
    source, gone = reference(file), _gone(file, through, provided)
    return source.definitions.keys() - without(gone, source) - gone


def _only_refuses(node: ast.AST) -> bool:
    """Whether a definition is a function that returns nothing: it can only raise."""
    returned = (
        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return | ast.Yield)
    )
    return isinstance(node, ast.FunctionDef) and not any(returned)
