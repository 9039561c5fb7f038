"""The board: the days, which of them pass, and which is next; in the terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from course.curriculum import COURSE_PARTS, DAYS, CoursePart, Day
from course.judging.results import DayResult
from course.references.lessons import times
from course.terminal.display import MARKS, safe

UNFINISHED = ("failed", "error", "in_progress")


def board(results: dict[int, DayResult], to: Console) -> RenderableType:
    """Show the days by part, which of them pass, which is next, and where the last failure was."""
    numbered = [(n, part) for n, part in enumerate(COURSE_PARTS, 1) if _ready(part.days)]
    parts = [_part(number, part, results) for number, part in numbered]
    days = next(table for table in _arrangements(parts) if _fits(table, to))
    above, below = _headline(results, to.width), (_legend(), "", *_next_steps(results))
    full = Group(above, "", days, *below)
    if not to.is_terminal or len(to.render_lines(full, pad=False)) < to.height:
        return full
    here = next((day for day, result in results.items() if result.status != "passed"), 0)
    folded = [
        table if here in [day.number for day in part.days] else _folded(number, part, results)
        for table, (number, part) in zip(parts, numbered, strict=True)
    ]
    return Group(above, "", *folded, "", *below)


def _ready(days: Sequence[Day]) -> list[Day]:
    """Return the days that are here: a student edition may leave days out."""
    return [day for day in days if day.ready]


def _arrangements(parts: Sequence[Table]) -> Iterator[Table]:
    """The parts side by side, then in ever fewer columns."""
    first, later = parts[:2], parts[2:]
    for columns in (
        [[part] for part in parts],
        [first, later[:1], later[1:]],
        [first, later],
        [parts],
    ):
        table = Table.grid(padding=(0, 3, 0, 0))
        table.add_row(
            *(Group(*(Padding(part, (0, 0, 1, 0)) for part in column)) for column in columns)
        )
        yield table


def _fits(table: Table, to: Console) -> bool:
    return (
        len(table.columns) == 1
        or to.measure(table, options=to.options.update(width=1000)).maximum <= to.width
    )


def _headline(results: dict[int, DayResult], width: int) -> RenderableType:
    days = _ready(DAYS)
    passed = [day for day in days if _status(day, results) in ("passed", "watertight")]
    cells = max(1, min(len(DAYS), width - 2))
    done = round(cells * len(passed) / len(days))
    bar = Text.assemble(("━" * done, "passed"), ("━" * (cells - done), "quiet"))
    count = f"  {len(passed)} of {len(days)} days"
    title = Text.assemble(("Transformers from scratch", "bold"), (count, "quiet"))
    return Group(title, bar)


def _folded(number: int, part: CoursePart, results: dict[int, DayResult]) -> Text:
    """A part in a line, where the screen is too short for its days."""
    days = _ready(part.days)
    passed = sum(_status(day, results) in ("passed", "watertight") for day in days)
    count = f"  {passed} of {len(days)} days"
    return Text.assemble((f"     {number} · {part.title}", "bold"), (count, "quiet"))


def _part(number: int, part: CoursePart, results: dict[int, DayResult]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(justify="right", width=2)
    table.add_column()
    table.add_row("", "", Text(f"{number} · {part.title}", "bold"))
    for day in _ready(part.days):
        status = _status(day, results)
        title = Text.assemble((day.title, "bold" if status in UNFINISHED else ""))
        if status in UNFINISHED:
            title.append(f" {results[day.number].passed}/{results[day.number].total}", status)
        table.add_row(Text(MARKS[status], status), Text(str(day.number), "quiet"), title)
    return table


def _status(day: Day, results: dict[int, DayResult]) -> str:
    """How a day is shown: its status, or that it is watertight."""
    if day.number not in results:
        return "not_started"
    result = results[day.number]
    return "watertight" if result.watertight else result.status


def _legend() -> Text:
    legend = Text()
    for status in ("passed", "watertight", "in_progress", "failed", "not_started"):
        meaning = "passed and watertight" if status == "watertight" else status.replace("_", " ")
        legend.append(f"{MARKS[status]} ", status).append(f"{meaning}   ", "quiet")
    return legend


def _minutes(day: Day) -> str:
    """How long the day takes."""
    return f" ({times(day).in_short} minutes: read + write + use)"


def _next_steps(results: dict[int, DayResult]) -> list[RenderableType]:
    coming = next((r for r in results.values() if r.status != "passed"), None)
    lines: list[RenderableType] = []
    if coming is None:
        stars = sum(result.watertight for result in results.values())
        words = f"Every available day passes; {stars} of {len(results)} are watertight."
        lines.append(Text(words, "passed"))
        return lines
    failures = [(r.day, check) for r in results.values() for check in r.core if check.went_wrong]
    for day, failure in failures[:1]:
        first = failure.message.splitlines()[0] if failure.message else ""
        lines += [
            Text(f"Day {day.number} fails in {failure.name}", "failed"),
            Padding(safe(first), (0, 0, 1, 2)),
        ]
    day = coming.day
    lines.append(Text(f"Next: day {day.number} · {day.title}", "bold"))
    for command, what in (
        (f"course lesson {day.number}", f"read and run the lesson{_minutes(day)}"),
        (
            f"course watch {day.number}",
            f"then fill in exercises/{day.stem}.py: checked at every save",
        ),
        (f"course hint {day.number}", "when you are stuck"),
    ):
        lines.append(Padding(Text.assemble((f"{command:<18}", "command"), what), (0, 0, 0, 2)))
    return lines


SQUARE, PITCH, A_ROW, MARGIN = 36, 42, 10, 16  # pixels of the picture; at most ten days in a row
SVG_STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #59636e }
.title { font-size: 19px; font-weight: 700; fill: #1f2328 }
.part { font-weight: 600; fill: #1f2328 }
.day rect { fill: #f6f8fa; stroke: #d1d9e0; stroke-width: 1.5 }
.day text { text-anchor: middle }
.passed rect, .watertight rect { fill: #0072b2; stroke: none }
.passed text, .watertight text { fill: white; font-weight: 600 }
.begun rect { stroke: #bc4c00 }
.watertight .star { fill: #ffd33d; font-size: 11px }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .title, .part { fill: #f0f6fc }
  .day rect { fill: #151b23; stroke: #3d444d }
  .passed rect, .watertight rect { fill: #1f6feb }
  .begun rect { stroke: #f0883e }
}
"""


def board_svg(results: dict[int, DayResult]) -> str:
    """Return the board as an SVG picture with light and dark colors that is readable on a phone."""
    statuses = {day.number: _status(day, results) for day in _ready(DAYS)}
    passed = sum(status in ("passed", "watertight") for status in statuses.values())
    stars = sum(status == "watertight" for status in statuses.values())
    summary = f"{passed} of {len(statuses)} days" + (f", {stars} watertight ★" if stars else "")
    elements = [f'<text class="title" x="{MARGIN}" y="34">Transformers from scratch</text>']
    elements.append(f'<text x="{MARGIN}" y="56">{summary}</text>')
    y = 84
    for number, part in enumerate(COURSE_PARTS, 1):
        if not (days := _ready(part.days)):
            continue
        title = escape(f"{number} · {part.title}")
        elements.append(f'<text class="part" x="{MARGIN}" y="{y}">{title}</text>')
        for index, day in enumerate(days):
            row, column = divmod(index, A_ROW)
            corner = MARGIN + column * PITCH, y + 10 + row * PITCH
            elements.append(_square(day, statuses[day.number], *corner))
        y += 42 + PITCH * (row + 1)
    width, height = 2 * MARGIN + A_ROW * PITCH + SQUARE - PITCH, y - 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="Transformers from scratch: {summary}">\n<style>{SVG_STYLE}</style>\n'
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def _square(day: Day, status: str, x: int, y: int) -> str:
    """A day's square; its title is shown where one points at it."""
    middle = x + SQUARE // 2
    star = (
        f'<text class="star" x="{middle}" y="{y + 33}">★</text>' if status == "watertight" else ""
    )
    kind = "begun" if status in UNFINISHED else status
    return (
        f'<g class="day {kind}"><title>Day {day.number}, {escape(day.title)}: '
        f"{status.replace('_', ' ')}</title>"
        f'<rect x="{x}" y="{y}" width="{SQUARE}" height="{SQUARE}" rx="6"/>'
        f'<text x="{middle}" y="{y + (20 if star else 23)}">{day.number}</text>{star}</g>'
    )
