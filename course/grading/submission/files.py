"""The files of a submission, not read yet: on the disk, in archives, or in the zip of a class."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zipfile import ZipFile

from course.checks.answer_files import ENDINGS, largest
from course.grading.submission.archives import (
    class_zip,
    demand_safe,
    is_folder,
    read_member,
    time_of,
    unpack,
)
from course.grading.submission.limits import (
    MAX_ARCHIVE_BYTES,
    MAX_ARCHIVES,
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
from course.grading.submission.names import Reading, reading
from course.grading.submission.sources import Source, is_archive

MAX_PATH_LENGTH = 300  # characters of a path in a report


class Archive(NamedTuple):
    """An archive among a learner's files, when it was made, if known, and how many it is in, with itself."""

    path: str
    time: float | None
    depth: int


@dataclass(frozen=True)
class SubmittedFile:
    """A file of a submission, not read yet.

    Attributes:
        path: the path in the submission.
        read: returns at most this many of its first bytes.
        time: the modification time in seconds, if known.
        rank: greater for later submissions, if the download says so.
        archive: the archive that contains it.
        renames: see `reading`.
        closed: why an archive was not opened.
    """

    path: str
    read: Callable[[int], bytes]
    time: float | None = None
    rank: int = 0
    archive: Archive | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    closed: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @functools.cached_property
    def _reading(self) -> Reading | None:
        return reading(self.name, self.renames)

    @property
    def means(self) -> str | None:
        """The day's file that it is by its name, or nearly."""
        return self._reading.name if self._reading else None

    @property
    def beside(self) -> int:
        """How much its name has beside a day's, as in a `Reading`."""
        return self._reading.beside if self._reading else 0

    @property
    def packed(self) -> int:
        """How many archives it is in."""
        return self.archive.depth if self.archive else 0

    @property
    def most_read(self) -> int:
        """The bytes of an answer that are read: one more than it may have."""
        return largest(str(self.means)) + 1

    @property
    def is_notebook(self) -> bool:
        return (self.means or self.name.lower()).endswith(".ipynb")

    @property
    def shown_path(self) -> str:
        """Its path as valid text, whatever bytes the name has."""
        return self.path.encode("utf-8", "backslashreplace").decode()[:MAX_PATH_LENGTH]

    @property
    def place(self) -> PurePosixPath:
        """Its path, with archives as folders."""
        return PurePosixPath(self.path)


# --- Archives -------------------------------------------------------------------------------------


TOO_DEEP = "it is in an archive within an archive."


def unpacked(files: list[SubmittedFile]) -> list[SubmittedFile]:
    """Return the files with archives replaced by their contents, an archive counting as a folder.

    Archives in an archive come last. One that is unsafe or too large stays closed, for it may be anything
    that a learner packed with their work.
    """
    result: list[SubmittedFile] = []
    used, size, count, waiting = Used(), 0, 0, deque(files)
    while waiting:
        file = waiting.popleft()
        if not is_archive(file.path):
            result.append(file)
            continue
        try:
            if file.packed > 1:
                raise SubmissionRefused(TOO_DEEP)
            data = file.read(MAX_ARCHIVE_BYTES + 1)
            count, size = count + 1, len(data) + (0 if file.packed else size)
            _demand_little(file.path, count, size)
            waiting += _opened(file, data, used)
        except SubmissionRefused as error:
            if not file.packed:
                raise
            result.append(dataclasses.replace(file, closed=f"it was not opened: {error}"))
    return result


def _demand_little(path: str, count: int, size: int) -> None:
    if count > MAX_ARCHIVES:
        raise SubmissionRefused(
            f"It holds more than {MAX_ARCHIVES} archives: one for each day is enough."
        )
    if size > MAX_ARCHIVE_BYTES:
        most = MAX_ARCHIVE_BYTES // 10**6
        raise SubmissionRefused(
            f"{shown(path)} is larger than {most} MB: hand in the exercises alone."
        )


def _opened(file: SubmittedFile, data: bytes, used: Used) -> list[SubmittedFile]:
    """Return the files in an archive, the smallest first: a large one, which may be anything, takes no room
    from an answer's."""
    archive = Archive(file.path, file.time, file.packed + 1)

    def wanted(path: str) -> int:
        if not is_seen(path):
            return 0
        if is_archive(path):
            return MAX_ARCHIVE_BYTES + 1 if archive.depth == 1 else 0
        if path.lower().endswith(ENDINGS):  # it may be for several days
            return largest(path) + 1
        recognized = reading(path.rpartition("/")[2], file.renames)
        return largest(recognized.name) + 1 if recognized else 0

    entries = unpack(file.path, data, used, wanted)
    return [
        SubmittedFile(
            f"{file.path}/{entry.path}",
            functools.partial(_first, entry.data or b""),
            entry.time,
            file.rank,
            archive,
            file.renames,
        )
        for entry in sorted(entries, key=lambda entry: len(entry.data or b""))
    ]


def _first(data: bytes, most: int) -> bytes:
    return data[:most]


# --- Files on the disk ----------------------------------------------------------------------------


@contextlib.contextmanager
def files_of(source: Source) -> Iterator[list[SubmittedFile]]:
    ranks = source.ranks or (0,) * len(source.names)
    renames = dict(source.renames)
    if source.members:
        with class_zip(source.paths[0]) as archive:
            members = _members(archive, source, ranks)
            yield [dataclasses.replace(file, renames=renames) for file in members]
    else:
        on_disk = itertools.chain(*map(_on_disk, source.paths, source.names, ranks))
        yield [dataclasses.replace(file, renames=renames) for file in on_disk]


# A link or FIFO that replaced the file after it was examined is not followed, nor waited for.
READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def _on_disk(path: Path, name: str, rank: int) -> Iterator[SubmittedFile]:
    """Yield a file, or all files in a folder that are not hidden."""
    status = path.lstat()
    demand_plain(name, status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        yield SubmittedFile(name, functools.partial(_read_file, path), status.st_mtime, rank)
        return
    start = name if name.endswith("/") else ""
    count = 0
    links: list[tuple[str, str]] = []
    plain: dict[str, SubmittedFile] = {}
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
                entry_status = entry.stat(follow_symlinks=False)
                if stat.S_ISLNK(entry_status.st_mode):
                    links.append((inner, str((path / inner).readlink())))
                    continue
                demand_plain(inner, entry_status.st_mode)
                if stat.S_ISDIR(entry_status.st_mode):
                    demand_shallow(inner)
                    folders.append(f"{inner}/")
                else:
                    read = functools.partial(_read_file, path / inner)
                    plain[inner] = SubmittedFile(inner, read, entry_status.st_mtime, rank)
    for inner, target in links:
        file = plain[linked_to(inner, target, plain)]
        plain[inner] = dataclasses.replace(file, path=inner)
    yield from (
        dataclasses.replace(submitted, path=start + submitted.path) for submitted in plain.values()
    )


def _read_file(path: Path, most: int) -> bytes:
    with os.fdopen(os.open(path, READING), "rb") as file:
        demand_plain(path.name, os.fstat(file.fileno()).st_mode)
        return file.read(most)


# --- Files in the zip of a class ------------------------------------------------------------------


def _members(archive: ZipFile, source: Source, ranks: Iterable[int]) -> list[SubmittedFile]:
    """Return the files of one learner in the zip of a class."""
    entries = [archive.getinfo(member) for member in source.members]
    demand_safe(entries, Used())
    return [
        SubmittedFile(name, functools.partial(read_member, archive, entry), time_of(entry), rank)
        for name, entry, rank in zip(source.names, entries, ranks, strict=True)
        if not is_folder(entry) and is_seen(name)
    ]
