"""Imports of references by an answer, which gets the definitions of earlier days."""

from __future__ import annotations

import base64
import builtins
import functools
import importlib.abc
import importlib.util
import marshal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from course.curriculum import BY_NUMBER, Day


class RedactedReference(NamedTuple):
    """What an answer can import from a reference.

    Attributes:
        code: the definitions, compiled and packed as text; empty if there are none.
        offered: the names that can be imported.
        withheld: the days of the definitions that cannot be imported, by name.
        foreign: whether neither the day's exercises nor its checks use this reference.
    """

    code: str
    offered: Sequence[str]
    withheld: Mapping[str, int]
    foreign: bool


Redacted = Mapping[str, RedactedReference]
"""What there is to import of each reference, by the module's name."""

OwnPart = Callable[[str, Day], object]
"""Gives the learner's own definition of a name that an earlier day asked for, or raises ImportError."""


@contextmanager
def redacted_imports(redacted: Redacted, day: int, own: OwnPart) -> Iterator[None]:
    """Limit imports of references to the definitions of earlier days within the context.

    Args:
        redacted: what can be imported, and what is withheld.
        own: replaces earlier days whose reference is not available.
    """
    finder = _RedactedReferences(redacted, day, own)
    before = {name: sys.modules.pop(name) for name in finder.names if name in sys.modules}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in finder.names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


class _RedactedReferences(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports redacted references; only when they are asked for, as importing torch takes long."""

    def __init__(self, redacted: Redacted, day: int, own: OwnPart) -> None:
        self._redacted = {name: RedactedReference(*part) for name, part in redacted.items()}
        self._packages = {name.partition(".")[0] for name in redacted if "." in name}
        self.names = {*self._redacted, *self._packages}
        self._day = day
        self._own = own

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name in self._packages:  # it holds what is cut, and no file
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return importlib.util.spec_from_loader(name, self) if name in self._redacted else None

    def exec_module(self, module: ModuleType) -> None:
        """Provide the offered definitions, but nothing that these import themselves."""
        name = module.__name__
        if name in self._packages:
            return
        part = self._redacted[name]
        inner = {"__name__": name, "__builtins__": builtins}
        if part.code:
            exec(marshal.loads(base64.b64decode(part.code)), inner)
        module.__dict__.update({offered: inner[offered] for offered in part.offered})
        module.__dict__["__getattr__"] = functools.partial(
            _withheld, name, part, self._day, self._own
        )


def _withheld(module: str, part: RedactedReference, day: int, own: OwnPart, name: str) -> object:
    if name not in part.withheld:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    its_day = part.withheld[name]
    if part.foreign and its_day < day:
        raise ImportError(
            f"{name} of {module} is day {its_day}'s, and day {day} is not built on {module}: it cannot "
            "be imported here."
        )
    if its_day < day:
        return own(name, BY_NUMBER[its_day])
    when = "is today's exercise" if its_day == day else f"belongs to day {its_day}, after today"
    raise ImportError(
        f"{name} of {module} {when}: it is yours to write, so it cannot be imported here. "
        "What earlier days wrote can."
    )


def is_redacted() -> bool:
    """Return whether imports are limited now: an answer is being loaded or checked."""
    return any(isinstance(finder, _RedactedReferences) for finder in sys.meta_path)
