"""Files that are whole or not there: written under another name first, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a draft to write, which takes the file's name only once all of it is on the disk.

    The draft has one fixed name in its folder, so that what a kill leaves behind is written over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / ".draft"
    yield draft
    with draft.open("rb+") as file:  # Windows flushes no file that was opened to be read
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Write a text file that is whole or not there."""
    with replaced(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        yield file
