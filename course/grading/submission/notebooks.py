"""Notebooks whose answer cells are not tagged: an answer is made of the lines that define the exercises.

Which lines these are is found in the sandbox (`gather` in `analysis.py`), where hostile text may be
parsed; from there come numbers alone. The lines are cut out here, of what was handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from course.checks.answer_files import LARGEST_FILE
from course.curriculum import ANSWER_TAG, Day
from course.grading.submission.choosing import FileNote
from course.grading.submission.taking import MOST_TOLD, Taken

Span = tuple[int, int, int]
"""The number of a code cell from 0 on, and a half-open range of its lines."""


def gathered(
    taken: Taken, days: Iterable[Day], gather: Callable[[list[str], Day], bytes | None]
) -> Taken:
    """Return what was taken with an answer made from each untagged notebook, or without that notebook.

    Args:
        taken: what `take` returned.
        days: those that are graded.
        gather: returns a notebook of the cells' lines that define the day's exercises, empty if none do, or
            None on failure.
    """
    made: dict[str, tuple[bytes, str]] = {}
    for day in days:
        name = f"{day.stem}.ipynb"
        cells = untagged_cells(taken.files[name]) if name in taken.files else None
        if cells is not None:
            answer = gather(cells, day)
            made[name] = answer or b"", _why(answer, day)
    useless = [name for name, (answer, _) in made.items() if not answer]
    notes = {one.name: one for one in taken.taken}
    for name, (_, why) in made.items():
        notes[name] = replace(notes[name], why="; ".join(filter(None, (notes[name].why, why))))
    dropped = [FileNote(notes.pop(name).path, "", made[name][1]) for name in useless]
    files = taken.files | {name: answer for name, (answer, _) in made.items()}
    return Taken(
        {name: data for name, data in files.items() if name not in useless},
        list(notes.values()),
        [*reversed(dropped), *taken.ignored][:MOST_TOLD],
        taken.ignored_count + len(dropped),
    )


def _why(answer: bytes | None, day: Day) -> str:
    if answer:
        return "no cell is tagged: the cells that define the exercises were taken"
    if answer is None:
        return "no cell has the tag `answer`, and the notebook could not be looked through"
    exercises = " and ".join(f"`{one}`" for one in day.exercises)
    return f"no cell has the tag `answer`, and none defines {exercises}"


def untagged_cells(data: bytes) -> list[str] | None:
    """The code cells of a notebook; None if some are tagged, or it is no notebook that can be read."""
    if len(data) > LARGEST_FILE:
        return None
    try:
        cells = json.loads(data.decode("utf-8-sig"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        if any(ANSWER_TAG in cell["metadata"].get("tags", []) for cell in code):
            return None
        return [_lines_ended("".join(cell["source"])) for cell in code]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def as_answer(cells: list[str], spans: list[Span]) -> bytes:
    """A notebook of these lines alone, a tagged cell for each span.

    Raises:
        IndexError: there is no such cell.
    """
    made = [_tagged("\n".join(cells[cell].split("\n")[first:last])) for cell, first, last in spans]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


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
