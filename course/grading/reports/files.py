"""Files that are whole or not there: written under another name first, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Write a text file that takes its name only once all of it is on the disk.

    The draft has one fixed name in its folder, so that what a kill leaves behind is written over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / ".draft"
    with draft.open("w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
