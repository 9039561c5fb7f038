"""The three questions at the end of a lesson: asked the day after, and again after growing intervals.

`.course/recall.json` holds how often each day has been asked, and the date of the next time. Opening a lesson
sets the first date, the next day. Asking its questions then sets the one after: 3, 7, and 21 days later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from rich.console import Console
from rich.text import Text

from course.curriculum import DAYS, Day
from course.desk.prose import Prose
from course.desk.state import changing, recall

SCHEDULE = "recall"
INTERVALS = (1, 3, 7, 21)  # days; the last one repeats
HEADING = "## Three questions for tomorrow\n"
QUESTION = re.compile(
    r"^(?:\*\*)?\d\.(?:\*\*)? +(.+?)\s*<details><summary>Answer</summary>\s*(.+?)\s*</details>",
    re.MULTILINE | re.DOTALL,
)
SIGNS = {
    "pi": "π",
    "rho": "ρ",
    "ell": "ℓ",
    "sum": "Σ",
    "cdot": "·",
    "times": "×",
    "approx": "≈",
    "lceil": "⌈",
    "rceil": "⌉",
    "theta": "θ",
    "nabla": "∇",
}
# The TeX that questions contain, as a terminal shows it; in this order.
PLAIN = (
    *((rf"\\{name}(?![a-z])", sign) for name, sign in SIGNS.items()),
    (r"\\(ln|log)(?![a-z])", r"\1"),
    (r"\\tfrac(\d)(\d)", r"\1/\2"),
    (r"\\mathrm\{(\w+)\}", r"\1"),
    (r"\\hat ([A-Z])", "\\1\u0302"),
    (r"\\\|", "‖"),
    (r"_\{(\w+)\}", r"_\1"),
    (r"\\sqrt ?(?:\{(\d|[a-zA-Z]\w*)\}|(\w))", r"√\1\2"),
    (r"(\\sqrt|\^)\{([^}]*)\}", r"\1(\2)"),
    (r"\\sqrt", "√"),
    (r"\\,", " "),
    (r"\{,\}", ","),
)


@dataclass(frozen=True)
class Question:
    """A question of a lesson, and its answer, both in Markdown."""

    text: str
    answer: str


def questions(day: Day) -> list[Question]:
    """The three questions that the day's lesson ends with."""
    cells = json.loads(day.lesson.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells)
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    return [Question(*map(_in_plain_text, match)) for match in QUESTION.findall(section)]


def _in_plain_text(markdown: str) -> str:
    def plain(formula: re.Match[str]) -> str:
        text = formula[1]
        for tex, sign in PLAIN:
            text = re.sub(tex, sign, text)
        return text.replace("*", r"\*").replace("_", r"\_")

    return re.sub(r"\$([^$]+)\$", plain, markdown)


def ask(day: Day, console: Console, wait: Callable[[], object] | None) -> None:
    """Ask the day's questions one by one, and show an answer when `wait` returns. Without `wait`, as
    without a terminal, show all questions first, and then all answers."""
    console.print(Text(f"Day {day.number} · {day.title}", "bold"))
    cards = questions(day)
    for number, question in enumerate(cards, 1):
        console.print(Text(f"Question {number} of {len(cards)}", "quiet"))
        console.print(Prose(question.text), crop=False)
        if wait is not None:
            wait()
            console.print(Prose(question.answer), crop=False)
    for number, question in enumerate(cards if wait is None else [], 1):
        console.print(Text(f"Answer {number}", "quiet"))
        console.print(Prose(question.answer), crop=False)


def begin(day: Day, today: date) -> None:
    """Schedule the day's questions for tomorrow, unless they already have a date."""
    with changing(SCHEDULE) as table:
        table.setdefault(day.stem, _entry(0, today))


def asked(day: Day, today: date) -> date:
    """Record that the day's questions have been asked. Returns the next date; a date in the future does
    not change."""
    with changing(SCHEDULE) as table:
        coming = _date(table.get(day.stem))
        if coming is None or coming <= today:
            table[day.stem] = _entry(_times(table.get(day.stem)) + 1, today)
        return _date(table[day.stem]) or today


def due(passed: Iterable[Day], today: date) -> list[Day]:
    """Return the days whose questions are due. A day that passed without `course lesson` begins its
    intervals here."""
    dates = scheduled()
    for day in passed:
        if day not in dates:
            begin(day, today)
    return [day for day, when in dates.items() if when <= today]


def scheduled() -> dict[Day, date]:
    """Return the next date of each day that has a date."""
    table = recall(SCHEDULE)
    dates = {day: _date(table.get(day.stem)) for day in DAYS}
    return {day: when for day, when in dates.items() if when is not None}


def _date(entry: object) -> date | None:
    """The date of a day's entry; None if it has none, or one that we did not write."""
    try:
        return date.fromisoformat(entry["next"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return None


def _times(entry: object) -> int:
    times = entry.get("asked") if isinstance(entry, dict) else None
    return times if isinstance(times, int) else 0


def _entry(times: int, today: date) -> dict[str, object]:
    interval = INTERVALS[min(times, len(INTERVALS) - 1)]
    return {"asked": times, "next": (today + timedelta(days=interval)).isoformat()}
