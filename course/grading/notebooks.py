"""Notebooks whose answer cells are not tagged: an answer is made of the lines that define the exercises.

Which lines these are is found in the sandbox (`gather` in `analysis.py`), where hostile text may be
parsed; from there come numbers alone. The lines are cut out here, of what was handed in.
"""

from __future__ import annotations

import json
from typing import Any

from course.checks.answer_files import LARGEST_FILE
from course.curriculum import ANSWER_TAG

Span = tuple[int, int, int]
"""The number of a code cell from 0 on, and a half-open range of its lines."""


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
