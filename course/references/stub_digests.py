"""Digests of the stubs as they were last written: a file that differs contains a learner's work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course.curriculum import ROOT, Day
from course.references.editions import stub_of

STUB_DIGESTS = ROOT / "exercises" / "stubs.json"
"""The digests of each stub as it was written, the last one first: any other file is someone's work."""
MAX_KEPT = 3


def digest(data: bytes) -> str:
    """Return a short digest of a stub, independent of its line endings."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]


def is_untouched(day: Day, path: Path) -> bool:
    """Return whether a file is a stub of the day, as it is or was. A file that cannot be read is not."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    older = stub_digests().get(day.stem, [])
    return digest(data) in (digest(stub_of(day).encode()), *older)


def stub_digests() -> dict[str, list[str]]:
    """Return the digests of each stub, by its day's stem."""
    if not STUB_DIGESTS.exists():
        return {}
    digests: dict[str, list[str]] = json.loads(STUB_DIGESTS.read_text(encoding="utf-8"))
    return digests


def note_stub(digests: dict[str, list[str]], day: Day, data: bytes) -> None:
    """Add the digest of a stub that is written, and forget the oldest."""
    now = digest(data)
    older = [old for old in digests.get(day.stem, []) if old != now]
    digests[day.stem] = [now, *older][:MAX_KEPT]
