"""Archives that may be anybody's, read in memory: looked through to their end, refused if unsafe."""

from __future__ import annotations

import bz2
import calendar
import contextlib
import functools
import io
import itertools
import lzma
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tarfile import TarInfo
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

from course.grading.submission.limits import (
    KINDS,
    MAX_ENTRIES,
    MAX_UNPACKED_BYTES,
    SubmissionRefused,
    Used,
    demand_plain,
    demand_small,
    inside,
    is_seen,
    linked_to,
    not_plain,
    shown,
)

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
OTHER_ARCHIVES = (".7z", ".rar")  # cannot be taken, and whoever handed one in is told so
MAX_TARGET_BYTES = 4096  # bytes of what a symbolic link leads to
CHUNK = 2**16  # bytes that are read at once
# Bytes of a zip's directory: a learner's; and that of a class.
DIRECTORY = 2_500_000
CLASS_DIRECTORY = 16_000_000


class Entry(NamedTuple):
    """A file in an archive that is not hidden.

    Attributes:
        path: where in the archive it lies.
        time: when it was last changed, in seconds, as the archive has it; None where it does not say.
        data: as many of its bytes as are wanted; None if none are.
    """

    path: str
    time: float | None
    data: bytes | None


Wanted = Callable[[str], int]
"""How many bytes of a file at a path are wanted."""


def unpack(name: str, data: bytes, used: Used, limit_of: Wanted) -> list[Entry]:
    """The files in an archive.

    Args:
        name: what it is called.
        used: what archives of the same submission have used up; this one is added.
        limit_of: how many bytes of each file are read.

    Raises:
        SubmissionRefused: it is unsafe, or broken, or no archive.
    """
    try:
        return (_unzip if data.startswith(b"PK") else _untar)(data, used, limit_of)
    except SubmissionRefused:
        raise
    except Exception as error:  # whatever broken bytes make zipfile, tarfile and zlib raise
        raise SubmissionRefused(
            f"{shown(name)} cannot be read: it is broken or of the wrong kind. "
            f"Allowed are {', '.join(ARCHIVES)}."
        ) from error


class _Sipped(io.BufferedReader):
    """A zip's bytes, of which zipfile cannot read too many at once.

    It reads all of a directory, and makes an object of each entry, before it can be asked how many.
    """

    def __init__(self, raw: io.RawIOBase | io.BytesIO, most: int) -> None:
        super().__init__(raw)
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._most:
            raise SubmissionRefused(
                f"Its directory is larger than {MAX_ENTRIES} files and folders need: hand in the "
                "exercises alone."
            )
        return super().read(size)


@contextlib.contextmanager
def class_zip(path: Path) -> Iterator[ZipFile]:
    with path.open("rb", buffering=0) as file, ZipFile(_Sipped(file, CLASS_DIRECTORY)) as archive:
        yield archive


def read_member(archive: ZipFile, entry: ZipInfo, most: int) -> bytes:
    try:
        with archive.open(entry) as file:
            return b"".join(_sips(file, most))
    except OSError:
        raise
    except Exception as error:  # as in an archive of the learner's own
        raise SubmissionRefused(f"{shown(entry.filename)} cannot be read: it is broken.") from error


def _unzip(data: bytes, used: Used, limit_of: Wanted) -> list[Entry]:
    """The files in a zip, once all of it was looked through."""
    files: dict[str, Entry] = {}  # of two of one name the last counts, as for every program
    links: list[tuple[str, str]] = []
    with ZipFile(_Sipped(io.BytesIO(data), DIRECTORY)) as archive:
        entries = archive.infolist()
        demand_safe(entries, used, links=True)
        for entry in entries:
            path = inside(entry.filename)
            _demand_small_dictionary(entry, data)
            with archive.open(entry) as file:
                content = None
                if is_link(entry):
                    content = b"".join(_sips(file, MAX_TARGET_BYTES))
                elif most := limit_of(path):
                    content = b"".join(_sips(file, most))
                for _ in _sips(file, MAX_UNPACKED_BYTES):  # its checksum is compared at its end
                    pass
            if not is_seen(path) or is_folder(entry):
                continue
            if is_link(entry):
                links.append((path, (content or b"").decode("utf-8", "surrogateescape")))
            else:
                files[path] = Entry(path, time_of(entry), content)
    return _with_links(files, links, limit_of)


def _demand_small_dictionary(entry: ZipInfo, data: bytes) -> None:
    """Refuse an LZMA entry that wants too much memory: its header asks for up to 4 GB.

    The entry's content begins with two bytes of version, two of length, one of parameters, and the
    dictionary's size (PKWARE 2022, *APPNOTE.TXT*, §5.8).
    """
    if entry.compress_type == ZIP_LZMA:
        names = entry.header_offset + 26  # the lengths of the name and of what follows it
        lengths = (int.from_bytes(data[at : at + 2], "little") for at in (names, names + 2))
        begin = entry.header_offset + LOCAL_HEADER + sum(lengths)
        if int.from_bytes(data[begin + 5 : begin + 9], "little") > XZ_MEMORY:
            raise SubmissionRefused(
                f"{shown(entry.orig_filename)} needs more than {XZ_MEMORY // 10**6} MB to be unpacked."
            )


def is_link(entry: ZipInfo) -> bool:
    """Whether an entry of a zip is a symbolic link, whose content is its target."""
    return stat.S_ISLNK(entry.external_attr >> 16)


def is_folder(entry: ZipInfo) -> bool:
    """Whether an entry of a zip is a folder, which Windows PowerShell ends with a backslash."""
    return entry.filename.endswith(("/", "\\"))


NO_TIME = (1980, 1, 1)  # what stands in a zip's entry whose time nobody gave


def time_of(entry: ZipInfo) -> float | None:
    """When an entry of a zip was last changed, by the clock of the machine that packed it."""
    if entry.date_time[:3] == NO_TIME:
        return None
    try:
        return float(calendar.timegm((*entry.date_time, 0, 0, 0)))
    except (ValueError, OverflowError):  # an invalid month or day
        return None


ENCRYPTED = 0x0001 | 0x0040 | 0x2000  # flags of an entry: its content, strongly, its header
LOCAL_HEADER = 30  # bytes before an entry's content, without its name


def demand_safe(entries: Sequence[ZipInfo], used: Used, *, links: bool = False) -> None:
    """Look through the entries of a zip. Of none will zipfile give more than the size it claims.

    Args:
        used: what archives of the same submission have used up; these are added.
        links: whether symbolic links are looked at later.

    Raises:
        SubmissionRefused: one of them is unsafe, or all together are too much.
    """
    used.add(entries=len(entries), unpacked=sum(entry.file_size for entry in entries))
    for entry in entries:
        name = entry.orig_filename
        inside(name)
        if not (links and is_link(entry)):
            demand_plain(name, entry.external_attr >> 16)
        if entry.flag_bits & ENCRYPTED:
            raise SubmissionRefused(
                f"{shown(name)} is encrypted: an archive must have no password."
            )
        if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED, *([ZIP_LZMA] if links else [])):
            raise SubmissionRefused(
                f"{shown(name)} is compressed by method {entry.compress_type}. A zip may be stored "
                f"without compression, or compressed with deflate{' or LZMA' * links}."
            )
    for current, next_one in itertools.pairwise(
        sorted(entries, key=lambda entry: entry.header_offset)
    ):
        if current.header_offset + LOCAL_HEADER + current.compress_size > next_one.header_offset:
            raise SubmissionRefused(
                f"{shown(current.orig_filename)} and {shown(next_one.orig_filename)} overlap in the archive: "
                "every entry must have bytes of its own."
            )


TAR_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


def _untar(data: bytes, used: Used, limit_of: Wanted) -> list[Entry]:
    """The same of a tar. Only what reads 512 bytes of a header is tarfile's: the rest trusts sizes."""
    files: dict[str, Entry] = {}
    links: list[tuple[str, str]] = []
    tape = _Tape(_decompress(data, used))
    while entry := _next_entry(tape):
        used.add(entries=1)
        path = inside(entry.name)
        if entry.isdir():
            continue
        if entry.type == tarfile.SYMTYPE:
            if is_seen(path):
                links.append((path, entry.linkname))
            tape.content(entry.size, 0)
            continue
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
            raise not_plain(entry.name, TAR_KINDS.get(entry.type, "of an unknown kind"))
        most = limit_of(path)
        content = tape.content(entry.size, most)
        if is_seen(path):
            files[path] = Entry(path, float(entry.mtime) or None, content if most else None)
    tape.end()
    return _with_links(files, links, limit_of)


def _with_links(
    files: dict[str, Entry], links: Iterable[tuple[str, str]], limit_of: Wanted
) -> list[Entry]:
    """The files, and each link to one of them as a file of the same content.

    Raises:
        SubmissionRefused: a link leads elsewhere, or its bytes are wanted where its file's are not.
    """
    for path, target in links:
        file = files[linked_to(path, target, files)]
        if file.data is None and limit_of(path):
            raise not_plain(path, KINDS[stat.S_IFLNK])
        files[path] = file._replace(path=path)
    return list(files.values())


MAX_HEADERS = 4  # before an entry's own: of the archive, of the entry, a long name, a long link
MAX_HEADER_BYTES = 2**20  # bytes; on a Mac they hold a file's attributes
MAX_RECORDS = 100  # in a header


def _next_entry(tape: _Tape) -> TarInfo | None:
    """The header of the next entry, with what the headers before it say; None at the end."""
    extensions: dict[bytes, bytes] = {}
    for _ in range(MAX_HEADERS + 1):
        block = tape.read(tarfile.BLOCKSIZE)
        if not any(block):
            return None
        entry = TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if entry.type == tarfile.XHDTYPE:
            extensions |= _records(_header(entry, tape))
        elif entry.type == tarfile.GNUTYPE_LONGNAME:
            extensions[b"path"] = _header(entry, tape).partition(b"\0")[0]
        elif entry.type in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            _header(entry, tape)
        else:
            if any(key.startswith(b"GNU.sparse.") for key in extensions):
                raise not_plain(entry.name, TAR_KINDS[tarfile.GNUTYPE_SPARSE])
            if b"path" in extensions:
                entry.name = extensions[b"path"].decode("utf-8", "surrogateescape")
            entry.size = int(extensions.get(b"size", entry.size))
            return entry
    raise ValueError("headers without an entry")


def _header(entry: TarInfo, tape: _Tape) -> bytes:
    if entry.size > MAX_HEADER_BYTES:
        raise ValueError("a header that is too large")
    return tape.content(entry.size, MAX_HEADER_BYTES)


def _records(header: bytes) -> dict[bytes, bytes]:
    """The records of a PAX header: `<length> <key>=<value>` and a newline, of that length together."""
    records = {}
    start = 0
    while start < len(header):
        space = header.index(b" ", start, start + 10)
        end = start + int(header[start:space])
        key, _, value = header[space + 1 : end - 1].partition(b"=")
        records[key] = value
        if end <= space or len(records) > MAX_RECORDS:
            raise ValueError("a length that is none, or too many records")
        start = end
    return records


class _Tape:
    """The bytes of a tar, in their order."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            EOFError: the file ends sooner.
        """
        parts = []
        while size:
            if self._at == len(self._piece):
                self._piece, self._at = next(self._pieces, b""), 0
                if not self._piece:
                    raise EOFError
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def content(self, size: int, most: int) -> bytes:
        """What an entry of that size holds, cut to so many bytes; and go to where the next begins."""
        if size < 0:
            raise ValueError("a negative size")
        demand_small(size)
        data = self.read(min(size, most))
        remaining = size - len(data) + -size % tarfile.BLOCKSIZE
        while remaining:
            remaining -= len(self.read(min(remaining, CHUNK)))
        return data

    def end(self) -> None:
        """Go to the very end: only there does a compressed file show that it is whole."""
        for _ in self._pieces:
            pass


MAX_STREAMS = 2_000  # compressed one after another in one file, as programs with many threads do
XZ_MEMORY = 80_000_000  # bytes; `xz -9` needs 65 MB


def _decompress(data: bytes, used: Used) -> Iterator[bytes]:
    """A tar in small pieces, whether compressed or not, and no more than a submission may hold."""
    starts: dict[bytes, Callable[[], Any]] = {
        b"\x1f\x8b": _Gunzip,
        b"BZh": bz2.BZ2Decompressor,
        b"\xfd7zXZ": functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY),
    }
    packed = _sips(io.BytesIO(data), len(data))
    start = next((starts[magic] for magic in starts if data.startswith(magic)), None)
    if start is None:
        used.add(unpacked=len(data))
        yield from packed
        return
    rest = b""
    for _ in range(MAX_STREAMS):
        stream = start()
        while not stream.eof:
            hungry = stream.needs_input
            food = (rest or next(packed, b"")) if hungry else b""
            rest = b""
            piece = stream.decompress(food, CHUNK)
            if piece:
                used.add(unpacked=len(piece))
                yield piece
            elif hungry and not food:
                raise EOFError
        rest = stream.unused_data.lstrip(b"\0")
        while not rest and (more := next(packed, b"")):
            rest = more.lstrip(b"\0")
        if not rest:
            return
    raise ValueError("too many streams")


class _Gunzip:
    """Zlib's decompressor, to be used as those of bz2 and lzma are."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


def _sips(file: IO[bytes], most: int) -> Iterator[bytes]:
    """The next `most` bytes of a file, fewer at its end, a few at a time."""
    while most and (sip := file.read(min(most, CHUNK))):
        most -= len(sip)
        yield sip
