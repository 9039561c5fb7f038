"""Stubs as they were written last: what differs from them is someone's work."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course.curriculum import ROOT, Day
from course.references.editions import stub_of

STUB_DIGESTS = ROOT / "exercises" / "stubs.json"
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
    return digest(data) in (digest(stub_of(day).encode()), stub_digests().get(day.stem))


def stub_digests() -> dict[str, str]:
    """The digest of each stub, by its day's stem."""
    if not STUB_DIGESTS.exists():
        return {}
    digests: dict[str, str] = json.loads(STUB_DIGESTS.read_text(encoding="utf-8"))
    return digests
