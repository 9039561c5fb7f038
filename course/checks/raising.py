"""Exceptions as data, with the traceback's lines of the learner's own file."""

from __future__ import annotations

import builtins
import contextlib
import difflib
import linecache
import re
import sys
import traceback

from course.checks.observation import Raised
from course.curriculum import RAISE

NOT_IN_MODULE = re.compile(r"cannot import name '(\w+)'")
DEEPEST_TRACEBACK = 12  # endless recursion fills a thousand lines that say the same


def raised(error: BaseException, file: str | None) -> Raised:
    """Return an exception as data, with only those lines of its traceback that are in the answer's own
    file."""
    frames = [
        _place(line, frame.f_code.co_qualname, frame.f_code.co_filename)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file
    ][-DEEPEST_TRACEBACK:]
    cpu_line = getattr(error, "cpu_line", None)  # where the practice GPU raised it
    if isinstance(error, SyntaxError) and error.filename == file:
        frames.append((error.lineno or 0, "", (error.text or "").strip()))
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    if has_lost_gpu(error):
        message = message.partition("\n")[0]  # what follows is advice to those who write kernels
    kind = "MemoryError" if _is_out_of_memory(error) else type(error).__name__
    own = [_place(*cpu_line)] if cpu_line else []
    return Raised(kind, message, frames, _is_stubs_own(error, file), own, _suggestion(error))


def _suggestion(error: BaseException) -> str:
    """Return the name that was probably meant, as Python's tracebacks do; the answer's own frames know it."""
    unknown: str | None = None
    names: list[str] = []
    if isinstance(error, NameError):
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        unknown, names = error.name, [*frame.f_locals, *frame.f_globals, *dir(builtins)]
    elif isinstance(error, AttributeError):
        with contextlib.suppress(Exception):  # an object may say anything of its attributes
            unknown, names = error.name, dir(error.obj)
    elif isinstance(error, ImportError) and (module := sys.modules.get(error.name or "")):
        missing = NOT_IN_MODULE.match(error.msg)  # Python 3.11 has the name nowhere else
        unknown, names = missing and missing[1], dir(module)
    candidates = [name for name in names if isinstance(name, str)]
    return next(iter(difflib.get_close_matches(unknown or "", candidates, 1)), "")


def has_lost_gpu(error: BaseException | None) -> bool:
    """Return whether the process can no longer use its GPU, because a kernel failed, as at an index out
    of range."""
    return type(error).__name__ == "AcceleratorError"


def _place(line: int, name: str, file: str) -> tuple[int, str, str]:
    return line, name, linecache.getline(file, line).strip()


def _is_out_of_memory(error: BaseException) -> bool:
    """NumPy and torch have kinds of their own for it, and torch on the CPU has only words."""
    if "can't allocate memory" in str(error):
        return True
    return bool(
        {kind.__name__ for kind in type(error).__mro__} & {"MemoryError", "OutOfMemoryError"}
    )


def _is_stubs_own(error: BaseException, file: str | None) -> bool:
    """Whether it comes from a line that is the stub's, unchanged, and not from a base class's method."""
    if type(error) is not NotImplementedError or error.args:
        return False
    *_, (last, line) = traceback.walk_tb(error.__traceback__)
    name = last.f_code.co_filename
    return name == file and linecache.getline(name, line).strip() == RAISE
