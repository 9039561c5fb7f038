"""What a submission may hold, whatever it comes in; and the words for what it may not."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass

MAX_ENTRIES = 5_000  # of a submission, folders counted
MAX_UNPACKED_BYTES = 100_000_000  # bytes that an archive may hold
MAX_ARCHIVE_BYTES = 50_000_000  # bytes that it may have itself
MAX_ARCHIVES = 50  # one for each day, and some
DEEPEST = 32  # folders within folders


class SubmissionRefused(Exception):
    """A submission that cannot be taken safely. The text says why, and what is allowed."""


def is_hidden(name: str) -> bool:
    """What a system or an editor put there: `.DS_Store`, `._day01_softmax.py`, `.venv`."""
    return name.startswith(".") or name == "__MACOSX"


def is_seen(path: str) -> bool:
    """Whether nothing on the way to a file is hidden."""
    return not any(map(is_hidden, path.split("/")))


def inside(name: str) -> str:
    """The path of an entry, written in one way: Windows PowerShell puts backslashes between folders.

    Raises:
        SubmissionRefused: it leads out of the archive, or may be read as if it did.
    """
    plain = name.replace("\\", "/")
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    outside = plain.startswith("/") or ".." in parts or re.match("[A-Za-z]:", plain)
    if outside or not name or "\0" in plain:
        raise SubmissionRefused(
            f"{shown(name)} leads out of the archive, or may: the names of entries must be relative, "
            "with `/` between folders and without `..`."
        )
    path = "/".join(parts)
    demand_shallow(path)
    return path


def demand_shallow(name: str) -> None:
    if name.count("/") > DEEPEST:
        raise SubmissionRefused(
            f"{shown(name)} is too deep: {DEEPEST} folders within folders are allowed."
        )


@dataclass
class Used:
    """How much of what one submission may hold its earlier archives have used up.

    Attributes:
        entries: files and folders.
        unpacked: bytes.
    """

    entries: int = 0
    unpacked: int = 0

    def add(self, *, entries: int = 0, unpacked: int = 0) -> None:
        """Use up some more.

        Raises:
            SubmissionRefused: together it is too much.
        """
        demand_few(self.entries + entries)
        demand_small(self.unpacked + unpacked)
        self.entries += entries
        self.unpacked += unpacked


def demand_few(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise SubmissionRefused(
            f"It holds more than {MAX_ENTRIES} files and folders: hand in the exercises alone."
        )


def demand_small(size: int) -> None:
    if size > MAX_UNPACKED_BYTES:
        most = MAX_UNPACKED_BYTES // 10**6
        raise SubmissionRefused(
            f"It holds more than {most} MB when unpacked: hand in the exercises alone."
        )


KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def demand_plain(name: str, mode: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):  # 0: not every zip says
        raise not_plain(name, KINDS.get(kind, "of an unknown kind"))


def linked_to(name: str, target: str, files: Collection[str]) -> str:
    """The file of the same submission that a symbolic link means; nothing is followed on the disk.

    Args:
        name: the link's path in the submission.
        target: what it holds.
        files: the paths of the submission's plain files.

    Raises:
        SubmissionRefused: it means anything else.
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if target.startswith("/") or path not in files:
        raise not_plain(name, KINDS[stat.S_IFLNK])
    return path


def not_plain(name: str, kind: str) -> SubmissionRefused:
    return SubmissionRefused(f"{shown(name)} is {kind}: only files and folders are allowed.")


def shown(name: str) -> str:
    """Someone's name for something, so that it can do no harm where it is printed."""
    text = repr(name)
    return text if len(text) <= 100 else f"{text[:60]}…{text[-39:]}"
