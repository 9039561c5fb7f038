"""Files that are downloaded once, checked, and stored.

A file at its final path is always complete: it is downloaded into a `.part` file, which a later run
can resume, and renamed only when its digest is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import platformdirs
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress

from training.errors import Refused

STALL = 20.0  # seconds without a byte after which an answer is given up
TRIES = 5  # in a row, that bring the file no further
WAIT = 0.5  # seconds before the next try; doubled at each that brings nothing
POLL_SECONDS = 0.1  # seconds between two looks whether another program has done


@dataclass(frozen=True)
class File:
    """A published file."""

    name: str  # in the cache and in a data folder; may be "multi30k/train.de.gz"
    url: str
    sha256: str


Fetch = Callable[[File, Path, Console], None]
"""Brings a file to its path, checked; it raises `Refused` where that cannot be."""


def find(file: File, data_dir: Path | None, console: Console, fetch: Fetch | None = None) -> Path:
    """Return the file's path: in the data folder or in the cache, downloaded if necessary.

    Args:
        file: the file.
        data_dir: the folder to search and to download to, instead of the cache.
        console: shows the download.
        fetch: downloads the file; from its URL if omitted.

    Raises:
        Refused: the file cannot be downloaded; the message says why, and what to do.
    """
    target = (data_dir or cache()) / file.name
    try:
        if path := _at_hand(file, data_dir, target):
            return path
        with _alone(file, target, console):
            if path := _at_hand(file, data_dir, target):
                return path  # whoever was waited for has fetched it
            if target.exists():
                _say(console, f"{target} is damaged: {_mismatch(file, target)}.")
            (fetch or _fetch)(file, target, console)
    except OSError as error:
        raise Refused(
            f"{file.name} could not be read from or kept in the folder {target.parent}: "
            f"{error.strerror or error}. Make that folder writable and make room in it, or choose "
            "another with --data-dir; the download so far is kept, and resumed."
        ) from error
    return target


def cache() -> Path:
    """Return the folder in which files are stored."""
    own = os.environ.get("COURSE_CACHE")
    return Path(own) if own else platformdirs.user_cache_path("transformers-from-scratch-course")


def _at_hand(file: File, data_dir: Path | None, target: Path) -> Path | None:
    """Where the file is already, if it is there and right."""
    for path in (target,) if data_dir is None else (target, data_dir / target.name):
        if path.is_file():
            wrong = _mismatch(file, path)
            if not wrong:
                return path
            if data_dir:  # it is the user's: not ours to replace
                raise Refused(
                    f"{path} is not the expected file: {wrong}. Put the right one in its place, "
                    f"or move it away, and it is fetched from {file.url}."
                )
    return None


def _fetch(file: File, target: Path, console: Console) -> None:
    """Fetch the file, once more from zero if its digest is wrong, and give it its name."""
    part = _beside(target, ".part")
    for _ in range(2):
        _Download(file, target, console).run()
        wrong = _mismatch(file, part)
        if not wrong:
            break
        _say(console, f"{file.name} came damaged: {wrong}.")
        _forget(part)
    else:
        raise Refused(
            f"{file.url} is not the expected file: {wrong}. Its publisher may have changed it, or "
            "something on the way does."
        )
    with part.open("rb+") as handle:
        os.fsync(handle.fileno())
    part.replace(target)
    _forget(part)


class _Broken(Exception):
    """An answer that another try may better. Its text says what was wrong with it."""


class _Download:
    """One file on its way into its `.part`, over as many answers as that takes."""

    def __init__(self, file: File, target: Path, console: Console) -> None:
        self._file = file
        self._target = target
        self._part = _beside(target, ".part")
        self._version = _beside(self._part, ".version")  # the ETag or date of what the part is of
        self._console = console
        columns = (*Progress.get_default_columns(), DownloadColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task(file.name, total=None)
        self._announced = console.is_terminal

    def run(self) -> None:
        """Complete the `.part` file, starting from what it already contains."""
        furthest, idle, answered = _size(self._part), 0, False
        with httpx.Client(timeout=STALL, follow_redirects=True) as client, self._bar:
            while True:
                try:
                    return self._attempt(client)
                except (httpx.RequestError, _Broken) as error:
                    # Beyond the furthest yet: else a server that ignores Range is asked for ever.
                    idle = 0 if _size(self._part) > furthest else idle + 1
                    furthest = max(furthest, _size(self._part))
                    why = str(error) or type(error).__name__
                    offline = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                    if idle == TRIES or (offline and not answered):
                        raise self._refusal(why) from error
                    answered = True
                _say(self._console, f"{self._file.name}: {why}; trying again.")
                time.sleep(WAIT * 2**idle)

    def _attempt(self, client: httpx.Client) -> None:
        """Ask for what is missing, and append what comes."""
        have, version = _size(self._part), _text(self._version)
        headers = {"Accept-Encoding": "identity"}  # a .gz is wanted as it is
        if have:
            headers["Range"] = f"bytes={have}-"
            if version:
                headers["If-Range"] = version
        with client.stream("GET", self._file.url, headers=headers) as response:
            start, total = self._span(response, have, version)
            if response.status_code == 416:
                return  # nothing is missing; the digest will tell whether it is right
            self._announce(start, total)
            with self._part.open("ab" if start else "wb") as out:
                if not start:  # before the first byte, so that no byte is of another version
                    self._version.write_text(_version_of(response), encoding="utf-8")
                for chunk in response.iter_raw():
                    out.write(chunk)
                    self._bar.advance(self._task, len(chunk))
        if total is not None and _size(self._part) != total:
            raise _Broken(f"it ended at {_size(self._part)} of {total} bytes")

    def _span(self, response: httpx.Response, have: int, version: str) -> tuple[int, int | None]:
        """Where in the file the answer's bytes belong, and the file's length, where it is told."""
        status = response.status_code
        if status == 200:
            length = response.headers.get("Content-Length")
            return 0, int(length) if length else None
        answer = response.headers.get("Content-Range", "")
        span = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", answer)
        start, total = (int(n) if n else None for n in (span.groups() if span else (None, None)))
        if status == 206 and start == have:
            # Some servers know Range but not If-Range.
            if not version or _version_of(response) in ("", version):
                return have, total
        elif status == 416 and total == have:
            return have, total
        if status in (206, 416):
            _forget(self._part)
            raise _Broken("what was kept is no part of the file as it is now")
        reason = f"it answered {status} {response.reason_phrase}"
        if status >= 500 or status in (408, 429):
            raise _Broken(reason)
        raise self._refusal(reason)

    def _announce(self, start: int, total: int | None) -> None:
        self._bar.reset(self._task, total=total, completed=start)
        if not self._announced:
            size = f" ({total / 1e6:.1f} MB)" if total else ""
            _say(self._console, f"Fetching {self._file.name}{size}")
        self._announced = True

    def _refusal(self, why: str) -> Refused:
        file, target = self._file, self._target
        note = " What has come so far is kept, and resumed." if _size(self._part) else ""
        return Refused(
            f"{file.name} could not be fetched from {httpx.URL(file.url).host}: {why}. It is needed "
            f"once, then it is kept in {target.parent}. Without a network, put the file "
            f"({file.url}) at {target}, or point --data-dir at a folder that has it.{note}"
        )


@contextlib.contextmanager
def _alone(file: File, target: Path, console: Console) -> Iterator[None]:
    """Be the only one to fetch this file, of all threads and programs; wait for whoever does.

    The system lets go of this lock when its holder ends, however it ends, so a part can have one
    fixed name, and whoever comes next goes on with it: a file made with O_EXCL would outlive a killed
    program, and parts named by process would not be found again. The lock's file is deleted only once
    the target is whole: whoever has the deleted one open finds the target and fetches nothing.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_path := _beside(target, ".lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        _say(console, f"Another program is fetching {file.name}; waiting for it.")
        lock.acquire(poll_interval=POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):  # Windows deletes no file that another program waits at
            if target.exists():
                lock_path.unlink()


def _mismatch(file: File, path: Path) -> str:
    """What is wrong with the content of `path`; nothing if right."""
    actual = digest(path)
    if actual == file.sha256:
        return ""
    return f"its SHA-256 should be {file.sha256[:12]}…, and is {actual[:12]}…"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _version_of(response: httpx.Response) -> str:
    """What tells this version from another, byte by byte; weak ETags do not."""
    etag: str = response.headers.get("ETag", "")
    date: str = response.headers.get("Last-Modified", "")
    return etag if etag and not etag.startswith("W/") else date


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _beside(part, ".version").unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _text(path: Path) -> str:
    """The line in a small file of ours; nothing where a crash left something else."""
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
    return text if text.isascii() and text.isprintable() else ""


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
