"""Git LFS pointers, which a clone without git-lfs has instead of large files."""

from __future__ import annotations

from pathlib import Path

from training.errors import Refused

BEGINNING = b"version https://git-lfs"


def refuse_a_pointer(path: Path) -> None:
    """Refuse a pointer instead of a file.

    Raises:
        Refused: the file is a pointer. A file that cannot be read is left to the caller.
    """
    try:
        with path.open("rb") as handle:
            beginning = handle.read(len(BEGINNING))
    except OSError:
        return
    if beginning == BEGINNING:
        raise Refused(
            f"{path} is a git-lfs pointer, and the file itself was not downloaded: run `git lfs pull` "
            f"in {path.parent}"
        )
