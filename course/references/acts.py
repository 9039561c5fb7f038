"""The form of a lesson in three acts: the idea, write it, use it on the learner's own code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from course.curriculum import Day, module_of
from course.references.lessons import ACTS, MAX_PREDICTIONS, PREDICTION

Cell = Any  # a cell of nbformat, which has no types


def faults_of_acts(day: Day, cells: Sequence[Cell]) -> Iterator[str]:
    """Find what is wrong with the acts of a lesson."""
    begins = [n for n, cell in enumerate(cells) for tag in ACTS if tag in _tags(cell)]
    tags = [tag for n in begins for tag in _tags(cells[n]) if tag in ACTS]
    if tags != list(ACTS) or not all(cells[n].source.startswith("## ") for n in begins):
        yield f"the headings of its second and third act need the tags {' and '.join(ACTS)}"
        return
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    if (count := len(PREDICTION.findall(prose))) > MAX_PREDICTIONS:
        yield f"it has {count} predictions, and at most {MAX_PREDICTIONS} are allowed"
    if re.search(r"before you write it", prose, re.IGNORECASE):
        yield "it has a part 'Before you write it'"
    own: set[str] = set()
    for number, cell in enumerate(cells):
        if cell.cell_type == "code":
            for what in _uses(day, ast.parse(cell.source), number > begins[1], own):
                yield f"{what}: {cell.source.splitlines()[0]!r}"


def _tags(cell: Cell) -> list[str]:
    tags: list[str] = cell.metadata.get("tags", [])
    return tags


def _uses(day: Day, code: ast.Module, is_use: bool, own: set[str]) -> Iterator[str]:
    """Wrong uses of a day's exercises in a cell.

    Args:
        is_use: whether the cell is in the third act or after it.
        own: the exercises that cells up to here have taken by `yours`; it grows.
    """
    modules = {module_of(file) for file in day.references}
    for node in code.body:
        if is_use and (name := _taken(node)) in day.exercises:
            own.add(name)
            continue
        for child in ast.walk(node):
            for name in _named(child, modules) & set(day.exercises):
                if not is_use:
                    yield f"{name} is used before it is written"
                elif name not in own or not isinstance(child, ast.Name):
                    yield f'{name} is not taken by {name} = yours("{name}")'
                elif isinstance(child.ctx, ast.Store):
                    yield f"{name} is replaced"


def _taken(node: ast.stmt) -> str:
    """The name that a statement such as `attention = yours("attention", day=2)` takes; else nothing."""
    match node:
        case ast.Assign(
            targets=[ast.Name(name)],
            value=ast.Call(ast.Name("yours"), [ast.Constant(argument)]),
        ) if argument == name:
            return name
    return ""


def _named(node: ast.AST, modules: set[str]) -> set[str]:
    """The definitions that a piece of code names: by itself, in an import, or in a reference's module."""
    match node:
        case ast.Name(name) | ast.FunctionDef(name) | ast.ClassDef(name):
            return {name}
        case ast.ImportFrom(module, names) if module in modules:
            return {alias.name for alias in names}
        case ast.Attribute(value, name) if ast.unparse(value) in modules:
            return {name}
    return set()
