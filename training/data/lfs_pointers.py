"""What git-lfs keeps in place of a large file: its digest, which a clone without git-lfs leaves there."""

from __future__ import annotations

import re
from pathlib import Path

from training.errors import Refused

POINTER = re.compile(r"oid sha256:([0-9a-f]{64})$", re.MULTILINE)
BEGINNING = b"version https://git-lfs"


def refuse_a_pointer(path: Path) -> None:
    """Refuse a pointer in place of a file.

    Raises:
        Refused: the file is one. A file that cannot be read is left to whoever reads it next.
    """
    try:
        with path.open("rb") as handle:
            beginning = handle.read(len(BEGINNING))
    except OSError:
        return
    if beginning == BEGINNING:
        raise Refused(
            f"{path} is a pointer of git-lfs, and the file itself was not fetched: run `git lfs pull` "
            f"in {path.parent}"
        )
