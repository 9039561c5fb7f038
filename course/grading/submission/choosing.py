"""Choose the file that counts where a submission has several for one day."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from course.curriculum import DAYS
from course.grading.submission.files import Archive, SubmittedFile
from course.grading.submission.limits import shown
from course.references.editions import stub_of

APART = 2.0  # seconds: a zip knows even ones alone, and one program writes many files in a moment
MAX_STUB_BYTES = 100_000  # bytes
CHOSEN, SAME = " was taken, which ", "is the same"
UNDERSTOOD = "the day that fits"


@dataclass(frozen=True)
class FileNote:
    """A note on one file of a submission.

    Attributes:
        path: the path in the submission.
        name: the day's file that it was taken as, or that the name of a file not taken is nearest to.
        why: the decision in words; empty if there was none to make.
    """

    path: str
    name: str
    why: str

    @property
    def of_several(self) -> bool:
        """Whether a file for the same day with different content was taken instead."""
        return CHOSEN in self.why and not self.why.endswith(SAME)

    @property
    def understood(self) -> bool:
        """Whether its name has more than a day's, so that whoever teaches should know how it was read."""
        return UNDERSTOOD in self.why


Rule = Callable[[list[SubmittedFile]], list[SubmittedFile]]
"""Narrows several files for one day down to those that may count."""


def choose(files: list[SubmittedFile]) -> tuple[SubmittedFile, list[FileNote]]:
    """Return the file that counts for a day, and notes on why the others do not."""
    losers = []
    candidates = files
    for rule, why in RULES:
        if len(candidates) == 1:
            break
        winners = rule(candidates)
        losers += [(file, why) for file in candidates if file not in winners]
        candidates = winners
    [chosen] = candidates
    content = chosen.read(chosen.most_read) if losers else b""
    notes = []
    for file, why in losers:
        reason = SAME if file.read(file.most_read) == content else why
        notes.append(FileNote(file.shown_path, "", f"{shown(chosen.path)}{CHOSEN}{reason}"))
    return chosen, notes


def _only(counts: Callable[[SubmittedFile], bool]) -> Rule:
    """Return the rule that only files that satisfy a condition count, if there are any."""
    return lambda files: [file for file in files if counts(file)] or files


def _greatest(key: Callable[[SubmittedFile], Any]) -> Rule:
    """Return the rule that only the files with the greatest key count."""

    def kept(files: list[SubmittedFile]) -> list[SubmittedFile]:
        greatest = max(map(key, files))
        return [file for file in files if key(file) == greatest]

    return kept


def _latest_archives(files: list[SubmittedFile]) -> list[SubmittedFile]:
    latest = _latest({file.archive for file in files if file.archive})
    return [file for file in files if file.archive in latest] or files


def _latest_across_archives(files: list[SubmittedFile]) -> list[SubmittedFile]:
    return _latest(files) if len({file.archive for file in files}) > 1 else files


def _archive_path(file: SubmittedFile) -> str:
    return file.archive.path if file.archive else ""


# Which of several files for one day counts. Each rule is applied where the earlier rules leave several, and
# has the words that tell why the file that was taken comes before the others.
RULES: tuple[tuple[Rule, str], ...] = (
    (
        _only(lambda file: not is_stub(file.read(MAX_STUB_BYTES), file.means)),
        "is more than the stub",
    ),
    (_greatest(lambda file: -max(1, file.beside)), "has a name nearer to the day's"),
    (_only(lambda file: str(file.means).endswith(".py")), "is no notebook"),
    (_greatest(lambda file: file.rank), "was handed in later"),
    (_greatest(lambda file: -file.packed), "is in fewer archives"),
    (_latest_archives, "is in a later archive"),
    (_latest_across_archives, "is later"),
    (
        _greatest(lambda file: _numbers_apart(_archive_path(file))),
        "is in an archive that is later by its name",
    ),
    (lambda files: _latest(files), "is later"),
    (_greatest(lambda file: -_depth(file)), "is in fewer folders"),
    (_only(lambda file: file.place.parent.name == "exercises"), "is in `exercises`"),
    (
        _greatest(lambda file: _numbers_apart(file.name) if file.beside == 1 else []),
        "is a later version by its name",
    ),
    (_only(lambda file: file.name == file.means), "has the exact name"),
    (lambda files: [min(files, key=lambda file: file.path)], "comes first by its name"),
)


Dated = TypeVar("Dated", SubmittedFile, Archive)


def _latest(things: Iterable[Dated]) -> list[Dated]:
    """Return the last modified ones, as far as their times show; all of them if a time is missing."""
    things = list(things)
    times = [item.time for item in things if item.time is not None]
    if not times or len(times) < len(things):
        return things
    last = max(times)
    return [item for item, time in zip(things, times, strict=True) if last - time <= APART]


def _depth(file: SubmittedFile) -> int:
    """Return the depth of a file in folders, not counting those around its archive."""
    return len(file.place.parts) - len(PurePosixPath(_archive_path(file)).parts)


def _numbers_apart(path: str) -> list[tuple[int, str]]:
    """A key by which `day10.zip` comes after `day2.zip`."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", path.lower())
    return [(int(piece[:18]), "") if piece[0] in "0123456789" else (-1, piece) for piece in pieces]


def is_stub(data: bytes, name: str | None) -> bool:
    """Return whether a file that means a day's by its name is the stub, regardless of its line endings."""
    return bool(data) and data.replace(b"\r\n", b"\n") == _stub(str(name).partition(".")[0])


@functools.cache
def _stub(stem: str) -> bytes:
    day = next(day for day in DAYS if day.stem == stem)
    return stub_of(day).encode() if day.ready else b""
