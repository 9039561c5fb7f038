"""The global state that an answer may change in its process, and that a later day's answer relies on.

Several days of one learner run in one process. A file that changes torch's default dtype, or replaces one
of NumPy's functions, must not affect the next day's verdict.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from course.checks.arrays import loaded_torch

MODULES = (
    "builtins",
    "math",
    "numpy",
    "numpy.linalg",
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.optim",
)
CLASSES = (("torch", "Tensor"), ("torch.nn", "Module"), ("torch.nn", "Parameter"))


class ProcessSnapshot:
    """The global state of this process at one moment."""

    def __init__(self) -> None:
        self._settings = _settings()
        self._contents = [dict(vars(holder)) for holder in _holders()]

    def is_clean(self) -> bool:
        """Return whether nothing has changed since. Additions, such as by a late import, do not count
        as changes."""
        return self._settings == _settings() and all(
            vars(holder).get(name) is value
            for holder, before in zip(_holders(), self._contents, strict=True)
            for name, value in before.items()
        )


def _holders() -> list[Any]:
    loaded = {name: sys.modules[name] for name in MODULES if name in sys.modules}
    if loaded_torch() is None:  # in the sandbox of a NumPy day it may be an empty folder
        loaded.pop("torch", None)
    modules = [*loaded.values()]
    classes = [getattr(loaded[module], name) for module, name in CLASSES if module in loaded]
    return [*modules, *classes]


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return None


def _settings() -> list[Any]:
    settings: list[Any] = [
        sys.getrecursionlimit(),
        list(sys.path),
        list(sys.meta_path),
        dict(os.environ),
        _folder(),
        threading.active_count(),
    ]
    if "numpy" in sys.modules:
        settings.append(sys.modules["numpy"].geterr())
    torch = loaded_torch()
    if torch is not None:
        settings += [
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_num_threads(),
            torch.is_autocast_enabled("cpu"),
        ]
    return settings
