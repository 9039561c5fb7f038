"""What a finished cell is known by: a digest of all that its figures depend on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch

from laboratory.study import REPEATS, Cell

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("implementation.py", "variants/*.py", "training/*.py")
# Of the laboratory, as its other files change no figure:
OWN = ("cell", "layers", "measures", "model", "recipe", "timed")
WHERE = ("data_dir",)  # settings that say where something lies


def digest_of(cell: Cell, data: str, device: torch.device) -> str:
    """A cell's.

    Args:
        cell: which.
        data: fingerprint of what it learns from.
        device: on which kind of device.
    """
    settings = {key: value for key, value in asdict(cell.settings).items() if key not in WHERE}
    whole = {
        "task": cell.task,
        "settings": settings,
        "recipe": asdict(cell.recipe),
        "measures": cell.measures,
        "data": data,
        "device": device.type,
        "torch": torch.__version__,
        "code": _code(cell.task == REPEATS),
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


@functools.cache
def _code(repeats: bool) -> str:
    """Of what the code does: comments and docstrings may change."""
    files = [path for pattern in SOURCES for path in sorted(ROOT.glob(pattern))]
    own = (*OWN, "induction") if repeats else OWN
    files += [ROOT / "laboratory" / f"{name}.py" for name in own]
    digest = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()
