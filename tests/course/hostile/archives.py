"""Archives that write elsewhere, are bombs, or cannot be read; and folders with more than files."""

import gzip
import io
import os
import socket
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from course.curriculum import BY_NUMBER, ROOT
from tests.course.hostile.kinds import GRADED, Kind, right

Entry = zipfile.ZipInfo | str
Build = Callable[[Path], None]

WORK = {f"exercises/{BY_NUMBER[number].stem}.py": right(number).encode() for number in GRADED}
ZEROS = bytes(120_000_000)


def zip_bytes(
    *odd: tuple[Entry, bytes], change: Callable[[list[zipfile.ZipInfo]], None] = lambda _: None
) -> bytes:
    """A zip of right answers and odd entries; what its directory says may be changed at last."""
    data = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two entries may have one name
        for entry, content in [*WORK.items(), *odd]:
            archive.writestr(entry, content)
        change(archive.filelist)
    return data.getvalue()


def tar_bytes(*odd: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A tar of right answers and odd entries."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for entry, content in [*((tarfile.TarInfo(name), one) for name, one in WORK.items()), *odd]:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
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


def of_type(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """An entry of a tar that is no file."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def linked(name: str) -> zipfile.ZipInfo:
    """An entry of a zip that is a symbolic link."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def encrypted(entries: list[zipfile.ZipInfo]) -> None:
    entries[0].flag_bits |= 1


def overlapping(entries: list[zipfile.ZipInfo]) -> None:
    entries[1].header_offset = entries[0].header_offset


def smaller_than_it_is(entries: list[zipfile.ZipInfo]) -> None:
    entries[-1].file_size = 10


def bind(path: Path) -> None:
    """Make a socket, whose path may not be long."""
    here = Path.cwd()
    os.chdir(path)
    try:
        socket.socket(socket.AF_UNIX).bind("day01_softmax.py.socket")
    finally:
        os.chdir(here)


with_a_pipe = folder(lambda path: os.mkfifo(path / "day03_masks.py"))

REFERENCE = str(ROOT / "numpy_reference.py")
OUT = "leads out of the archive"

KINDS = [
    Kind(
        "zip-slip",
        "Has an entry that would be written outside.",
        build=file(".zip", lambda: zip_bytes(("../../hostile-mark", b"x"))),
        refused=OUT,
    ),
    Kind(
        "zip-from-the-root",
        "Has an entry with an absolute path.",
        build=file(".zip", lambda: zip_bytes(("/tmp/hostile-mark", b"x"))),
        refused=OUT,
    ),
    Kind(
        "zip-of-another-system",
        "Has an entry that leads out where `\\` parts folders.",
        build=file(".zip", lambda: zip_bytes(("exercises\\..\\..\\hostile-mark", b"x"))),
        refused=OUT,
    ),
    Kind(
        "zip-with-a-link",
        "Has a link to the reference for an answer.",
        build=file(".zip", lambda: zip_bytes((linked("day03_masks.py"), REFERENCE.encode()))),
        refused="a symbolic link",
    ),
    Kind(
        "zip-with-a-password",
        "Is encrypted.",
        build=file(".zip", lambda: zip_bytes(change=encrypted)),
        refused="is encrypted",
    ),
    Kind(
        "zip-bomb",
        "Holds a thousand times its size.",
        build=file(".zip", lambda: zip_bytes(("zeros", ZEROS))),
        refused="more than 100 MB",
    ),
    Kind(
        "zip-bomb-that-lies",
        "Says that it holds ten bytes.",
        build=file(".zip", lambda: zip_bytes(("zeros", ZEROS), change=smaller_than_it_is)),
        refused="cannot be read",
    ),
    Kind(
        "zip-of-one-file",
        "Has entries that share their bytes, as bombs do that need no depth.",
        build=file(".zip", lambda: zip_bytes(change=overlapping)),
        refused="overlap in the archive",
    ),
    Kind(
        "zip-of-many",
        "Has more entries than any honest work.",
        build=file(".zip", lambda: zip_bytes(*((f"{n}", b"") for n in range(6000)))),
        refused="more than 5000 files",
    ),
    Kind(
        "zip-in-depth",
        "Has folders in folders.",
        build=file(".zip", lambda: zip_bytes(("deep/" * 1000 + "day01_softmax.py", b""))),
        refused="is too deep",
    ),
    Kind(
        "zip-cut-short",
        "Ends too early.",
        build=file(".zip", lambda: zip_bytes()[:-30]),
        refused="cannot be read",
    ),
    Kind(
        "zip-of-one-name",
        "Has two files of one name: the later one counts, as it does for every unzip.",
        build=file(".zip", lambda: zip_bytes(*((name, b"0 = 1") for name in list(WORK)[:1]))),
        statuses={1: "error"},
    ),
    Kind(
        "zip-in-a-zip",
        "Holds an archive, in which nobody looks.",
        build=file(".zip", lambda: zip_bytes(("more.zip", zip_bytes(("../hostile-mark", b""))))),
    ),
    Kind(
        "two-archives",
        "Is a folder with two archives, each with all of the work.",
        build=folder(lambda path: [file(f"/{n}.zip", zip_bytes)(path) for n in "ab"]),
    ),
    Kind(
        "no-archive",
        "Is called an archive, and is noise.",
        build=file(".7z", lambda: b"7z\xbc\xaf\x27\x1c" + bytes(range(256))),
        refused="cannot be read",
    ),
    Kind(
        "tar-with-a-hard-link",
        "Has a second name for a file of this machine.",
        build=file(".tar", lambda: tar_bytes((of_type("x.py", tarfile.LNKTYPE, REFERENCE), b""))),
        refused="a hard link",
    ),
    Kind(
        "tar-with-a-link",
        "Has a link to a folder, and a file in it.",
        build=file(
            ".tar",
            lambda: tar_bytes(
                (of_type("out", tarfile.SYMTYPE, "/tmp"), b""),
                (tarfile.TarInfo("out/hostile-mark"), b"x"),
            ),
        ),
        refused="a symbolic link",
    ),
    Kind(
        "tar-with-a-device",
        "Has this machine's memory for an answer.",
        build=file(".tar", lambda: tar_bytes((of_type("day03_masks.py", tarfile.CHRTYPE), b""))),
        refused="a device",
    ),
    Kind(
        "tar-with-a-pipe",
        "Has a FIFO for an answer, at which a reader would wait.",
        build=file(".tar", lambda: tar_bytes((of_type("day03_masks.py", tarfile.FIFOTYPE), b""))),
        refused="a FIFO",
    ),
    Kind(
        "tar-bomb",
        "Holds a thousand times its size.",
        build=file(
            ".tar.gz", lambda: gzip.compress(tar_bytes((tarfile.TarInfo("zeros"), ZEROS)), 1)
        ),
        refused="more than 100 MB",
    ),
    Kind(
        "folder-with-a-link",
        "Has a link to the reference for an answer.",
        build=folder(lambda path: (path / "day03_masks.py").symlink_to(REFERENCE)),
        refused="a symbolic link",
    ),
    Kind(
        "folder-with-a-pipe",
        "Has a FIFO for an answer, at which a reader would wait.",
        build=with_a_pipe,
        refused="a FIFO",
    ),
    Kind(
        "folder-with-a-socket",
        "Has a socket among its files.",
        build=folder(bind),
        refused="a socket",
    ),
    Kind(
        "folder-that-is-a-link",
        "Is itself a link, to the course with its solutions.",
        build=lambda path: path.symlink_to(ROOT),
        refused="a symbolic link",
    ),
]
