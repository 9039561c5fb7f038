"""A cache of the runs of a day's checks on the reference and the known wrong answers.

The file's name has a digest of everything that the runs depend on (`digests.py`), so no entry is
ever outdated. A file is a zip archive with members for each check, each a sequence of frames as
workers send them. It is replaced atomically, so that a kill or a second process leaves either the
old file or the new one.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import platformdirs

from course.checks.frames import BadFrame, from_bytes, read_frame, to_bytes, write_frame
from course.checks.observation import Observation
from course.curriculum import Day
from course.judging.digests import observation_digest

MAX_CACHE_BYTES = 500_000_000  # bytes of all files together; the least recently used are deleted

Frames = list[tuple[dict[str, Any], Observation]]

# What reading a damaged archive may raise.
DAMAGE = (
    *(OSError, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError),
    *(zlib.error, zipfile.BadZipFile),
)


class ObservationCache:
    """A file of cached runs."""

    def __init__(self, path: Path) -> None:
        """Create a cache without reading its file."""
        self._path = path
        self._archive: zipfile.ZipFile | None = None
        self._new: dict[str, bytes] = {}

    def __contains__(self, member: str) -> bool:
        return member in self._new or member in self._members()

    def read(self, member: str) -> Frames | None:
        """Return the frames of a member, or None if it is missing or damaged."""
        try:
            data = self._new[member] if member in self._new else self._stored(member)
            return list(_unpacked(data))
        except DAMAGE:
            return None

    def add(self, member: str, frames: Iterable[tuple[dict[str, Any], Observation]]) -> None:
        """Add a member, or replace the one of that name."""
        packed = io.BytesIO()
        for message, observation in frames:
            write_frame(packed, to_bytes(message, observation))
        self._new[member] = packed.getvalue()

    def write(self) -> None:
        """Add the new members to the file, if its folder is writable."""
        if self._new:
            with contextlib.suppress(OSError):
                self.write_to(self._path)
                self._new.clear()
                _bound(self._path.parent)

    def write_to(self, path: Path, packing: int = zipfile.ZIP_DEFLATED) -> None:
        """Write all members to a file, including those that a second process has added meanwhile.

        Args:
            packing: how members are packed, by `zipfile`'s name for it.

        Raises:
            OSError: the file cannot be written.
        """
        self._close()
        path.parent.mkdir(parents=True, exist_ok=True)
        present = self._members()
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as draft:
            pass
        part = Path(draft.name)
        try:
            with part.open("w+b") as file:
                if present and not present & self._new.keys() and packing == zipfile.ZIP_DEFLATED:
                    with self._path.open("rb") as stored:
                        shutil.copyfileobj(stored, file)  # without packing it again
                    packed = self._new
                else:
                    packed = {**self._stored_but(self._new), **self._new}
                with zipfile.ZipFile(file, "a", packing) as archive:
                    for member, data in packed.items():
                        archive.writestr(member, data)
            self._close()
            part.chmod(0o644)  # an edition is read by others
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _stored_but(self, excluded: Iterable[str]) -> dict[str, bytes]:
        """Return the sound members of the file, except for some."""
        members = {}
        for member in sorted(self._members().difference(excluded)):
            with contextlib.suppress(*DAMAGE):
                members[member] = self._stored(member)
        return members

    def _members(self) -> set[str]:
        try:
            return set(self._opened().namelist())
        except DAMAGE:
            return set()

    def _stored(self, member: str) -> bytes:
        return self._opened().read(member)

    def _opened(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(self._path)
            with contextlib.suppress(OSError):
                os.utime(self._path)  # it is in use
        return self._archive

    def _close(self) -> None:
        if self._archive is not None:
            self._archive.close()
            self._archive = None


def _unpacked(data: bytes) -> Iterable[tuple[dict[str, Any], Observation]]:
    """Return the frames of a member.

    Raises:
        ValueError: the member is damaged.
    """
    stream = io.BytesIO(data)
    while (frame := read_frame(stream)) is not None:
        yield from_bytes(frame)
    if stream.tell() != len(data):
        raise BadFrame("a piece of a frame")


def _bound(folder: Path) -> None:
    """Delete the least recently used files if all files together are too large."""
    files = [(path.stat(), path) for path in folder.glob("*.zip")]
    room = MAX_CACHE_BYTES
    for status, path in sorted(files, key=lambda entry: -entry[0].st_mtime):
        room -= status.st_size
        if room < 0:
            path.unlink(missing_ok=True)


# --- Where ----------------------------------------------------------------------------------------


def cache_of(day: Day, seed: int, device: str) -> ObservationCache:
    """Return the cache of a day for one seed and device."""
    return ObservationCache(
        cache_folder() / "observed" / f"{day.stem}-{observation_digest(day, seed, device)}.zip"
    )


def recording_of(day: Day, seed: int) -> Path:
    """Return where a day's complete recording for editions is cached."""
    return cache_folder() / "recorded" / f"{day.stem}-{observation_digest(day, seed, 'cpu')}.seen"


def cache_folder() -> Path:
    """Return the cache directory: $COURSE_CACHE, or the user's."""
    own = os.environ.get("COURSE_CACHE")
    return Path(own) if own else platformdirs.user_cache_path("transformers-from-scratch-course")
