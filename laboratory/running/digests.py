"""What a finished cell is known by: a digest of all that its figures depend on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from laboratory.study.description import Cell

ROOT = Path(__file__).resolve().parents[2]
CELL = Path(__file__).with_name("cell.py")
WHERE = ("data_dir",)  # settings that say where something lies
COMPUTES_NOTHING = (
    # What they read is part of the digest: the settings, and a fingerprint of the data.
    *("laboratory/study/description.py", "training/settings.py"),
    *("training/data/corpora.py", "training/data/downloads.py", "training/data/grammar.py"),
    # What they write and print has been computed before.
    *("laboratory/study/results.py", "training/checkpoints.py", "training/loop/run_folder.py"),
    *("training/errors.py", "training/loop/monitor.py", "training/loop/signals.py"),
)
"""Files that a cell imports, and that no figure depends on: they may change without a new run."""


def digest_of(cell: Cell, data: str, device: torch.device, machine: str) -> str:
    """A cell's.

    Args:
        data: fingerprint of what it learns from.
        machine: its kind, on which the last digits depend.
    """
    settings = {key: value for key, value in asdict(cell.settings).items() if key not in WHERE}
    contents = {
        "task": cell.task,
        "settings": settings,
        "recipe": asdict(cell.recipe),
        "measures": cell.measures,
        "selection": cell.rate is not None,
        "data": data,
        "device": device.type,
        "machine": machine,
        "torch": torch.__version__,
        "code": _code(),
    }
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


@functools.cache
def _code() -> str:
    """Of what the code does that a cell is computed by: comments, docstrings and the words of an
    exception may change."""
    texts = []
    for tree in _needed(CELL).values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                node.exc.args, node.exc.keywords = [], []
            if isinstance(node, ast.ImportFrom):
                node.module = None  # what is imported counts; where it is stored may change
        texts.append(ast.dump(tree))
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()


def _needed(start: Path) -> dict[Path, ast.Module]:
    """Find a file and the files of ours that it imports, directly or not, without COMPUTES_NOTHING."""
    modules: dict[Path, ast.Module] = {}
    passed_over = {ROOT / name for name in COMPUTES_NOTHING}
    waiting = [start]
    while waiting:
        file = waiting.pop()
        if file not in modules and file not in passed_over:
            modules[file] = ast.parse(file.read_bytes())
            waiting += _imported(modules[file])
    return modules


def _imported(tree: ast.Module) -> Iterator[Path]:
    """The files of ours that a file imports."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if file.is_file():
                yield file
