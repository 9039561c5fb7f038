"""What learners handed in: finding each one's submission in a folder or a download. Nothing is opened."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from course.checks.answer_files import ENDINGS
from course.grading.submission.archives import ARCHIVES, OTHER_ARCHIVES, class_zip
from course.grading.submission.limits import is_hidden, is_seen
from course.grading.submission.names import composed, meaning

CANVAS, MOODLE = "Canvas", "Moodle"


class NothingHandedIn(ValueError):
    """There are no submissions where they were said to be. The text says what is expected there."""


@dataclass(frozen=True)
class Source:
    """One learner's submission, not opened yet.

    Attributes:
        learner: whose it is; no two of a class have the same.
        paths: a folder, an archive, or single files; where there are members, the zip of the class.
        names: what the learner called each of the members or else of the paths; with a `/` behind, a folder
            that stands before its files.
        members: this learner's entries in the zip of the class.
        ranks: for each of them a number, greater for what was handed in later; none where the download
            does not tell.
        earlier: names of files that were handed in again, and are no more in the paths or members.
        late: the names, as above, of what Canvas says was handed in late.
        unclear: the learners whose it may be, by the readings of a file's name; nothing where that is clear.
        numbers: those under which one name handed in, where there are several: it may be two learners'.
        system: where the download is from, `Canvas` or `Moodle`, and else nothing.
        back: what it wants a file of feedback for this learner to be called; nothing if it takes none.
        renames: unusual names, and the days' files that they mean: an instructor has said so.
    """

    learner: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    members: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    earlier: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    system: str = ""
    back: str = ""
    renames: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as plain data, to be sent to another process."""
        return asdict(self) | {"paths": [str(path.absolute()) for path in self.paths]}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Read it back."""
        lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
        return cls(**dict(entry) | lists | {"paths": tuple(map(Path, entry["paths"]))})


def attributed(sources: Iterable[Source], learners: Mapping[str, str]) -> list[Source]:
    """The same, where an instructor has said whose some of them are.

    Args:
        learners: by the names of submissions that were nobody's, whose they are.

    Raises:
        ValueError: there is no such submission.
    """
    by_learner = {source.learner: source for source in sources}
    for name, learner in learners.items():
        key = f"{UNCLEAR}{name}" if f"{UNCLEAR}{name}" in by_learner else name
        if key not in by_learner:
            raise ValueError(f"No submission is called {name!r}.")
        source = dataclasses.replace(by_learner.pop(key), learner=learner, unclear=())
        by_learner[learner] = (
            _joined(by_learner[learner], source) if learner in by_learner else source
        )
    return sorted(by_learner.values(), key=lambda source: source.learner)


def _joined(source: Source, other: Source) -> Source:
    """What one learner handed in, of two submissions of theirs."""
    joined = [
        "names",
        "members",
        "ranks",
        "earlier",
        "late",
        *([] if source.members else ["paths"]),
    ]
    fields = {name: getattr(source, name) + getattr(other, name) for name in joined}
    return dataclasses.replace(source, **fields)


# --- Finding: whose is what -----------------------------------------------------------------------

# As Canvas's lib/content_zipper.rb writes them: `lastfirst[_LATE]_<user>_<attachment>_<file>`, or with
# `text.html` or `link.html` after the user for what was typed into a page; for a learner who is to stay
# unknown `anon_<letters>` is name and user. Name and file are the learner's to choose, and may hold
# numbers between underscores, too: then there are several readings.
OF_CANVAS = re.compile(
    r"(?P<late>LATE_)?(?P<user>[0-9]+|anon_[0-9A-Za-z]+)"
    r"_(?:(?P<attachment>[0-9]{1,18})_(?P<file>.+)|(?P<typed>(?:text|link)\.html))",
    re.DOTALL,
)
BEFORE_ITS_NUMBERS = re.compile(r"\w*_|")  # the name has letters, digits and underscores only
UNCLEAR = "unclear: "  # before a file's name, where it has several readings
# It tells files of one name apart by a number before the ending, and from the eighth on by a UUID.
AGAIN = re.compile(r"-([0-9]{1,9}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")

# As Moodle's mod/assign/classes/downloader.php writes them: `Full Name_<participant>_assignsubmission_file`
# is a folder (with a `_` at its end before), or `_<file>` follows where no folders are wanted. The name
# has no underscore; it may be a group's, and that of all who are in none has no number.
OF_MOODLE = re.compile(
    r"(?P<head>(?P<learner>[^_]+(?P<number>_[0-9]+)?)_assignsubmission_(?P<kind>[a-z]+))"
    r"(?P<rest>_(?P<file>.*))?",
    re.DOTALL,
)

# As Brightspace names a folder, and without folders a file: `<number>-<number> - Full Name - Nov 21, 2026
# 909 AM`, the date as its language has it. Another folder is a resubmission.
OF_BRIGHTSPACE = re.compile(
    r"(?P<number>[0-9]+)-[0-9]+ - (?P<learner>.+?) - (?P<date>[^\W\d]+ [0-9]+|[0-9]+ [^\W\d]+),? "
    r"(?P<year>[0-9]{4}) (?P<clock>[0-9]{3,4})(?: ?(?P<half>[AP]M))?(?: - (?P<file>.+))?",
    re.DOTALL,
)
# As Blackboard names the files of all: `<assignment>_<user>_attempt_2026-11-21-09-09-00_<file>`, or `.txt`
# behind the time for what was typed into a page. Assignment and user may have underscores.
OF_BLACKBOARD = re.compile(
    r"(?P<head>.+?)_attempt_(?P<when>[0-9]{4}(?:-[0-9]{2}){5})(?:_(?P<file>.+)|\.txt)", re.DOTALL
)

FEEDBACK = "feedback.html"


class _Handed(NamedTuple):
    """Something in SUBMISSIONS.

    Attributes:
        learner: whose it is.
        entry: its name there.
        name: what the learner called it; see `Source.names`.
        rank: greater for what was handed in later, 0 where nothing tells.
    """

    learner: str
    entry: str
    name: str
    rank: int = 0


_Group = tuple[list[_Handed], dict[str, Any]]
"""What one learner has in SUBMISSIONS, and what the download tells of it, as a Source has it."""


def find_sources(submissions: Path) -> list[Source]:
    """Everybody's submission, in the order of their names. Nothing of theirs is opened.

    Args:
        submissions: a folder with a folder or an archive for each learner; or what Canvas, Moodle,
            Brightspace or Blackboard gives for download, a zip or that unpacked.

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
            f"({', '.join(ARCHIVES)}) for each learner, or be what Canvas, Moodle, Brightspace or Blackboard "
            "gives for download."
        )
    for learner, count in Counter(source.learner for source in sources).items():
        if count > 1:
            raise NothingHandedIn(f"{count} submissions in {submissions} are called {learner!r}.")
    return sorted(sources, key=lambda source: source.learner)


def _in_folder(folder: Path) -> list[Source]:
    with os.scandir(folder) as entries:
        is_folder = {entry.name: entry.is_dir() for entry in entries}
    sources = []
    for things, fields in _by_learner(is_folder, folder):
        paths = tuple(folder / upload.entry for upload in things)
        names = tuple(upload.name for upload in things)
        ranks = tuple(upload.rank for upload in things)
        sources.append(Source(_whose(things), paths, names, ranks=ranks, **fields))
    return sources


def _whose(things: list[_Handed]) -> str:
    """The learner as text that can be written down, whatever bytes a file's name has."""
    return composed(things[0].learner).encode("utf-8", "backslashreplace").decode()


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
        first: any(rest or member.endswith(("/", "\\")) for member, rest in inside[first].items())
        for first in inside
    }
    sources = []
    for things, fields in _by_learner(is_folder, path):
        by_member = {
            member: (
                upload.name + rest if upload.name.endswith("/") else rest or upload.name,
                upload.rank,
            )
            for upload in things
            for member, rest in inside[upload.entry].items()
        }
        names, ranks = zip(*by_member.values(), strict=True)
        sources.append(
            Source(_whose(things), (path,), names, tuple(by_member), ranks=ranks, **fields)
        )
    return sources


def _by_learner(is_folder: Mapping[str, bool], where: Path) -> list[_Group]:
    """Files of one folder, grouped by learner.

    Args:
        is_folder: the names, and whether each is a folder.
    """
    names = sorted(name for name in is_folder if not is_hidden(name))
    moodle = [hit for name in names if (hit := OF_MOODLE.fullmatch(name))]
    brightspace = [hit for name in names if (hit := OF_BRIGHTSPACE.fullmatch(name))]
    files = [name for name in names if not is_folder[name]]
    blackboard = [hit for name in files if (hit := OF_BLACKBOARD.fullmatch(name))]
    if len(blackboard) < sum(map(_may_be_an_answer, files)):
        blackboard = []  # learners of another system chose such names
    recognized = {match.string for match in (*moodle, *brightspace, *blackboard)}
    names = [name for name in names if name not in recognized]
    files = [name for name in names if not is_folder[name]]
    canvas = _canvas(files, alone=len(files) == len(names) and not recognized)
    of_canvas = {file.entry for file in canvas}
    rest = {name: is_folder[name] for name in names if name not in of_canvas}
    return [
        *map(_of_moodle, _in_groups(moodle, lambda match: match["learner"])),
        *map(_of_brightspace, _in_groups(brightspace, lambda match: match["learner"])),
        *_of_blackboard(_in_groups(blackboard, lambda match: match["head"])),
        *map(_of_canvas, _in_groups(canvas, lambda file: file.learner)),
        *(([upload], {}) for upload in _by_name(rest, where)),
    ]


Match = re.Match[str]
T = TypeVar("T")


def _in_groups(items: Iterable[T], whose: Callable[[T], str]) -> list[list[T]]:
    by_learner = itertools.groupby(sorted(items, key=whose), whose)
    return [list(group) for _, group in by_learner]


def _of_moodle(matches: list[Match]) -> _Group:
    """What one learner, or a group, handed in: files, and what was typed into a page."""
    things = [
        _Handed(match["learner"], match.string, match["file"] or match.string) for match in matches
    ]
    # A folder keeps its name. Moodle finds a participant by the number, and without takes nothing.
    first = next((match for match in matches if match["kind"] == "file"), matches[0])
    folder = first["head"] + ("_" if first["rest"] else "")
    back = f"{folder}/{FEEDBACK}" if first["number"] else ""
    return things, {"system": MOODLE, "back": back}


def _of_brightspace(matches: list[Match]) -> _Group:
    """What one name handed in, in one folder or several."""
    things = [
        _Handed(match["learner"], match.string, match["file"] or f"{match.string}/", _moment(match))
        for match in matches
    ]
    numbers = tuple(dict.fromkeys(match["number"] for match in matches))
    return things, {"numbers": numbers if len(numbers) > 1 else ()}


def _moment(match: Match) -> int:
    """When something was handed in, as a number that grows; 0 where its language is not English."""
    month, day = sorted(match["date"].split(), key=str.isdecimal)
    text = f"{month[:3]} {day} {match['year']} {match['clock']:0>4}{match['half'] or ''}"
    with contextlib.suppress(ValueError):
        when = datetime.strptime(text, f"%b %d %Y {'%I%M%p' if match['half'] else '%H%M'}")
        return int(f"{when:%Y%m%d%H%M}")
    return 0


def _of_blackboard(groups: list[list[Match]]) -> Iterator[_Group]:
    """What each handed in, in one attempt or several: names start alike, up to the user's."""
    heads = [group[0]["head"].split("_") for group in groups]
    columns = zip(*(parts[:-1] for parts in heads), strict=False)
    alike = list(itertools.takewhile(lambda words: len(set(words)) == 1, columns))
    for head, matches in zip(heads, groups, strict=True):
        who = "_".join(head[len(alike) :])
        yield [_of_attempt(who, match) for match in matches], {}


def _of_attempt(who: str, match: Match) -> _Handed:
    when, file = match["when"], match["file"]
    name = f"{when}/{file}" if file else match.string
    return _Handed(who, match.string, name, int(when.replace("-", "")))


def _may_be_an_answer(name: str) -> bool:
    return name.lower().endswith(ENDINGS) or is_archive(name)


class _OfCanvas(NamedTuple):
    """A reading of the name that Canvas gave to a file.

    Attributes:
        entry: the name.
        learner: whose it is.
        head: the name up to the learner's number.
        attachment: the file's number; nothing for what was typed into a page.
        file: what the learner called it.
        unclear: the learners of all readings, where there are several.
    """

    entry: str
    learner: str
    head: str
    attachment: str
    file: str
    late: bool
    unclear: tuple[str, ...] = ()


def _canvas(files: list[str], alone: bool) -> list[_OfCanvas]:
    """The files as Canvas names them; none, if an archive among them is named otherwise.

    Where neither an archive nor a day's file is among them, they must be `alone`, and all named so.
    """
    readings = {name: options for name in files if (options := _readings(name))}
    telling = list(filter(_may_be_an_answer, readings))
    needed = [name for name in files if is_archive(name)] if telling else files
    if not all(name in readings for name in needed) or not (telling or alone):
        return []
    sure = [group[0] for group in readings.values() if len(group) == 1]
    shortest = min((len(reading.attachment) for reading in sure if reading.attachment), default=0)
    return [_clearest(group, shortest) for group in readings.values()]


def _readings(name: str) -> list[_OfCanvas]:
    """What the name may mean, with the numbers at each place at which Canvas may have written them."""
    readings = []
    starts = [0, *(underscore.end() for underscore in re.finditer("_", name))]
    for start in starts:
        before, match = name[:start], OF_CANVAS.fullmatch(name, start)
        if not match or not BEFORE_ITS_NUMBERS.fullmatch(before):
            continue
        user = match["user"]
        if before.endswith("LATE_") or (user.startswith("anon_") and before):
            continue  # read before, with LATE; and nobody unknown has a name
        who = user if user.startswith("anon_") else f"{before[:-1]}_{user}"
        head, attachment = name[: match.end("user")], match["attachment"] or ""
        file, late = match["file"] or match["typed"], bool(match["late"])
        readings.append(_OfCanvas(name, who, head, attachment, file, late))
        if user.startswith("anon_"):
            break
    return readings


def _clearest(readings: list[_OfCanvas], shortest: int) -> _OfCanvas:
    """The only reading, or one without a learner.

    Canvas counts attachments up, so a number with less than half of the digits of all others is none:
    `hand_in_1_2_x.py` is only what a learner called it.
    """
    likely = [
        reading
        for reading in readings
        if not reading.attachment or 2 * len(reading.attachment) > shortest
    ]
    if len(likely) == 1:
        return likely[0]
    first = readings[0]
    whose = tuple(reading.learner for reading in likely or readings)
    return _OfCanvas(
        first.entry, f"{UNCLEAR}{first.entry}", "", "", readings[-1].file, False, whose
    )


def _of_canvas(files: list[_OfCanvas]) -> _Group:
    """What one learner handed in: of several files of one name the latest."""
    latest: dict[str, tuple[int, int, _Handed, bool]] = {}
    for file in files:
        name, times = _without_number(file.file)
        rank = int(file.attachment or 0)
        version = (times, rank, _Handed(file.learner, file.entry, name, rank), file.late)
        latest[name] = max(version, latest.get(name, version))
    things = [upload for _, _, upload, _ in latest.values()]
    chosen = {upload.entry for upload in things}
    fields = {
        "earlier": tuple(other.file for other in files if other.entry not in chosen),
        "late": tuple(name for name, (_, _, _, late) in latest.items() if late),
        "unclear": files[0].unclear,
        "system": CANVAS,
        "back": _back_to_canvas(files),
    }
    return things, fields


def _back_to_canvas(uploads: list[_OfCanvas]) -> str:
    """What Canvas takes back: the name up to the attachment's number, by which alone it knows whose it is.

    As its `infer_comment_context_from_filename` (app/models/abstract_assignment.rb) reads it: the
    attachment must be one of this submission, and the last part of the name must not begin with `link`.
    """
    files = [upload for upload in uploads if upload.attachment]
    if not files:
        return ""
    last = max(files, key=lambda upload: int(upload.attachment))
    return f"{last.head}_{last.attachment}_{FEEDBACK}"


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
        if meaning(name) and not is_folder[name]:
            raise NothingHandedIn(
                f"{name} is in {where} itself, so it is unclear whose it is. Put it into a folder there "
                "that is named after its learner."
            )
    stems = {
        name: name if is_folder[name] else name[: len(name) - len(_ending(name))]
        for name in is_folder
        if is_folder[name] or is_archive(name)
    }
    taken = Counter([*stems.values(), *(name for name, stem in stems.items() if stem != name)])
    return [_Handed(stem if taken[stem] == 1 else name, name, name) for name, stem in stems.items()]


def _ending(name: str, endings: Iterable[str] = (*ARCHIVES, *OTHER_ARCHIVES)) -> str:
    """The ending that it has of these, as it has it; or nothing."""
    return next((name[-len(end) :] for end in endings if name.lower().endswith(end)), "")


def is_archive(path: str) -> bool:
    """Whether it is an archive by its name."""
    return bool(_ending(path)) and is_seen(path)
