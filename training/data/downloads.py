"""Files that are downloaded once, checked, and stored.

A file at its final path is always complete: it is downloaded into a `.part` file, and renamed only when its
digest is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
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
TRIES = 3
WAIT = 0.5  # seconds; doubled before each further try
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
        data_dir: the folder to search and to download to, instead of the cache.
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
            "another with --data-dir."
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
    """Fetch the file, again after a fault that may pass, and give it its name once it is complete."""
    part = _beside(target, ".part")
    for tries in range(1, TRIES + 1):
        try:
            _download(file, part, console)
            why, final = _mismatch(file, part), False
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            why, final = f"it answered {status}", status < 500 and status not in (408, 429)
        except httpx.RequestError as error:
            why, final = str(error) or type(error).__name__, isinstance(error, httpx.ConnectError)
        if not why:
            part.replace(target)
            return
        if final or tries == TRIES:
            break
        _say(console, f"{file.name}: {why}; trying again.")
        time.sleep(WAIT * 2**tries)
    part.unlink(missing_ok=True)
    raise Refused(
        f"{file.name} could not be fetched from {httpx.URL(file.url).host}: {why}. It is needed once, then "
        f"it is kept in {target.parent}. Without a network, put the file ({file.url}) at {target}, or point "
        "--data-dir at a folder that has it."
    )


def _download(file: File, part: Path, console: Console) -> None:
    """Download the file to a path, with a bar on a terminal. Every file here has a few megabytes at most."""
    as_it_is = {"Accept-Encoding": "identity"}  # a .gz is wanted packed
    with httpx.stream(
        "GET", file.url, headers=as_it_is, timeout=STALL, follow_redirects=True
    ) as response:
        response.raise_for_status()
        total = int(response.headers.get("Content-Length", 0)) or None
        if not console.is_terminal:
            _say(console, f"Fetching {file.name}" + (f" ({total / 1e6:.1f} MB)" if total else ""))
        columns = (*Progress.get_default_columns(), DownloadColumn())
        with (
            part.open("wb") as out,
            Progress(*columns, console=console, disable=not console.is_terminal) as bar,
        ):
            task = bar.add_task(file.name, total=total)
            for chunk in response.iter_raw():
                out.write(chunk)
                bar.advance(task, len(chunk))


@contextlib.contextmanager
def _alone(file: File, target: Path, console: Console) -> Iterator[None]:
    """Be the only one to fetch this file, of all threads and programs; wait for whoever does.

    The system lets go of this lock when its holder ends, however it ends. The lock's file is deleted only
    once the target is complete: whoever has the deleted one open finds the target and fetches nothing.
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


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
