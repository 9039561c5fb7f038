"""Digests of what results depend on: a stored result is used only while all of this is unchanged."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from course.checks.answer_files import find_answer
from course.curriculum import DAYS, ROOT, Day
from course.judging.closed_words import KNOWN_MESSAGES
from course.references import editions

# An import anywhere in a text: to parse each file takes ten times as long.
IMPORT = re.compile(r"\b(?:from\s+([\w.]+)\s+)?import\s+(\([^()]*\)|[^\n]*)")

OBSERVING = ROOT / "course" / "judging" / "recorded.py"
"""Imports all that runs references and known wrong answers and keeps what was seen."""


def observation_digest(day: Day, seed: int, device: str) -> str:
    """Return a digest of what the reference's and the known wrong answers' observations depend on: the
    versions of Python, NumPy and torch, and the day's checks, wrong answers and references, with all that
    these, and what runs them, import."""
    which = (seed, device, environment(), _loaded(code_of(day)))
    return digest_of((day.checks, day.misconceptions), which)[:20]


@functools.cache
def code_of(day: Day) -> tuple[Path, ...]:
    """Return the files of ours on which a day's observations depend."""
    references = (ROOT / file for file in day.references)
    return _needed_by(day.checks, *references, OBSERVING)


def verdict_digest(day: Day, answer: Path | None) -> str:
    """Return a digest of what the usual verdict on an answer depends on: the observations with which it is
    compared, what the answer imports, and the judge's words.

    In a student edition this includes the day's recording, and the learner's own parts of earlier days,
    which stand in for the references.
    """
    files = [answer, *sorted(editions.FOLDER.glob(f"{day.stem}.*"))]
    if answer is not None and not editions.WHOLE:
        earlier = [other for other in DAYS if other.number < day.number]
        files += [
            find_answer(earlier_day, answer.parent)
            for earlier_day in earlier
            if editions.is_recorded(earlier_day)
        ]
    imported = _needed_by(*(_imported_by(answer) if answer else ()))
    return digest_of(files, (observation_digest(day, 0, "cpu"), _loaded(imported), _rooms()))


def digest_of(files: Iterable[Path | None], more: object = None) -> str:
    """Return a digest of the contents of some files, and of what `more` prints."""
    hasher = hashlib.sha256(repr(more).encode())
    for path in files:
        hasher.update(hashlib.sha256(_contents(path) if path else b"").digest())
    return hasher.hexdigest()


def _contents(path: Path) -> bytes:
    """The bytes of a file; of one that cannot be read, the reason, which is part of the verdict on it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        return f"errno {error.errno}".encode()


@functools.cache
def environment() -> tuple[str, ...]:
    libraries = (importlib.metadata.version(name) for name in ("numpy", "torch"))
    return platform.machine(), platform.python_version(), *libraries  # Python words some exceptions


# --- Code -----------------------------------------------------------------------------------------


@functools.cache
def _rooms() -> str:
    """A digest of the rooms by which answers are read and judged."""
    rooms = (ROOT / "course" / room for room in ("references", "checks", "judging"))
    return digest_of(
        sorted([*(file for room in rooms for file in room.glob("*.py")), KNOWN_MESSAGES])
    )


def _loaded(files: Iterable[Path]) -> list[str]:
    """Digests of code as it was when it was first asked for: what this process has loaded stays."""
    return [_at_first(file) for file in files]


@functools.cache
def _at_first(file: Path) -> str:
    return digest_of([file])


def _needed_by(*files: Path) -> tuple[Path, ...]:
    """These files and all of ours that they import, directly or through others."""
    reached: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += _imported_at_first(file)
    return tuple(sorted(reached))


def _imported_by(file: Path) -> list[Path]:
    """The files of ours that a Python file or a notebook imports, but for the `__init__.py` of packages."""
    imported = []
    for package, names in IMPORT.findall(_contents(file).decode(errors="replace")):
        modules = re.findall(r"[\w.]+", names)
        imported += (
            [package, *(f"{package}.{module}" for module in modules)] if package else modules
        )
    return [path for path in map(_file, dict.fromkeys(imported)) if path]


_imported_at_first = functools.cache(_imported_by)


@functools.cache
def _file(module: str) -> Path | None:
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    with contextlib.suppress(OSError):  # what a learner's file imports may be of any length
        return file if file.is_file() else None
    return None
