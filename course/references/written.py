"""Stubs as they were written last: what differs from them is someone's work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course.curriculum import ROOT, Day
from course.references.editions import stub_of

WRITTEN = ROOT / "exercises" / "stubs.json"
"""The digest of every stub as it was written last: a stub that differs from it is someone's work."""


def digest(data: bytes) -> str:
    """A short digest of a stub, whatever line ends git or an editor gave it."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]


def is_untouched(day: Day, path: Path) -> bool:
    """Whether a file is the day's stub as it was written. A file that cannot be read is not."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return digest(data) in (digest(stub_of(day).encode()), written().get(day.stem))


def written() -> dict[str, str]:
    """The digest of each stub, by its day's stem."""
    if not WRITTEN.exists():
        return {}
    digests: dict[str, str] = json.loads(WRITTEN.read_text(encoding="utf-8"))
    return digests
