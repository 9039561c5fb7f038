"""Archives that write elsewhere, are bombs, or hold two of one name; and folders with more than files.

Whatever else an archive may hold is refused in the same way: `tests/course/grading/test_submissions.py` has
all of it.
"""

import gzip
import io
import os
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from course.curriculum import BY_NUMBER, ROOT
from tests.course.hostile.kinds import GRADED, Kind, right

Build = Callable[[Path], None]

WORK = {f"exercises/{BY_NUMBER[number].stem}.py": right(number).encode() for number in GRADED}
ZEROS = bytes(120_000_000)


def zip_bytes(name: str, content: bytes, claimed: int | None = None) -> bytes:
    """A zip of right answers and one more entry, of which its directory may claim another size."""
    data = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two entries may have one name
        for entry, body in [*WORK.items(), (name, content)]:
            archive.writestr(entry, body)
        archive.filelist[-1].file_size = len(content) if claimed is None else claimed
    return data.getvalue()


def tar_bytes(name: str, content: bytes) -> bytes:
    """The same as a tar."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for entry, body in [*WORK.items(), (name, content)]:
            info = tarfile.TarInfo(entry)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return data.getvalue()


def file(ending: str, make: Callable[[], bytes]) -> Build:
    """Writes one file, which is made only when it is needed."""
    return lambda path: Path(f"{path}{ending}").write_bytes(make()) and None


def folder(add: Callable[[Path], object]) -> Build:
    """Makes a folder with right answers, and adds something to it."""

    def build(path: Path) -> None:
        for name, content in WORK.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        add(path / "exercises")

    return build


with_a_pipe = folder(lambda path: os.mkfifo(path / "day03_masks.py"))

KINDS = [
    Kind(
        "zip-slip",
        "Has an entry that would be written outside.",
        build=file(".zip", lambda: zip_bytes("../../hostile-mark", b"x")),
        refused="leads out of the archive",
    ),
    Kind(
        "zip-bomb-that-lies",
        "Says that it holds ten bytes.",
        build=file(".zip", lambda: zip_bytes("zeros", ZEROS, claimed=10)),
        refused="cannot be read",
    ),
    Kind(
        "zip-of-one-name",
        "Has two files of one name: the later one counts, as it does for every unzip.",
        build=file(".zip", lambda: zip_bytes(next(iter(WORK)), b"0 = 1")),
        statuses={1: "error"},
    ),
    Kind(
        "zip-in-a-zip",
        "Holds an archive that is unsafe: it stays closed, and the rest counts.",
        build=file(".zip", lambda: zip_bytes("more.zip", zip_bytes("../hostile-mark", b""))),
    ),
    Kind(
        "tar-bomb",
        "Holds a thousand times its size.",
        build=file(".tar.gz", lambda: gzip.compress(tar_bytes("zeros", ZEROS), 1)),
        refused="more than 100 MB",
    ),
    Kind(
        "folder-with-a-socket",
        "Has a socket among its files.",
        build=folder(lambda path: os.mknod(path / "day01_softmax.py.socket", stat.S_IFSOCK)),
        refused="a socket",
    ),
    Kind(
        "folder-that-is-a-link",
        "Is itself a link, to the course with its solutions.",
        build=lambda path: path.symlink_to(ROOT),
        refused="a symbolic link",
    ),
]
