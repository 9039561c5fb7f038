"""What has passed, and need not be run again: a file for each name, with a digest of what it depended on.

The files are in the user's cache directory and can be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path

import torch

from course.judging.observation_cache import cache_folder
from laboratory.running.machine import kind_of
from training.checkpoints import write_whole


def passed(name: str) -> str | None:
    """Return the digest with which something passed last; None where it never did."""
    try:
        return _file(name).read_text(encoding="utf-8")
    except OSError:
        return None


def note(name: str, digest: str) -> None:
    """Remember that something passed."""
    _file(name).parent.mkdir(parents=True, exist_ok=True)
    write_whole(_file(name), digest.encode())


def digest_of(parts: Iterable[str]) -> str:
    """Return a digest of texts, and of what numbers depend on beside them: Python, torch and the CPU."""
    digests = [hashlib.sha256(part.encode()).hexdigest() for part in (_machine(), *parts)]
    return hashlib.sha256(repr(digests).encode()).hexdigest()


def _file(name: str) -> Path:
    return cache_folder() / "passed" / name


@functools.cache
def _machine() -> str:
    return f"{platform.python_version()}, {torch.__version__}, {kind_of(torch.device('cpu'))}"
