"""What a file of ours depends on: the modules that it imports, directly or through others.

A module that is named in a string counts as imported: `["-m", "tests.training.in_processes"]` starts one.
Two kinds of files are read and not followed, because their imports are made late and one at a time: the
`__init__.py` of packages, and the `course` command.

Written here rather than taken from grimp: notebooks, single modules and folders without `__init__.py` are
no packages.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.curriculum import ROOT

DOTTED = re.compile(r"\b[a-z_]\w*(?:\.\w+)+")
NOT_FOLLOWED = ("__init__.py", "cli.py")


@functools.cache
def needed_by(file: Path) -> frozenset[Path]:
    """Return a file of ours and all files that it imports, directly or through others."""
    found: set[Path] = set()
    left = [file]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            if one == file or one.name not in NOT_FOLLOWED:
                left += imported_by(one)
    return frozenset(found)


@functools.cache
def imported_by(file: Path) -> frozenset[Path]:
    """Return the files of ours that a Python file or a notebook imports or names."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(code_of(file))):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [name for name in DOTTED.findall(node.value) if _file(name)]
        else:
            continue
        for name in names:
            found.update(_files(name))
    return frozenset(found)


def code_of(file: Path) -> str:
    """Return a Python file's text, or the text of a notebook's code cells."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in code_cells(text))


def code_cells(notebook: str) -> list[dict[str, Any]]:
    """Return the code cells of a notebook's text."""
    return [cell for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]


def _files(name: str) -> Iterator[Path]:
    """Find the module that a name is or is defined in, and the packages around it."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if file := _file(".".join(parts[:length])):
            yield file


@functools.cache
def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    both = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in both if file.is_file()), None)
