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
TIME = re.compile(r"^\*\*Time\.\*\* .*, (\d+) to write, .*", re.MULTILINE)

WRITE, USE = ACTS = ("act-2", "act-3")
"""The tags of the headings with which the second and the third act begin."""
MAX_IDEA, MAX_READING = 25, 50  # minutes of the first act, and of the first and the third
MAX_PREDICTIONS = 4


@dataclass(frozen=True)
class Times:
    """How many minutes a lesson takes.

    Attributes:
        read: the minutes of reading before the exercise.
        write: the minutes of the exercise from trials, as in the lesson's first cell.
        use: the minutes of the third act.
        further: the minutes for the sections at the end whose headings begin with "Further".
    """

    read: int
    write: int
    use: int
    further: int = 0

    @property
    def in_short(self) -> str:
        return f"{self.read}+{self.write}+{self.use}"

    @property
    def reading(self) -> int:
        """The minutes of reading that the day needs."""
        return self.read + self.use

    def __str__(self) -> str:
        more = f"; {self.further} more for the parts called *Further*" if self.further else ""
        return f"About {self.read} minutes to read, {self.write} to write, {self.use} to use{more}."


def times(day: Day) -> Times:
    """Return how long a day takes, to the next five minutes."""
    read, use, further = (5 * round(value / 5) for value in minutes(day))
    match = TIME.search("".join(_cells(day)[0]["source"]))
    return Times(read, int(match[1]) if match else 0, use, further)


def minutes(day: Day) -> tuple[float, float, float]:
    """Return the minutes of the first act, of the third, and of the parts called Further: 150 words or 8
    visible lines of code a minute, 2 minutes for a prediction and 1.5 for a figure.

    The second act, which is short, counts as part of the first.
    """
    spent = {"read": 0.0, "use": 0.0, "further": 0.0}
    for act, heading, cost in _sections(_cells(day)):
        if heading.startswith(FURTHER):
            spent["further"] += cost
        elif heading != SOURCES:
            spent["use" if act == USE else "read"] += cost
    return spent["read"], spent["use"], spent["further"]


def _cells(day: Day) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(day.lesson.read_text(encoding="utf-8"))["cells"]
    return cells


def hours() -> str:
    """Return how long the course takes, and its days."""
    reading, exercise = zip(*((times(day).reading, times(day).write) for day in DAYS), strict=True)
    return (
        f"About {5 * round((sum(reading) + sum(exercise)) / 300)} hours. A lesson takes {min(reading)} to "
        f"{max(reading)} minutes, its exercise {min(exercise)} to {max(exercise)}."
    )


def _sections(cells: list[dict[str, Any]]) -> Iterator[tuple[str, str, float]]:
    """The minutes of each piece of a notebook, with the act and the heading that it is under."""
    act = heading = ""
    for cell in cells:
        act = next((tag for tag in ACTS if tag in cell["metadata"].get("tags", ())), act)
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for text in re.split(r"^(?=## )", source, flags=re.MULTILINE):
                heading = text.partition("\n")[0] if text.startswith("## ") else heading
                words = len(re.findall(r"\S*\w\S*", text))
                yield act, heading, words / 150 + 2 * len(PREDICTION.findall(text))
        else:
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
            lines = 0 if hidden else sum(bool(line.strip()) for line in source.splitlines())
            figures = sum(
                "image/" in " ".join(output.get("data", ())) for output in cell.get("outputs", ())
            )
            yield act, heading, lines / 8 + 1.5 * figures


def folded(text: str) -> str:
    """Return a cell's Markdown with each open answer folded.

    An answer is a paragraph, with the list, table or equation that it introduces with a colon. If
    it is longer, move the end of the fold by hand.
    """
    blocks = re.split(r"\n{2,}", text)
    for begin in reversed([index for index, block in enumerate(blocks) if OPEN.match(block)]):
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
        yield f"its first cell has no line such as **Time.** {Times(20, 30, 25, 10)}"
    if len(FOLDED.findall(text)) != text.count("<details"):
        form = FOLD.format("…", "…").replace("\n", "⏎")
        yield f"a fold is not of the form ⏎⏎{form}⏎⏎"
    predictions = [match.start() for match in PREDICTION.finditer(text)]
    for begin, end in pairwise([*predictions, len(text)]):
        if "<details" not in text[begin:end]:
            yield f"no folded answer follows: {text[begin : begin + 80]!r}"
    headings = re.findall(r"^## .*", text, re.MULTILINE)
    first = next(
        (n for n, heading in enumerate(headings) if heading.startswith(FURTHER)), len(headings)
    )
    if any(not heading.startswith((FURTHER, SOURCES)) for heading in headings[first:]):
        yield f"a section stands between those called Further and {SOURCES!r}"
