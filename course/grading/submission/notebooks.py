"""Notebooks without tags, and files for several days or with more than answers in them: answers are made of
the lines that define the exercises.

Which lines these are is found in the sandbox (`gather` in `analysis.py`), where hostile text may be
parsed; from there come numbers alone. The lines are cut out here, of what was handed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from course.checks.answer_files import ENDINGS, MAX_FILE_BYTES, Unreadable, decoded
from course.curriculum import ANSWER_TAG, DAYS, Day
from course.grading.submission.choosing import CHOSEN, UNDERSTOOD, FileNote, is_stub
from course.grading.submission.limits import shown
from course.grading.submission.taking import MAX_LISTED, Taken

Span = tuple[int, int, int]
"""The number of a code cell from 0 on, and a half-open range of its lines."""
# In a script what is for a notebook or a shell, or what ends the process that runs it.
NOT_AN_ANSWERS = re.compile(
    r"^(?:[!%]|get_ipython\(\)|(?:sys\.)?exit\(|quit\(|raise SystemExit|unittest\.main\()",
    re.MULTILINE,
)
# Where a script is cut into cells: before each definition, or the first of its decorators.
START = re.compile(r"(?<!\n)\n(?=\n+(?:@|def |class |async def ))")
HEADING = re.compile(r"^ {0,3}#.*\bday[ _]?0*([1-9][0-9]?)\b", re.MULTILINE | re.IGNORECASE)


def gathered(
    taken: Taken, days: Iterable[Day], gather: Callable[[list[str], Day], bytes | None]
) -> Taken:
    """Return what was taken with an answer made from each untagged notebook, or without that notebook.

    A notebook or script that is no day's by its name, or a day's whose exercises it does not define, is for
    all days that it defines and that no other file is for, a stub aside.

    Args:
        taken: what `take` returned.
        gather: returns a notebook of the cells' lines that define the day's exercises, empty if none do, or
            None on failure.
    """
    gathering = _Gathering(taken, list(days), gather)
    gathering.free_misnamed()
    for day in gathering.days:
        script, name = f"{day.stem}.py", f"{day.stem}.ipynb"
        if gathering.needs_cleaning(script):
            gathering.clean(script, day)
        elif name in gathering.files:
            gathering.read_notebook(name, day)
        elif script not in gathering.files or is_stub(gathering.files[script], script):
            gathering.search_books(day)
    return gathering.result


class _Gathering:
    """What was taken from a submission, while answers are made of it."""

    def __init__(
        self, taken: Taken, days: list[Day], gather: Callable[[list[str], Day], bytes | None]
    ) -> None:
        self.days, self.files = days, dict(taken.files)
        self._taken, self._gather = taken, gather
        self._notes = {note.name: note for note in taken.taken}
        self._ignored, self._used = list(taken.ignored), set[str]()
        self._books = {path: _cells(data, path) or [] for path, data in taken.books.items()}

    @property
    def result(self) -> Taken:
        more = len(self._ignored) - len(self._taken.ignored) - len(self._used)
        ignored = [note for note in self._ignored if note.path not in self._used][:MAX_LISTED]
        return Taken(
            self.files, list(self._notes.values()), ignored, self._taken.ignored_count + more
        )

    def free_misnamed(self) -> None:
        """Take a day's file that defines another day's exercises instead for a file of no day."""
        for day, name in [(day, f"{day.stem}{ending}") for day in self.days for ending in ENDINGS]:
            if name in self.files and (
                other := _another_day(self.files[name], name, day, self.days)
            ):
                cells = _cells(self.files[name], name) or []
                path = self._set_aside(name, f"it defines the exercises of day {other.number}")
                self._books[path] = cells

    def needs_cleaning(self, script: str) -> bool:
        """Return whether a script contains lines that are for a notebook or a shell, or end the process."""
        pieces = _cells(self.files.get(script, b""), script) or []
        return any(NOT_AN_ANSWERS.search(piece.source) for piece in pieces)

    def clean(self, script: str, day: Day) -> None:
        """Take of a script the lines that define the exercises, if there are any."""
        pieces = [cell.source for cell in _cells(self.files[script], script) or []]
        if answer := self._gather(pieces, day):
            del self.files[script]
            note = replace(self._notes.pop(script), name=f"{day.stem}.ipynb")
            self._put(answer, note, "the lines that define the exercises were taken")

    def read_notebook(self, name: str, day: Day) -> None:
        """Take of an untagged notebook the cells that define the exercises, or leave it out."""
        cells = untagged_cells(self.files[name])
        if cells is None:
            return
        answer = self._gather(cells, day)
        if answer:
            self._put(answer, self._notes[name], _why(answer, day))
        else:
            self._set_aside(name, _why(answer, day))

    def search_books(self, day: Day) -> None:
        """Take a day's answer from the notebook or script of no day that defines most of it."""
        for path, book in sorted(self._books.items(), key=lambda item: -_defined(item[1], day)):
            if (cells := _cells_for(book, day)) and (answer := self._gather(cells, day)):
                self._used.add(path)
                if (script := f"{day.stem}.py") in self.files:
                    self._set_aside(script, f"{shown(path)}{CHOSEN}is more than the stub")
                why = f"its code for day {day.number}, {UNDERSTOOD}"
                self._put(answer, FileNote(path, f"{day.stem}.ipynb", ""), why)
                return

    def _put(self, answer: bytes, note: FileNote, why: str) -> None:
        self.files[note.name] = answer
        self._notes[note.name] = replace(note, why="; ".join(filter(None, (note.why, why))))

    def _set_aside(self, name: str, why: str) -> str:
        """Leave out a day's file. Returns its path in the submission."""
        del self.files[name]
        path = self._notes.pop(name).path
        self._ignored.insert(0, FileNote(path, "", why))
        return path


def _why(answer: bytes | None, day: Day) -> str:
    if answer:
        return "no cell is tagged: the cells that define the exercises were taken"
    if answer is None:
        return "no cell has the tag `answer`, and the notebook could not be looked through"
    exercises = " and ".join(f"`{exercise}`" for exercise in day.exercises)
    return f"no cell has the tag `answer`, and none defines {exercises}"


class _Cell(NamedTuple):
    """A cell of a notebook, and the number of the day that it is a heading of, or 0."""

    is_code: bool
    tagged: bool
    source: str
    heading: int

    def defines(self, names: Iterable[str]) -> bool:
        """Whether a line of it seems to define one of these names: no parser reads it here."""
        pattern = rf"^(?:async def|def|class)[ ]+(?:{'|'.join(names)})\b"
        return self.is_code and bool(re.search(pattern, self.source, re.MULTILINE))


def untagged_cells(data: bytes) -> list[str] | None:
    """The code cells of a notebook; None if some are tagged, or it is no notebook that can be read."""
    cells = _cells(data, ".ipynb")
    if cells is None or any(cell.tagged for cell in cells):
        return None
    return [cell.source for cell in cells if cell.is_code]


def _cells_for(cells: list[_Cell], day: Day) -> list[str]:
    """The code cells of a notebook for several days that a day's answer is to be gathered from; or none.

    Of cells that define the exercises the tagged ones count, if there are any. As the last definition of a
    name counts, cells end before the next day's heading, or where there are no headings, before the second
    definition of what a later day defines as well.
    """
    if any(cell.tagged and cell.defines(day.exercises) for cell in cells):
        cells = [cell for cell in cells if cell.tagged or not cell.defines(day.exercises)]
    headings = [(at, cell.heading) for at, cell in enumerate(cells) if cell.heading]
    own = [at for at, number in headings if number == day.number]
    ends = [at for at, _ in headings if own and at > own[-1]]
    if headings:
        cells = cells[: ends[0] if ends else len(cells)] if own else []
    else:
        later = {name for other in DAYS if other.number > day.number for name in other.exercises}
        for name in later.intersection(day.exercises):
            repeats = [at for at, cell in enumerate(cells) if cell.defines([name])][1:]
            cells = cells[: repeats[0]] if repeats else cells
    if not any(cell.defines(day.exercises) for cell in cells):
        return []
    return [cell.source for cell in cells if cell.is_code]


def _defined(cells: list[_Cell], day: Day) -> int:
    """How many of a day's exercises a file seems to define."""
    return sum(any(cell.defines([name]) for cell in cells) for name in day.exercises)


def _another_day(data: bytes, name: str, day: Day, days: Iterable[Day]) -> Day | None:
    """The day whose exercises a day's file defines, if it defines none of its own."""
    cells = _cells(data, name) or []
    if _defined(cells, day):
        return None
    return next((other for other in days if _defined(cells, other)), None)


def _cells(data: bytes, name: str) -> list[_Cell] | None:
    """The cells of a notebook, or a script cut into cells; None of what cannot be read."""
    if len(data) > MAX_FILE_BYTES:
        return None
    try:
        if name.lower().endswith(".py"):
            pieces = re.split(START, _lines_ended(decoded(data, ".py")))
            return [_Cell(True, False, piece, 0) for piece in pieces]
        return [_cell(cell) for cell in json.loads(decoded(data, ".ipynb"))["cells"]]
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _cell(cell: dict[str, Any]) -> _Cell:
    is_code = cell["cell_type"] == "code"
    source = _lines_ended("".join(cell["source"]))
    heading = None if is_code else HEADING.search(source)
    tagged = is_code and ANSWER_TAG in cell["metadata"].get("tags", [])
    return _Cell(is_code, tagged, source, int(heading[1]) if heading else 0)


def as_answer(cells: list[str], spans: list[Span]) -> bytes:
    """A notebook of these lines alone, a tagged cell for each span.

    Raises:
        IndexError: there is no such cell.
    """
    answer_cells = [
        _tagged("\n".join(cells[cell].split("\n")[first:last])) for cell, first, last in spans
    ]
    return json.dumps(
        {"cells": answer_cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    ).encode()


def _lines_ended(source: str) -> str:
    """The source with its lines ended as Python's parser counts them."""
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _tagged(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": [ANSWER_TAG]},
        "outputs": [],
        "source": source,
    }
