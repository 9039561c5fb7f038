"""The references without the definitions of today and of later days."""

from __future__ import annotations

from course.curriculum import DAYS, ROOT, Day, day_of_definition
from course.references.imports import Cut
from course.references.text import Reference, reference, span


def cut_sources(day: Day) -> Cut:
    """The references without the exercises of this and later days."""
    files = dict.fromkeys(
        file for other in DAYS for file in other.references if (ROOT / file).exists()
    )
    return {reference(file).module: _cut(reference(file), day) for file in files}


def _cut(source: Reference, day: Day) -> tuple[str, dict[str, int]]:
    lines = source.source.splitlines()
    withheld = {
        name: other.number
        for other in DAYS
        for name in other.exercises
        if day_of_definition(source.file, name) == other
        and (other.number >= day.number or name not in source.definitions)
    }
    for name in withheld.keys() & source.definitions.keys():
        first, last = span(source.definitions[name])
        lines[first:last] = [""] * (last - first)
    return "\n".join(lines) + "\n", withheld
