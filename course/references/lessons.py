"""The form that all lessons share: folded answers, and the time that a lesson takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from course.curriculum import DAYS, Day

# An answer begins with "**Answer.**", or names its question: "**Answer, first part.**".
OPEN = re.compile(r"^\*\*(Answers?\b[^*\n]*?)[.:]?\*\*\s*", re.MULTILINE)
PREDICTION = re.compile(r"\*\*Predict first\b")
FOLD = "<details><summary>{}</summary>\n\n{}\n\n</details>"
FOLDED = re.compile(
    r"(?:\A|\n\n)<details><summary>[^<\n]+</summary>\n\n.+?\n\n</details>(?=\n\n|\Z)", re.S
)

FURTHER, SOURCES = "## Further", "## Where to read on"
TIME = re.compile(r"^\*\*Time\.\*\* .*; about (\d+) for the exercise\.$", re.MULTILINE)


@dataclass(frozen=True)
class Times:
    """How many minutes a lesson takes.

    Attributes:
        reading: the minutes for what the day needs.
        further: the minutes for the sections at the end whose headings begin with "Further".
        exercise: the minutes from trials, as in the lesson's first cell.
    """

    reading: int
    further: int
    exercise: int

    @property
    def in_short(self) -> str:
        return f"{self.reading}+{self.exercise}"

    def __str__(self) -> str:
        more = f", and {self.further} for the parts called *Further*" if self.further else ""
        return f"About {self.reading} minutes of reading{more}; about {self.exercise} for the exercise."


def times(day: Day) -> Times:
    """Return how long a day takes: 150 words or 8 visible lines of code a minute, 2 minutes for a prediction
    and 1.5 for a figure, to the next five."""
    cells = json.loads(day.lesson.read_text(encoding="utf-8"))["cells"]
    spent = {False: 0.0, True: 0.0}
    for heading, minutes in _sections(cells):
        if heading != SOURCES:
            spent[heading.startswith(FURTHER)] += minutes
    exercise = TIME.search("".join(cells[0]["source"]))
    reading, further = (5 * round(one / 5) for one in spent.values())
    return Times(reading, further, int(exercise[1]) if exercise else 0)


def hours() -> str:
    """Return how long the course takes, and its days."""
    reading, exercise = zip(
        *((times(day).reading, times(day).exercise) for day in DAYS), strict=True
    )
    return (
        f"About {5 * round((sum(reading) + sum(exercise)) / 300)} hours. A lesson takes {min(reading)} to "
        f"{max(reading)} minutes, its exercise {min(exercise)} to {max(exercise)}."
    )


def _sections(cells: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """The minutes of each piece of a notebook, with the heading that it is under."""
    heading = ""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for text in re.split(r"^(?=## )", source, flags=re.MULTILINE):
                heading = text.partition("\n")[0] if text.startswith("## ") else heading
                words = len(re.findall(r"\S*\w\S*", text))
                yield heading, words / 150 + 2 * len(PREDICTION.findall(text))
        else:
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
            lines = 0 if hidden else sum(bool(line.strip()) for line in source.splitlines())
            figures = sum(
                "image/" in " ".join(one.get("data", ())) for one in cell.get("outputs", ())
            )
            yield heading, lines / 8 + 1.5 * figures


def folded(text: str) -> str:
    """Return a cell's Markdown with each open answer folded.

    An answer is a paragraph, with the list, table or equation that it introduces with a colon. If
    it is longer, move the end of the fold by hand.
    """
    blocks = re.split(r"\n{2,}", text)
    for begin in reversed([place for place, block in enumerate(blocks) if OPEN.match(block)]):
        end, match = begin + 1, OPEN.match(blocks[begin])
        assert match
        while end < len(blocks) and (OPEN.fullmatch(blocks[end - 1]) or blocks[end - 1][-1] == ":"):
            end += 1
        answer = "\n\n".join([blocks[begin][match.end() :], *blocks[begin + 1 : end]])
        blocks[begin:end] = [FOLD.format(match[1], answer.strip())]
    return "\n\n".join(blocks) if OPEN.search(text) else text


def faults_of_form(cells: list[str]) -> Iterator[str]:
    """Find what is wrong with the form of a lesson, given the Markdown of its cells."""
    text = "\n\n".join(cells)
    if not TIME.search(cells[0]):
        yield f"its first cell has no line such as **Time.** {Times(60, 10, 30)}"
    if len(FOLDED.findall(text)) != text.count("<details"):
        form = FOLD.format("…", "…").replace("\n", "⏎")
        yield f"a fold is not of the form ⏎⏎{form}⏎⏎"
    predictions = [match.start() for match in PREDICTION.finditer(text)]
    for begin, end in pairwise([*predictions, len(text)]):
        if "<details" not in text[begin:end]:
            yield f"no folded answer follows: {text[begin : begin + 80]!r}"
    headings = re.findall(r"^## .*", text, re.MULTILINE)
    first = next((n for n, one in enumerate(headings) if one.startswith(FURTHER)), len(headings))
    if any(not one.startswith((FURTHER, SOURCES)) for one in headings[first:]):
        yield f"a section stands between those called Further and {SOURCES!r}"
