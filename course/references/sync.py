"""Write stubs and solutions from the references, and the generated parts of lessons; files that someone
has begun do not change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from course.curriculum import ANSWER_TAG, DAYS, ROOT, Day
from course.references.acts import faults_of_acts
from course.references.contracts import faults
from course.references.editions import is_recorded, stub_of
from course.references.lessons import TIME, faults_of_form, folded, hours, times
from course.references.stub_digests import (
    STUB_DIGESTS,
    digest,
    is_untouched,
    note_stub,
    stub_digests,
)
from course.references.text import definition_text, import_lines, sorted_imports

README = ROOT / "README.md"


@dataclass(frozen=True)
class Drift:
    """A file that no longer matches the reference.

    Attributes:
        theirs: whether someone has begun the file, so that it must not change.
        by_hand: whether only a person can repair the file.
    """

    path: Path
    what: str
    theirs: bool = False
    by_hand: bool = False

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}: {self.what}"


def sync(*, write: bool) -> list[Drift]:
    """Find every stub, solution and lesson that has drifted; with `write`, write those that nobody
    has begun.

    Returns:
        The files that had drifted, and the stubs that someone has begun, marked `theirs`.
    """
    drifts: list[Drift] = []
    digests = stub_digests()
    for day in (day for day in DAYS if day.ready):
        if not is_recorded(day):
            drifts += [Drift(day.contracts, what, by_hand=True) for what in faults(day)]
        drifts += _sync_stub(day, digests, write)
        drifts += _sync_solution(day, write)
        drifts += _sync_lesson(day, write)
    drifts += _sync_readme(write)
    if write:
        STUB_DIGESTS.write_text(
            json.dumps(digests, indent=1) + "\n", encoding="utf-8", newline="\n"
        )
    return drifts


def _sync_stub(day: Day, digests: dict[str, list[str]], write: bool) -> Iterator[Drift]:
    text = stub_of(day)
    if day.stub.exists():
        try:
            present = day.stub.read_bytes()
        except OSError as error:
            yield Drift(
                day.stub, f"not readable ({error.strerror}), and so left alone", theirs=True
            )
            return
        if digest(present) == digest(text.encode()):
            if digest(present) not in digests.get(day.stem, ()):
                yield Drift(STUB_DIGESTS, f"lacks the digest of {day.stub.name}")
            note_stub(digests, day, present)
            return
        if not is_untouched(day, day.stub):
            yield Drift(day.stub, "begun, and so left alone", theirs=True)
            return
    yield Drift(day.stub, "does not match the reference" if day.stub.exists() else "missing")
    if write:
        day.stub.write_text(text, encoding="utf-8", newline="\n")
        note_stub(digests, day, text.encode())


# --- Solution notebooks ---------------------------------------------------------------------------


def answer_cells(day: Day) -> dict[str, str]:
    """Return the tagged cells of a solution by name: the imports, then a cell for each exercise."""
    cells = {"imports": sorted_imports(import_lines(day)).strip()}
    return cells | {name: definition_text(day, name).strip() for name in day.exercises}


def _sync_solution(day: Day, write: bool) -> Iterator[Drift]:
    if not day.solution.exists():
        words = "missing: a notebook with a cell tagged `answer` for the imports and each exercise"
        yield Drift(day.solution, words, by_hand=True)
        return
    notebook = nbformat.read(day.solution, as_version=4)  # type: ignore[no-untyped-call]
    cells: dict[str, Any] = {
        cell.metadata.get("name", ""): cell
        for cell in notebook.cells
        if ANSWER_TAG in cell.metadata.get("tags", [])
    }
    expected = answer_cells(day)
    for name in sorted(set(expected) ^ set(cells)):
        why = "no tagged cell is named" if name in expected else "a tagged cell is no exercise:"
        yield Drift(day.solution, f"{why} {name or '(no name)'}", by_hand=True)
    drifted = [name for name in expected if name in cells and cells[name].source != expected[name]]
    for name in drifted:
        yield Drift(day.solution, f"its cell for {name} is not the reference's definition")
        cells[name].source = expected[name]
    if drifted and write:
        nbformat.write(notebook, day.solution)  # type: ignore[no-untyped-call]


# --- Lessons --------------------------------------------------------------------------------------


def _sync_lesson(day: Day, write: bool) -> Iterator[Drift]:
    notebook = nbformat.read(day.lesson, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    new = [folded(cell.source) for cell in cells]
    new[0] = TIME.sub(f"**Time.** {times(day)}", new[0])
    unlike = [(cell, text) for cell, text in zip(cells, new, strict=True) if cell.source != text]
    for cell, text in unlike:
        what = "the time" if cell == cells[0] else f"an open answer: {cell.source[:60]!r}"
        yield Drift(day.lesson, what)
        cell.source = text
    yield from (Drift(day.lesson, what, by_hand=True) for what in faults_of_form(new))
    yield from (
        Drift(day.lesson, what, by_hand=True) for what in faults_of_acts(day, notebook.cells)
    )
    if unlike and write:
        nbformat.write(notebook, day.lesson)  # type: ignore[no-untyped-call]


def _sync_readme(write: bool) -> Iterator[Drift]:
    """README's times, and those of its table; an edition has no README."""
    if not README.exists():
        return
    text = README.read_text(encoding="utf-8")
    new = re.sub(r"\*\*How long\.\*\* .*", f"**How long.** {hours()}", text)
    for day in DAYS:
        row = rf"(\| {day.number} \| \[.*\]\(lessons/{day.stem}\.ipynb\) \|)(?: [\d+]+ \|)?"
        new = re.sub(row, rf"\1 {times(day).in_short} |", new)
    if new != text:
        yield Drift(README, "its times are not the lessons'")
        if write:
            README.write_text(new, encoding="utf-8", newline="\n")
