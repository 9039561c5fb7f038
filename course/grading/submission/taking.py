"""Take the days' files from one submission safely, and note for every other file why it was not taken.

Everything in a submission is untrusted: names, contents, and the archives themselves. Nothing is unpacked to
the disk. Archives are read into memory, scanned completely, and refused if anything in them is unsafe. Only
the days' files are taken, under their plain names.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from course.checks.answer_files import (
    ENDINGS,
    MAX_FILE_BYTES,
    MAX_NOTEBOOK_BYTES,
    without_outputs,
)
from course.curriculum import DAYS, Day
from course.grading.submission.choosing import UNDERSTOOD, FileNote, choose
from course.grading.submission.files import SubmittedFile, files_of, unpacked
from course.grading.submission.limits import SubmissionRefused, shown
from course.grading.submission.names import nearest
from course.grading.submission.sources import Source

NOT_THEIRS = ("lessons", "my", "solutions", "tests")  # folders beside the course's `exercises`

# Errors of this machine, which are not a learner's fault.
OUR_TROUBLE = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ENOSPC}
OUR_TROUBLE |= {errno.ESTALE, errno.ETIMEDOUT}

MAX_LISTED = 60  # files that were not taken, of which each is named
MAX_NAMED = 5  # in a sentence
MAX_BOOKS = 6  # notebooks and scripts that are not a day's by their names


@dataclass(frozen=True)
class Taken:
    """What was taken from a submission, and what was not.

    Attributes:
        files: the days' files by their names, such as `day08_attention.py`.
        taken: a note on each of them.
        ignored: notes on the first files that were not taken, those with similar names first.
        ignored_count: the number of files that were not taken.
        books: by their paths the notebooks and scripts of no day, which may be for several; the newest first.
    """

    files: dict[str, bytes]
    taken: list[FileNote] = field(default_factory=list)
    ignored: list[FileNote] = field(default_factory=list)
    ignored_count: int = 0
    books: dict[str, bytes] = field(default_factory=dict)


def take(source: Source) -> Taken:
    """The days' files of a submission.

    A name that is nearly right is accepted. If there are several files for one day, `RULES` select one.
    Notebooks are taken without their outputs. A file of more than MAX_FILE_BYTES
    is truncated to one byte more. A file that is gone is this machine's trouble: a folder may be shared.

    Raises:
        SubmissionRefused: the submission cannot be taken safely.
        OSError: this machine could not read it, which is not a learner's fault.
    """
    try:
        with files_of(source) as files:
            return _take(files, source.earlier)
    except OSError as error:
        if error.errno in OUR_TROUBLE:
            raise
        name = Path(str(error.filename)).name
        raise SubmissionRefused(f"{shown(name)} cannot be read: {error.strerror}.") from error


def late_days(taken: Taken, late: Collection[str]) -> list[int]:
    """Return the days whose files are among what was handed in late, or in archives or folders that are."""
    stems = {
        note.name.partition(".")[0]
        for note in taken.taken
        if any(f"{note.path}/".startswith(f"{name.rstrip('/')}/") for name in late)
    }
    return [day.number for day in DAYS if day.stem in stems]


def nothing_found(taken: Taken, days: list[Day]) -> str:
    """Return a message for a submission without any of these days' files: found, nearest, expected."""
    count = len(taken.taken) + taken.ignored_count
    if not count:
        return f"The submission is empty. {_expected(days)}"
    descriptions = [f"{shown(note.path)} (a day that is not graded here)" for note in taken.taken]
    descriptions += [_found(note) for note in taken.ignored]
    more = count - len(descriptions[:MAX_NAMED])
    listed = "; ".join(descriptions[:MAX_NAMED]) + (f"; and {more} more" if more else "")
    return f"None of the days' files was found. There is {listed}. {_expected(days)}"


def _found(note: FileNote) -> str:
    name = shown(note.path)
    if note.why:
        return f"{name} ({note.why})"
    return f"{name} (nearest to {note.name})" if note.name else name


def _expected(days: list[Day]) -> str:
    first = days[0].stem
    which = f"{first}.py" if len(days) == 1 else f"one file for each day, such as {first}.py"
    return (
        f"The course expects {which}, by itself, in a folder or in a zip; or a notebook, such as "
        f"{first}.ipynb, whose cells define the exercises."
    )


def _take(files: list[SubmittedFile], earlier: Collection[str]) -> Taken:
    everything = sorted(unpacked(files), key=lambda file: file.path)  # no system's own order
    strangers = _of_the_course(everything)
    by_day: dict[str, list[SubmittedFile]] = {}
    rest = []
    for file in everything:
        if file.means and file.path not in strangers:
            by_day.setdefault(file.means.partition(".")[0], []).append(file)
        else:
            rest.append(file)
    data, taken, ignored = {}, [], []
    for _, candidates in sorted(by_day.items()):
        chosen, losers = choose(candidates)
        name = str(chosen.means)
        data[name] = _content(chosen)
        why = "" if chosen.name == name else f"taken as {name}"
        taken.append(
            FileNote(chosen.shown_path, name, f"{why}, {UNDERSTOOD}" if chosen.beside else why)
        )
        ignored += losers
    ignored += [FileNote(name, "", "it was handed in again") for name in earlier]
    ignored += _strange(rest, strangers)
    return Taken(data, taken, ignored[:MAX_LISTED], len(ignored), _books(rest, strangers))


def _content(file: SubmittedFile) -> bytes:
    """Return what counts of a file, and of one that is too large one byte more than it may have."""
    content = file.read(MAX_NOTEBOOK_BYTES + 1 if file.is_notebook else MAX_FILE_BYTES + 1)
    if len(content) > MAX_NOTEBOOK_BYTES:
        return content  # of which the worker will say how large it is
    if len(content) > MAX_FILE_BYTES and file.is_notebook:
        content = without_outputs(content)
    return content[: MAX_FILE_BYTES + 1]


def _books(files: list[SubmittedFile], strangers: Collection[str]) -> dict[str, bytes]:
    books = [
        file for file in files if file.name.lower().endswith(ENDINGS) and file.path not in strangers
    ]
    books.sort(key=lambda book: (book.rank, book.time or 0.0), reverse=True)
    return {book.shown_path: _content(book) for book in books[:MAX_BOOKS]}


def _strange(files: list[SubmittedFile], strangers: Collection[str]) -> list[FileNote]:
    """Return notes on files that are not answers, those with similar names first."""
    ready = [day for day in DAYS if day.ready]
    notes = []
    for number, file in enumerate(files):
        if file.path in strangers:
            notes.append(FileNote(file.shown_path, "", "it belongs to the course"))
        elif file.closed:
            notes.append(FileNote(file.shown_path, "", file.closed))
        else:
            near = nearest(file.name, ready) if number < 2 * MAX_LISTED else None
            notes.append(FileNote(file.shown_path, near or "", ""))
    return sorted(notes, key=lambda note: (not note.name, bool(note.why)))


def _of_the_course(files: list[SubmittedFile]) -> set[str]:
    """Return the paths that belong to the course, in a copy of the whole course."""
    parents = {file.place.parent for file in files}
    courses = {folder.parent for folder in parents if folder.name == "exercises"}
    ours = {course / folder for course in courses for folder in NOT_THEIRS}
    return {file.path for file in files if not ours.isdisjoint(file.place.parents)}
