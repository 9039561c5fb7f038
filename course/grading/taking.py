"""Take the days' files from one submission safely, and note for every other file why it was not taken.

Everything in a submission is untrusted: names, contents, and the archives themselves. Nothing is unpacked to
the disk. Archives are read into memory, scanned completely, and refused if anything in them is unsafe. Only
the days' files are taken, under their plain names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import itertools
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar
from zipfile import ZipFile

from course.checks.answers import LARGEST_FILE, without_outputs
from course.curriculum import DAYS, Day
from course.grading.allowed import (
    LARGEST_ARCHIVE,
    MOST_ARCHIVES,
    SubmissionRefused,
    Used,
    demand_few,
    demand_plain,
    demand_shallow,
    is_hidden,
    is_seen,
    linked_to,
    shown,
)
from course.grading.archives import (
    class_zip,
    demand_safe,
    is_folder,
    most_read,
    read_member,
    time_of,
    unpack,
)
from course.grading.names import meaning, nearest
from course.grading.submissions import Source, is_archive
from course.references.editions import stub_of

NOT_THEIRS = ("lessons", "my", "solutions", "tests")  # folders beside the course's `exercises`

# Errors of this machine, which are no learner's fault.
OUR_TROUBLE = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}

APART = 2.0  # seconds: a zip knows even ones alone, and one program writes many files in a moment
MOST_TOLD = 60  # files that were not taken, of which each is named
MOST_NAMED = 5  # in a sentence
CHOSEN, SAME = " was taken, which ", "is the same"
LONGEST_PATH = 300  # characters of a path in a report


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


@dataclass(frozen=True)
class Taken:
    """What was taken from a submission, and what was not.

    Attributes:
        files: the days' files by their names, such as `day08_attention.py`.
        taken: a note on each of them.
        ignored: notes on the first files that were not taken, those with similar names first.
        ignored_count: the number of files that were not taken.
    """

    files: dict[str, bytes]
    taken: list[FileNote] = field(default_factory=list)
    ignored: list[FileNote] = field(default_factory=list)
    ignored_count: int = 0

    def without(self, name: str, why: str) -> Taken:
        """Return the same without a file that turned out to be useless."""
        files = {other: data for other, data in self.files.items() if other != name}
        [told] = [one for one in self.taken if one.name == name]
        ignored = [FileNote(told.path, "", why), *self.ignored][:MOST_TOLD]
        taken = [one for one in self.taken if one is not told]
        return Taken(files, taken, ignored, self.ignored_count + 1)

    def with_answer(self, name: str, data: bytes, why: str) -> Taken:
        """Return the same with an answer made from one of the files."""
        taken = [
            FileNote(one.path, name, "; ".join(filter(None, (one.why, why))))
            if one.name == name
            else one
            for one in self.taken
        ]
        return Taken(self.files | {name: data}, taken, self.ignored, self.ignored_count)


class _Archive(NamedTuple):
    """An archive among a learner's files, and when it was made, if that is known."""

    path: str
    time: float | None


@dataclass(frozen=True)
class _SubmittedFile:
    """A file of a submission, not read yet.

    Attributes:
        path: the path in the submission.
        read: returns at most this many of its first bytes.
        time: the modification time in seconds, if known.
        rank: greater for later submissions, if the download says so.
        archive: the archive that contains it.
    """

    path: str
    read: Callable[[int], bytes]
    time: float | None = None
    rank: int = 0
    archive: _Archive | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def told(self) -> str:
        """Its path as valid text, whatever bytes the name has."""
        return self.path.encode("utf-8", "backslashreplace").decode()[:LONGEST_PATH]

    @property
    def place(self) -> PurePosixPath:
        """Its path, with archives as folders."""
        return PurePosixPath(self.path)


def take(source: Source) -> Taken:
    """The days' files of a submission.

    A name that is nearly right is accepted. If there are several files for one day, `RULES` select one.
    Notebooks are taken without their outputs. A file larger than LARGEST_FILE is truncated to one byte more.

    Raises:
        SubmissionRefused: the submission cannot be taken safely.
        OSError: this machine could not read it, which is no learner's fault.
    """
    try:
        with _files(source) as files:
            return _take(list(files), source.earlier)
    except OSError as error:
        if error.errno in OUR_TROUBLE:
            raise
        name = Path(str(error.filename)).name
        raise SubmissionRefused(f"{shown(name)} cannot be read: {error.strerror}.") from error


def nothing_found(taken: Taken, days: list[Day]) -> str:
    """Return a message for a submission without any of these days' files: found, nearest, expected."""
    count = len(taken.taken) + taken.ignored_count
    if not count:
        return f"What was handed in is empty. {_expected(days)}"
    found = [f"{shown(one.path)} (a day that is not graded here)" for one in taken.taken]
    found += [_found(one) for one in taken.ignored]
    more = count - len(found[:MOST_NAMED])
    listed = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more else "")
    return f"None of the days' files was found. There is {listed}. {_expected(days)}"


def _found(one: FileNote) -> str:
    name = shown(one.path)
    if one.why:
        return f"{name} ({one.why})"
    return f"{name} (nearest to {one.name})" if one.name else name


def _expected(days: list[Day]) -> str:
    first = days[0].stem
    which = f"{first}.py" if len(days) == 1 else f"one file for each day, from {first}.py on"
    return (
        f"Expected is {which}, by itself, in a folder or in a zip; or {first}.ipynb, with the tag "
        "`answer` on the cells that are the answer."
    )


# --- Choosing -------------------------------------------------------------------------------------


def _take(files: list[_SubmittedFile], earlier: Collection[str]) -> Taken:
    everything = sorted(_unpacked(files), key=lambda file: file.path)  # no system's own order
    strangers = _of_the_course(everything)
    by_day: dict[str, list[_SubmittedFile]] = {}
    rest = []
    for file in everything:
        answer = meaning(file.name)
        if answer and file.path not in strangers:
            by_day.setdefault(answer.partition(".")[0], []).append(file)
        else:
            rest.append(file)
    data, taken, ignored = {}, [], []
    for _, candidates in sorted(by_day.items()):
        chosen, losers = _choose(candidates)
        name = str(meaning(chosen.name))
        content = chosen.read(most_read(name))
        if len(content) > LARGEST_FILE and name.endswith(".ipynb"):
            content = without_outputs(content)
        data[name] = content[: LARGEST_FILE + 1]
        taken.append(FileNote(chosen.told, name, "" if chosen.name == name else f"taken as {name}"))
        ignored += losers
    ignored += [FileNote(name, "", "it was handed in again") for name in earlier]
    ignored += _strange(rest, strangers)
    return Taken(data, taken, ignored[:MOST_TOLD], len(ignored))


def _strange(files: list[_SubmittedFile], strangers: Collection[str]) -> list[FileNote]:
    """Return notes on files that are no answers, those with similar names first."""
    ready = [day for day in DAYS if day.ready]
    told = []
    for number, file in enumerate(files):
        if file.path in strangers:
            told.append(FileNote(file.told, "", "it belongs to the course"))
        elif file.archive and is_archive(file.path):
            told.append(FileNote(file.told, "", "an archive within an archive is not opened"))
        else:
            near = nearest(file.name, ready) if number < 2 * MOST_TOLD else None
            told.append(FileNote(file.told, near or "", ""))
    return sorted(told, key=lambda one: (not one.name, bool(one.why)))


def _of_the_course(files: list[_SubmittedFile]) -> set[str]:
    """Return the paths that belong to the course, in a copy of the whole course."""
    parents = {file.place.parent for file in files}
    courses = {folder.parent for folder in parents if folder.name == "exercises"}
    ours = {course / folder for course in courses for folder in NOT_THEIRS}
    return {file.path for file in files if not ours.isdisjoint(file.place.parents)}


Rule = Callable[[list[_SubmittedFile]], list[_SubmittedFile]]
"""Narrows several files for one day down to those that may count."""


def _choose(files: list[_SubmittedFile]) -> tuple[_SubmittedFile, list[FileNote]]:
    """Return the file that counts for a day, and notes on why the others do not."""
    losers = []
    left = files
    for rule, why in RULES:
        if len(left) == 1:
            break
        kept = rule(left)
        losers += [(file, why) for file in left if file not in kept]
        left = kept
    [chosen] = left
    content = chosen.read(most_read(chosen.name)) if losers else b""
    return chosen, [
        FileNote(file.told, "", f"{shown(chosen.path)}{CHOSEN}{_reason(file, content, why)}")
        for file, why in losers
    ]


def _reason(file: _SubmittedFile, content: bytes, why: str) -> str:
    return SAME if file.read(most_read(file.name)) == content else why


def _only(counts: Callable[[_SubmittedFile], bool]) -> Rule:
    """Return the rule that only files that satisfy a condition count, if there are any."""
    return lambda files: [file for file in files if counts(file)] or files


def _greatest(key: Callable[[_SubmittedFile], Any]) -> Rule:
    """Return the rule that only the files with the greatest key count."""

    def kept(files: list[_SubmittedFile]) -> list[_SubmittedFile]:
        greatest = max(map(key, files))
        return [file for file in files if key(file) == greatest]

    return kept


def _latest_archives(files: list[_SubmittedFile]) -> list[_SubmittedFile]:
    latest = _latest({file.archive for file in files if file.archive})
    return [file for file in files if file.archive in latest] or files


def _latest_across_archives(files: list[_SubmittedFile]) -> list[_SubmittedFile]:
    return _latest(files) if len({file.archive for file in files}) > 1 else files


def _archive_path(file: _SubmittedFile) -> str:
    return file.archive.path if file.archive else ""


# Which of several files for one day counts. Each rule is applied where the earlier rules leave several, and
# has the words that tell why the file that was taken comes before the others.
RULES: tuple[tuple[Rule, str], ...] = (
    (_only(lambda file: not _is_stub(file)), "is more than the stub"),
    (_only(lambda file: str(meaning(file.name)).endswith(".py")), "is no notebook"),
    (_greatest(lambda file: file.rank), "was handed in later"),
    (_only(lambda file: file.archive is None), "is in no archive"),
    (_latest_archives, "is in a later archive"),
    (_latest_across_archives, "is later"),
    (
        _greatest(lambda file: _numbers_apart(_archive_path(file))),
        "is in an archive that is later by its name",
    ),
    (lambda files: _latest(files), "is later"),
    (_greatest(lambda file: -_depth(file)), "is in fewer folders"),
    (_only(lambda file: file.place.parent.name == "exercises"), "is in `exercises`"),
    (_only(lambda file: file.name == meaning(file.name)), "has the exact name"),
    (lambda files: [min(files, key=lambda file: file.path)], "comes first by its name"),
)


Dated = TypeVar("Dated", _SubmittedFile, _Archive)


def _latest(things: Iterable[Dated]) -> list[Dated]:
    """Return the last modified ones, as far as their times show; all of them if a time is missing."""
    things = list(things)
    times = [thing.time for thing in things if thing.time is not None]
    if not times or len(times) < len(things):
        return things
    last = max(times)
    return [thing for thing, time in zip(things, times, strict=True) if last - time <= APART]


def _depth(file: _SubmittedFile) -> int:
    """Return the depth of a file in folders, not counting those around its archive."""
    return len(file.place.parts) - len(PurePosixPath(_archive_path(file)).parts)


def _numbers_apart(path: str) -> list[tuple[int, str]]:
    """A key by which `day10.zip` comes after `day2.zip`."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", path.lower())
    return [(int(one[:18]), "") if one[0] in "0123456789" else (-1, one) for one in pieces]


def _is_stub(file: _SubmittedFile) -> bool:
    """Whether a file is a day's stub, whatever its line endings."""
    stub = _stub(str(meaning(file.name)).partition(".")[0])
    return bool(stub) and file.read(2 * len(stub)).replace(b"\r\n", b"\n") == stub


@functools.cache
def _stub(stem: str) -> bytes:
    day = next(day for day in DAYS if day.stem == stem)
    return stub_of(day).encode() if day.ready else b""


# --- Archives -------------------------------------------------------------------------------------


def _unpacked(files: list[_SubmittedFile]) -> list[_SubmittedFile]:
    """Return the files with archives replaced by their contents, an archive counting as a folder."""
    archives = [file for file in files if is_archive(file.path)]
    if len(archives) > MOST_ARCHIVES:
        raise SubmissionRefused(
            f"It holds more than {MOST_ARCHIVES} archives: one for each day is enough."
        )
    used = Used()
    found = [file for file in files if not is_archive(file.path)]
    for file in archives:
        entries = unpack(file.path, file.read(LARGEST_ARCHIVE + 1), used)
        archive = _Archive(file.path, file.time)
        found += [
            _SubmittedFile(
                f"{file.path}/{entry.path}",
                functools.partial(_first, entry.data or b""),
                entry.time,
                file.rank,
                archive,
            )
            for entry in entries
        ]
    return found


def _first(data: bytes, most: int) -> bytes:
    return data[:most]


# --- Files on the disk ----------------------------------------------------------------------------


@contextlib.contextmanager
def _files(source: Source) -> Iterator[Iterable[_SubmittedFile]]:
    ranks = source.ranks or (0,) * len(source.names)
    if source.members:
        with class_zip(source.paths[0]) as archive:
            yield _members(archive, source, ranks)
    else:
        yield itertools.chain(*map(_on_disk, source.paths, source.names, ranks))


# A link or FIFO that replaced the file after it was examined is not followed, nor waited for.
READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def _on_disk(path: Path, name: str, rank: int) -> Iterator[_SubmittedFile]:
    """Yield a file, or all files in a folder that are not hidden."""
    found = path.lstat()
    demand_plain(name, found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        yield _SubmittedFile(name, functools.partial(_read_file, path), found.st_mtime, rank)
        return
    count = 0
    links: list[tuple[str, str]] = []
    plain: dict[str, _SubmittedFile] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(path / folder) as entries:
            for entry in entries:
                count += 1
                demand_few(count)
                if is_hidden(entry.name):
                    continue
                inner = f"{folder}{entry.name}"
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    links.append((inner, str((path / inner).readlink())))
                    continue
                demand_plain(inner, found.st_mode)
                if stat.S_ISDIR(found.st_mode):
                    demand_shallow(inner)
                    folders.append(f"{inner}/")
                else:
                    read = functools.partial(_read_file, path / inner)
                    plain[inner] = _SubmittedFile(inner, read, found.st_mtime, rank)
    for inner, target in links:
        file = plain[linked_to(inner, target, plain)]
        plain[inner] = dataclasses.replace(file, path=inner)
    yield from plain.values()


def _read_file(path: Path, most: int) -> bytes:
    with os.fdopen(os.open(path, READING), "rb") as file:
        demand_plain(path.name, os.fstat(file.fileno()).st_mode)
        return file.read(most)


# --- Files in the zip of a class ------------------------------------------------------------------


def _members(archive: ZipFile, source: Source, ranks: Iterable[int]) -> list[_SubmittedFile]:
    """Return the files of one learner in the zip of a class."""
    entries = [archive.getinfo(member) for member in source.members]
    demand_safe(entries, Used())
    return [
        _SubmittedFile(name, functools.partial(read_member, archive, entry), time_of(entry), rank)
        for name, entry, rank in zip(source.names, entries, ranks, strict=True)
        if not is_folder(entry) and is_seen(name)
    ]
