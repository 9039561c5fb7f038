"""What learners handed in: finding each one's submission, and taking the days' files from it safely.

Everything in a submission is hostile: names, contents, and the archives themselves. Nothing is
unpacked to the disk. A learner's archive is read into memory, looked through to its end, and refused
if anything in it is unsafe; only the days' files come out of it, by their plain names.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self
from zipfile import ZipFile

from course.checks.answers import ENDINGS, LARGEST_FILE
from course.grading.allowed import (
    ANSWERS,
    LARGEST_ARCHIVE,
    Refused,
    demand_few,
    demand_plain,
    demand_shallow,
    is_answer,
    is_hidden,
    shown,
)
from course.grading.archives import (
    ARCHIVES,
    OTHER_ARCHIVES,
    class_zip,
    demand_safe,
    read_member,
    unpack,
)

NOT_THEIRS = ("lessons", "my", "solutions", "tests")  # of what lies beside the course's `exercises`

# Trouble of this machine, for which no learner is to blame.
OUR_TROUBLE = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}


class NothingHandedIn(ValueError):
    """There are no submissions where they were said to be. The text says what is expected there."""


@dataclass(frozen=True)
class Source:
    """One learner's submission, not opened yet.

    Attributes:
        learner: whose it is; no two of a class have the same.
        paths: a folder, an archive, or single files; where there are members, the zip of the class.
        names: what the learner called each of the members or else of the paths.
        members: this learner's entries in the zip of the class.
    """

    learner: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    members: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as plain data, to be sent to another process."""
        return asdict(self) | {"paths": [str(path.absolute()) for path in self.paths]}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Read it back."""
        paths = tuple(Path(path) for path in entry["paths"])
        return cls(entry["learner"], paths, tuple(entry["names"]), tuple(entry["members"]))


# --- Finding: whose is what -----------------------------------------------------------------------

# As Canvas's lib/content_zipper.rb writes them: `lastfirst[_LATE]_<user>_<attachment>_<file>`; for a
# learner who is to stay unknown `anon_<letters>` is name and user.
CANVAS = re.compile(
    r"(?:(?P<name>\w*?)_)?(?:LATE_)?(?:(?P<user>[0-9]+)|(?P<anonymous>anon_[0-9A-Za-z]+))"
    r"_(?P<attachment>[0-9]{1,18})_(?P<file>.+)",
    re.DOTALL,
)
# It tells files of one name apart by a number before the ending, and from the eighth on by a UUID.
AGAIN = re.compile(r"-([0-9]{1,9}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")

# As Moodle's mod/assign/classes/downloader.php writes them: `Full Name_<participant>_assignsubmission_file`
# is a folder (with a `_` at its end before), or `_<file>` follows where no folders are wanted. The name
# has no underscore; it may be a group's, and that of all who are in none has no number.
MOODLE = re.compile(
    r"(?P<learner>[^_]+(?:_[0-9]+)?)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.*))?", re.DOTALL
)


class _Handed(NamedTuple):
    """Something in SUBMISSIONS: whose it is, its name there, and what the learner called it."""

    learner: str
    entry: str
    name: str


def find_sources(submissions: Path) -> list[Source]:
    """Everybody's submission, in the order of their names. Nothing of theirs is opened.

    Args:
        submissions: a folder with a folder or an archive for each learner; or what Canvas or Moodle
            gives for download, a zip or that unpacked.

    Raises:
        NothingHandedIn: there is nothing of the kind.
    """
    try:
        in_folder = submissions.is_dir()
        sources = _in_folder(submissions) if in_folder else _in_zip(submissions)
    except OSError as error:
        raise NothingHandedIn(f"{submissions} cannot be read: {error.strerror}.") from error
    if not sources:
        raise NothingHandedIn(
            f"{submissions} holds no submission. It should hold a folder or an archive "
            f"({', '.join(ARCHIVES)}) for each learner, or be what Canvas or Moodle gives for download."
        )
    for learner, count in Counter(source.learner for source in sources).items():
        if count > 1:
            raise NothingHandedIn(f"{count} submissions in {submissions} are called {learner!r}.")
    return sorted(sources, key=lambda source: source.learner)


def _in_folder(folder: Path) -> list[Source]:
    with os.scandir(folder) as entries:
        is_folder = {entry.name: entry.is_dir() for entry in entries}
    sources = []
    for things in _by_learner(is_folder, folder):
        # As text that can be written down, whatever bytes a file's name has.
        learner = things[0].learner.encode("utf-8", "backslashreplace").decode()
        paths = tuple(folder / thing.entry for thing in things)
        sources.append(Source(learner, paths, tuple(thing.name for thing in things)))
    return sources


def _in_zip(path: Path) -> list[Source]:
    try:
        with class_zip(path) as archive:
            members = archive.namelist()
    except OSError:
        raise
    except Exception as error:  # whatever broken bytes make zipfile raise
        raise NothingHandedIn(
            f"{path} is neither a folder nor a zip that can be read. Unpack it, and give the folder."
        ) from error
    inside: dict[str, dict[str, str]] = {}  # by the first part of their paths, members and the rest
    for member in members:
        parts = [part for part in re.split(r"[/\\]", member) if part not in ("", ".", "..")]
        if parts:
            inside.setdefault(parts[0], {})[member] = "/".join(parts[1:])
    is_folder = {
        first: any(rest or member.endswith("/") for member, rest in inside[first].items())
        for first in inside
    }
    sources = []
    for things in _by_learner(is_folder, path):
        names = {
            member: rest or thing.name
            for thing in things
            for member, rest in inside[thing.entry].items()
        }
        sources.append(Source(things[0].learner, (path,), tuple(names.values()), tuple(names)))
    return sources


def _by_learner(is_folder: Mapping[str, bool], where: Path) -> list[list[_Handed]]:
    """What lies side by side, put together by whose it is.

    Args:
        is_folder: the names, and whether each is a folder.
        where: where they lie.
    """
    names = sorted(name for name in is_folder if not is_hidden(name))
    moodle = [found for name in names if (found := MOODLE.fullmatch(name))]
    names = [name for name in names if not MOODLE.fullmatch(name)]
    canvas = _canvas([name for name in names if not is_folder[name]])
    of_canvas = {found.string for found in canvas}
    others = {name: is_folder[name] for name in names if name not in of_canvas}
    return [
        *_together(_of_moodle(moodle)),
        *_together(_of_canvas(canvas)),
        *([thing] for thing in _by_name(others, where)),
    ]


def _together(things: list[_Handed]) -> list[list[_Handed]]:
    by_learner = itertools.groupby(sorted(things), key=lambda thing: thing.learner)
    return [list(group) for _, group in by_learner]


def _of_moodle(found: list[re.Match[str]]) -> list[_Handed]:
    """Files that were handed in, and not what was typed into a page."""
    return [
        _Handed(one["learner"], one.string, one["file"] or one.string)
        for one in found
        if one["kind"] == "file"
    ]


def _canvas(files: list[str]) -> list[re.Match[str]]:
    """The files as Canvas names them; none, if an archive among them is named otherwise."""
    found = [match for name in files if (match := CANVAS.fullmatch(name))]
    archives = [name for name in files if _is_archive(name)]
    telling = [one for one in found if one.string.endswith(ENDINGS) or _is_archive(one.string)]
    return found if telling and {one.string for one in found}.issuperset(archives) else []


def _of_canvas(found: list[re.Match[str]]) -> list[_Handed]:
    """What learners handed in: of several files of one name the latest."""
    latest: dict[tuple[str, str], tuple[int, int, _Handed]] = {}
    for one in found:
        learner = one["anonymous"] or f"{one['name']}_{one['user']}"
        name, times = _without_number(one["file"])
        version = (times, int(one["attachment"]), _Handed(learner, one.string, name))
        latest[learner, name] = max(version, latest.get((learner, name), version))
    return [thing for _, _, thing in latest.values()]


def _without_number(file: str) -> tuple[str, int]:
    """The name that a file had before Canvas told it from others, and how many others there were."""
    ending = _ending(file, (*ENDINGS, *ARCHIVES, *OTHER_ARCHIVES))
    stem = file[: len(file) - len(ending)]
    again = AGAIN.search(stem)
    if not (ending and again):
        return file, 0
    return stem[: again.start()] + ending, int(again[1]) if again[1].isdecimal() else 10**9


def _by_name(is_folder: Mapping[str, bool], where: Path) -> list[_Handed]:
    """Folders and archives that have their learners' names.

    Raises:
        NothingHandedIn: files lie there, and nothing tells whose they are.
    """
    for name in is_folder:
        if name in ANSWERS and not is_folder[name]:
            raise NothingHandedIn(
                f"{name} lies in {where} itself, and nothing tells whose it is. There should be a folder "
                "or an archive for each learner there, with the files in it."
            )
    stems = {
        name: name if is_folder[name] else name[: len(name) - len(_ending(name))]
        for name in is_folder
        if is_folder[name] or _is_archive(name)
    }
    taken = Counter([*stems.values(), *(name for name, stem in stems.items() if stem != name)])
    return [_Handed(stem if taken[stem] == 1 else name, name, name) for name, stem in stems.items()]


def _ending(name: str, endings: Iterable[str] = (*ARCHIVES, *OTHER_ARCHIVES)) -> str:
    """The ending that it has of these, as it has it; or nothing."""
    return next((name[-len(end) :] for end in endings if name.lower().endswith(end)), "")


def _is_archive(path: str) -> bool:
    return bool(_ending(path)) and not any(map(is_hidden, path.split("/")))


# --- Taking: the days' files of one submission ----------------------------------------------------


class _File(NamedTuple):
    """A file of a submission, not read yet.

    Attributes:
        path: where in the submission it lies.
        read: gives its first bytes, so many and no more.
    """

    path: str
    read: Callable[[int], bytes]


def take(source: Source) -> dict[str, bytes]:
    """The days' files of a submission by their names, such as `day08_attention.py`.

    Of several of one name the shallowest counts, and of those the one in `exercises`. A notebook counts
    only where there is no Python file of its day. What is larger than LARGEST_FILE is cut, so that it
    is still larger.

    Raises:
        Refused: it cannot be taken safely.
        OSError: this machine could not read it, for which no learner is to blame.
    """
    try:
        with _files(source) as files:
            return _answers({file.path: file for file in files})
    except OSError as error:
        if error.errno in OUR_TROUBLE:
            raise
        name = Path(str(error.filename)).name
        raise Refused(f"{shown(name)} cannot be read: {error.strerror}.") from error


@contextlib.contextmanager
def _files(source: Source) -> Iterator[Iterable[_File]]:
    if source.members:
        with class_zip(source.paths[0]) as archive:
            yield _members(archive, source)
    else:
        yield itertools.chain(*map(_on_disk, source.paths, source.names))


def _answers(files: Mapping[str, _File]) -> dict[str, bytes]:
    """The answers among files, and in the archive that may be one of them.

    That archive counts as a folder: some zip all of their work, and some zip a part.
    """
    archives = [path for path in files if _is_archive(path)]
    if len(archives) > 1:
        names = " and ".join(map(shown, archives[:2]))
        raise Refused(f"It holds several archives, such as {names}: one is allowed.")
    unpacked: dict[str, bytes] = {}
    for path in archives:
        answers = unpack(path, files[path].read(LARGEST_ARCHIVE + 1))
        unpacked = {f"{path}/{inner}": answer for inner, answer in answers.items()}
    chosen = _choose([*unpacked, *filter(is_answer, files)])
    return {
        name: unpacked[path] if path in unpacked else files[path].read(LARGEST_FILE + 1)
        for name, path in chosen.items()
    }


def _choose(paths: Iterable[str]) -> dict[str, str]:
    """The path of each answer, by its name.

    In a copy of the whole course there are files of the same names that are not the learner's.
    """
    found = [PurePosixPath(path) for path in paths]
    courses = {path.parent.parent for path in found if path.parent.name == "exercises"}
    ours = {course / folder for course in courses for folder in NOT_THEIRS}
    theirs = [path for path in found if ours.isdisjoint(path.parents)]
    theirs.sort(key=lambda path: (len(path.parts), path.parent.name != "exercises", path))
    first: dict[str, str] = {}
    for path in theirs:
        first.setdefault(path.name, str(path))
    return {
        name: path
        for name, path in sorted(first.items())
        if name.endswith(".py") or name.replace(".ipynb", ".py") not in first
    }


# --- Files on the disk ----------------------------------------------------------------------------

# A link or a FIFO that took a file's place after it was looked at is not followed, nor waited for.
READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def _on_disk(path: Path, name: str) -> Iterator[_File]:
    """A file, or all files in a folder that are not hidden."""
    mode = path.lstat().st_mode
    demand_plain(name, mode)
    if not stat.S_ISDIR(mode):
        yield _File(name, functools.partial(_read_file, path))
        return
    count = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(path / folder) as entries:
            for entry in entries:
                count += 1
                demand_few(count)
                if is_hidden(entry.name):
                    continue
                inner = f"{folder}{entry.name}"
                mode = entry.stat(follow_symlinks=False).st_mode
                demand_plain(inner, mode)
                if stat.S_ISDIR(mode):
                    demand_shallow(inner)
                    folders.append(f"{inner}/")
                else:
                    yield _File(inner, functools.partial(_read_file, path / inner))


def _read_file(path: Path, most: int) -> bytes:
    with os.fdopen(os.open(path, READING), "rb") as file:
        demand_plain(path.name, os.fstat(file.fileno()).st_mode)
        return file.read(most)


# --- Files in the zip of a class ---------------------------------------------------------------


def _members(archive: ZipFile, source: Source) -> list[_File]:
    """The files of one learner in the zip of a class."""
    entries = [archive.getinfo(member) for member in source.members]
    demand_safe(entries)
    return [
        _File(name, functools.partial(read_member, archive, entry))
        for name, entry in zip(source.names, entries, strict=True)
        if not entry.is_dir()
    ]
