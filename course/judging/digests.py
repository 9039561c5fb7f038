"""Digests of what results depend on: a result that was kept is used only while all of it is unchanged."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path

from course.checks.answers import find_answer
from course.curriculum import DAYS, ROOT, Day
from course.judging.closed_words import KNOWN_MESSAGES
from course.references import editions


def observation_digest(day: Day, seed: int, device: str) -> str:
    """Return a digest of what the reference's and the known wrong answers' observations depend on: the
    versions of Python, NumPy and torch, the day's checks and wrong answers, and the code that runs them."""
    which = (seed, device, _environment(), _code())
    return _digest((day.checks, day.misconceptions), which)[:20]


def verdict_digest(day: Day, answer: Path | None) -> str:
    """Return a digest of what the usual verdict on an answer depends on.

    In a student edition this includes the day's recording, and the learner's own parts of earlier days,
    which stand in for the references.
    """
    files = [answer, *sorted(editions.FOLDER.glob(f"{day.stem}.*"))]
    if answer is not None and not editions.WHOLE:
        earlier = DAYS[: day.number - 1]
        files += [find_answer(one, answer.parent) for one in earlier if editions.is_recorded(one)]
    return _digest(files, observation_digest(day, 0, "cpu"))


def course_digest() -> str:
    """Return a digest of the whole course: what a grade depends on, beside the submission."""
    folders = (ROOT / "course", ROOT / "tests" / "days", ROOT / "variants")
    code = (one for folder in folders for one in folder.rglob("*.py"))
    return _digest(sorted([*ROOT.glob("*.py"), *code, KNOWN_MESSAGES]))


def _digest(files: Iterable[Path | None], more: object = None) -> str:
    whole = hashlib.sha256(repr(more).encode())
    for path in files:
        whole.update(hashlib.sha256(_contents(path) if path else b"").digest())
    return whole.hexdigest()


def _contents(path: Path) -> bytes:
    """The bytes of a file; of one that cannot be read, the reason, which is part of the verdict on it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        return f"errno {error.errno}".encode()


@functools.cache
def _environment() -> tuple[str, ...]:
    libraries = (importlib.metadata.version(name) for name in ("numpy", "torch"))
    return platform.machine(), platform.python_version(), *libraries  # Python words some exceptions


@functools.cache
def _code() -> str:
    """A digest of the references, and of the rooms by which they are run and looked at."""
    rooms = (ROOT / "course" / room for room in ("references", "checks", "judging"))
    files = (path for folder in (*rooms, ROOT / "variants") for path in folder.glob("*.py"))
    return _digest(sorted([*ROOT.glob("*.py"), *files]))
