"""Build modules from source: from a text, or from a file by its path."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType


def build_module(name: str, source: str, filename: str | None = None) -> ModuleType:
    """Build a module from the given source, without adding it to `sys.modules`; tracebacks can show its
    lines."""
    module = ModuleType(name)
    module.__file__ = filename
    execute(module, source)
    return module


def execute(module: ModuleType, source: str) -> None:
    """Run source as a module's code. Exceptions of its top level propagate."""
    file = module.__file__ = getattr(module, "__file__", None) or f"<{module.__name__}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    # Without what this file itself imports from the future.
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


def load_module(path: Path) -> ModuleType:
    """Import a file by its path, under a separate name."""
    name = f"course_loaded_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
