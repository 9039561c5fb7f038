"""What an import of a reference gives where somebody's answer runs: the definitions of earlier days."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from course.curriculum import DAYS, Day
from course.references.modules import execute

Cut = Mapping[str, tuple[str, dict[str, int]]]
"""For each reference module: its source, and the days of the definitions that are withheld, by name."""

OwnPart = Callable[[str, Day], object]
"""Gives the learner's own definition of a name that an earlier day asked for, or raises ImportError."""


@contextmanager
def references_cut(cut: Cut, day: int, own: OwnPart) -> Iterator[None]:
    """Within it, importing a reference gives only the definitions of earlier days.

    Args:
        cut: what there is to import, and what is withheld.
        day: the number of today.
        own: stands in for earlier days whose reference is not here.
    """
    before = {name: sys.modules.pop(name) for name in cut if name in sys.modules}
    finder = _CutReferences(cut, day, own)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in cut:
            sys.modules.pop(name, None)
        sys.modules.update(before)


class _CutReferences(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports cut references; only when they are asked for, as importing torch takes long."""

    def __init__(self, cut: Cut, day: int, own: OwnPart) -> None:
        self._cut = cut
        self._day = day
        self._own = own

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name in self._cut else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        source, withheld = self._cut[name]
        execute(module, source)
        module.__dict__["__getattr__"] = functools.partial(
            _withheld, name, withheld, self._day, self._own
        )


def _withheld(module: str, withheld: dict[str, int], day: int, own: OwnPart, name: str) -> object:
    if name in withheld and withheld[name] < day:
        return own(name, DAYS[withheld[name] - 1])
    if name in withheld:
        later = f"belongs to day {withheld[name]}, after today"
        when = "is today's exercise" if withheld[name] == day else later
        raise ImportError(
            f"{name} of {module} {when}: it is yours to write, so it cannot be imported here. "
            "What earlier days wrote can."
        )
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
