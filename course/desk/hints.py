"""Show hints, one more each time.

A day's hints are a Markdown file: a heading `## exercise` for each exercise, and under it `### 1`,
`### 2` … from a nudge to nearly the answer. The first hint, before these, gives the numbered steps of the
reference, if there are any.
"""

from __future__ import annotations

import re

from course.curriculum import Day
from course.desk.state import changing
from course.references.editions import steps_for

GIVEN = "hints"


def read_hints(day: Day) -> dict[str, list[str]]:
    """Return the hints of each exercise, in order."""
    text = day.hints.read_text(encoding="utf-8")
    hints: dict[str, list[str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        parts = re.split(r"^### \d+\s*$", body, flags=re.MULTILINE)[1:]
        exercise = name.strip().strip("`")
        steps = steps_for(day, exercise)
        first = [f"The steps of one way:\n\n{steps}"] if steps else []
        hints[exercise] = [*first, *(part.strip() for part in parts)]
    return hints


def next_hint(day: Day, exercise: str) -> tuple[dict[int, str], int]:
    """Return the number of the next hint, or of all hints if all have been given, and the total number."""
    hints = dict(enumerate(read_hints(day)[exercise], 1))
    key = f"{day.stem}/{exercise}"
    with changing(GIVEN) as counts:
        count = counts[key] = int(counts.get(key, 0)) + 1
    return ({count: hints[count]} if count in hints else hints), len(hints)


def give_back(day: Day) -> bool:
    """Start the day's hints over. Returns whether any had been given."""
    with changing(GIVEN) as counts:
        mine = [key for key in counts if key.startswith(f"{day.stem}/")]
        for key in mine:
            del counts[key]
    return bool(mine)
