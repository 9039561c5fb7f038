"""Which notebooks there are, and how nbval runs them: `pytest $NBVAL lessons/day08_attention.ipynb`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from course.curriculum import DAYS, Day

NBVAL = ("-p", "tests.notebooks.kernels", "--nbval")


def notebooks() -> Iterator[tuple[Day, Path]]:
    """Find all lessons and solutions, and the days that they belong to."""
    for day in DAYS:
        yield from ((day, file) for file in (day.lesson, day.solution) if file.exists())
