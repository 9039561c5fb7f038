"""Digests of the stubs as they were last written: a file that differs contains a learner's work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course.curriculum import ROOT, Day
from course.references.editions import stub_of

STUB_DIGESTS = ROOT / "exercises" / "stubs.json"
"""The digest of every stub as it was written last: a stub that differs from it is someone's work."""


def digest(data: bytes) -> str:
    """Return a short digest of a stub, independent of its line endings."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]


def is_untouched(day: Day, path: Path) -> bool:
    """Return whether a file is the unchanged stub of the day. A file that cannot be read is not."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return digest(data) in (digest(stub_of(day).encode()), stub_digests().get(day.stem))


def stub_digests() -> dict[str, str]:
    """Return the digest of each stub, by its day's stem."""
    if not STUB_DIGESTS.exists():
        return {}
    digests: dict[str, str] = json.loads(STUB_DIGESTS.read_text(encoding="utf-8"))
    return digests
