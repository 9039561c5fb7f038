"""What people look at: the board, a day's verdict, hints.

Whatever a learner wrote is shown as mere text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from course.curriculum import DAYS, PARTS, Day, Part
from course.results import CheckResult, DayResult

THEME = Theme(
    {
        "passed": "green",
        "failed": "red",
        "error": "red",
        "in_progress": "yellow",
        "not_started": "default",
        "skipped": "cyan",
        "announced": "dim",
        "quiet": "dim",
        "command": "bold cyan",
        "markdown.code": "bold cyan",
    }
)
MARKS = {
    "passed": "✔",
    "failed": "✘",
    "error": "✘",
    "in_progress": "◐",
    "not_started": "○",
    "skipped": "–",
    "announced": "·",
}
MOST_PRINTED_LINES = 12
UNFINISHED = ("failed", "error", "in_progress")


def console(**how: object) -> Console:
    """A console in the course's colours."""
    return Console(theme=THEME, highlight=False, soft_wrap=False, **how)  # type: ignore[arg-type]


def safe(text: str) -> Text:
    """Words that may come from anyone: no markup, and control characters made visible."""
    return Text("".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text))


# --- The board ------------------------------------------------------------------------------------


def board(results: dict[int, DayResult], to: Console) -> RenderableType:
    """Forty days in their three parts, what passes, what is next, where the last failure was."""
    parts = [_part(number, part, results) for number, part in enumerate(PARTS, 1)]
    days = next(table for table in _arrangements(parts) if _fits(table, to))
    return Group(_headline(results, to.width), "", days, _legend(), "", *_next_steps(results))


def _arrangements(parts: Sequence[Table]) -> Iterator[Table]:
    """The parts side by side, then with the first two above each other, then all in one column."""
    for columns in ([parts[:1], parts[1:2], parts[2:]], [parts[:2], parts[2:]], [parts]):
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
    passed = [day for day in DAYS if _status(day, results) == "passed"]
    cells = max(1, min(len(DAYS), width - 2))
    done = round(cells * len(passed) / len(DAYS))
    bar = Text.assemble(("━" * done, "passed"), ("━" * (cells - done), "quiet"))
    count = f"  {len(passed)} of {len(DAYS)} days"
    title = Text.assemble(("Transformers from scratch", "bold"), (count, "quiet"))
    return Group(title, bar)


def _part(number: int, part: Part, results: dict[int, DayResult]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(justify="right", width=2)
    table.add_column()
    table.add_row("", "", Text(f"{number} · {part.title}", "bold"))
    for day in part.days:
        status = _status(day, results)
        title = Text.assemble((day.title, "bold" if status in UNFINISHED else ""))
        if status in UNFINISHED:
            title.append(f" {results[day.number].passed}/{results[day.number].total}", status)
        style = "announced" if status == "announced" else ""
        table.add_row(
            Text(MARKS[status], status), Text(str(day.number), "quiet"), title, style=style
        )
    return table


def _status(day: Day, results: dict[int, DayResult]) -> str:
    return results[day.number].status if day.number in results else "announced"


def _legend() -> Text:
    legend = Text()
    for status in ("passed", "in_progress", "failed", "not_started", "announced"):
        words = "not there yet" if status == "announced" else status.replace("_", " ")
        legend.append(f"{MARKS[status]} ", status).append(f"{words}   ", "quiet")
    return legend


def _next_steps(results: dict[int, DayResult]) -> list[RenderableType]:
    coming = next((r for r in results.values() if r.status != "passed"), None)
    lines: list[RenderableType] = []
    if coming is None:
        lines.append(Text("Every day that is there passes.", "passed"))
        return lines
    failure = next((c for r in results.values() for c in r.checks if _went_wrong(c)), None)
    if failure is not None:
        day = next(r.day for r in results.values() if failure in r.checks)
        first = failure.message.splitlines()[0] if failure.message else ""
        lines += [
            Text(f"Day {day.number} fails in {failure.name}", "failed"),
            Padding(safe(first), (0, 0, 1, 2)),
        ]
    day = coming.day
    lines.append(Text(f"Next: day {day.number} · {day.title}", "bold"))
    for command, what in (
        (f"course lesson {day.number}", "read and run the lesson"),
        (
            f"course watch {day.number}",
            f"then fill in exercises/{day.stem}.py: checked at every save",
        ),
        (f"course hint {day.number}", "when you are stuck"),
    ):
        lines.append(Padding(Text.assemble((f"{command:<18}", "command"), what), (0, 0, 0, 2)))
    return lines


# --- A day's verdict ------------------------------------------------------------------------------


def verdict(result: DayResult) -> RenderableType:
    """A day: each exercise with its checks, and the first failure of all in full."""
    day = result.day
    count = f"   {result.passed} of {result.total} checks pass"
    head = Text.assemble(
        (f"Day {day.number} · {day.title}", "bold"), (count, _colour(result.status))
    )
    lines: list[RenderableType] = [head]
    if len({check.message for check in result.checks}) == 1 and result.checks[0].message:
        lines += _same_for_all(result)
    else:
        told = False
        for exercise in day.exercises:
            checks = [check for check in result.checks if check.exercise == exercise]
            lines += _exercise(exercise, checks, in_full=not told)
            told = told or any(_went_wrong(check) for check in checks)
    if result.printed.strip():
        lines += printed(result.printed)
    return Group(*lines)


def _same_for_all(result: DayResult) -> list[RenderableType]:
    """One thing is wrong with the whole file, or nothing is begun."""
    status, message = result.checks[0].status, result.checks[0].message
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(Text(MARKS.get(status, "✘"), _colour(status)), safe(message))
    return [Padding(line, (0, 0, 0, 2))]


def _exercise(
    exercise: str, checks: Sequence[CheckResult], *, in_full: bool
) -> list[RenderableType]:
    """An exercise with its first failure: in full, or only what it is, where another comes first."""
    wrong = [check for check in checks if check.status not in ("passed", "skipped")]
    passed = sum(check.status == "passed" for check in checks)
    status = "passed" if not wrong else wrong[0].status
    mark = f"{MARKS.get(status, '✘')} "
    count = f"  {passed} of {len(checks)}"
    head = Text.assemble((mark, _colour(status)), (exercise, "bold"), (count, "quiet"))
    lines: list[RenderableType] = [Padding(head, (0, 0, 0, 2))]
    if wrong and not in_full and _went_wrong(wrong[0]):
        lines.append(Padding(_briefly(wrong[0]), (0, 0, 0, 4)))
        return lines
    if wrong:
        lines.append(Padding(_failure(wrong[0]), (0, 0, 0, 4)))
    others = [check.name for check in wrong[1:] if check.status != "not_started"]
    if others:
        lines.append(Padding(Text(f"not passed either: {_folded(others)}", "quiet"), (0, 0, 0, 4)))
    return lines


def _folded(names: Sequence[str]) -> str:
    """Names of checks in a sentence, those that differ in their parameters alone as one."""
    counts = Counter(name.removeprefix("test_").partition("[")[0] for name in names)
    return ", ".join(f"{name} (×{count})" if count > 1 else name for name, count in counts.items())


def _briefly(check: CheckResult) -> RenderableType:
    what = check.message.partition("\n")[0]
    return Text.assemble((check.name, _colour(check.status)), "  ", safe(what))


def _failure(check: CheckResult) -> RenderableType:
    if check.status == "not_started":
        return safe(check.message)
    name = Text.assemble((check.name, _colour(check.status)), "  ", check.says)
    if check.misconception is None:
        return Group(name, Padding(safe(check.message), (0, 0, 0, 2)))
    told, _, detail = check.message.partition("\n")
    box = Panel(
        safe(told),
        title=Text(check.misconception),
        title_align="left",
        border_style="yellow",
    )
    return Group(name, box, Padding(safe(detail), (0, 0, 0, 2)))


def printed(words: str) -> list[RenderableType]:
    """What the learner's code printed, cut to a length that can be read."""
    lines = words.rstrip().splitlines()
    shown = "\n".join(line[:300] for line in lines[:MOST_PRINTED_LINES])
    more = len(lines) - MOST_PRINTED_LINES
    text = safe(shown) + (Text(f"\n… and {more} lines more", "quiet") if more > 0 else Text(""))
    return [Panel(text, title="your code printed", title_align="left", border_style="quiet")]


def _colour(status: str) -> str:
    return status if status in MARKS else "error"


def _went_wrong(check: CheckResult) -> bool:
    return check.status not in ("passed", "not_started", "skipped")


def hint(day: Day, exercise: str, shown: Iterable[str], total: int) -> RenderableType:
    """The hints given so far, the newest last."""
    texts = list(shown)
    blocks: list[RenderableType] = [Text(f"Day {day.number} · {exercise}", "bold")]
    for number, text in enumerate(texts, 1):
        blocks += [
            Text(f"Hint {number} of {total}", "quiet"),
            Padding(Markdown(text), (0, 0, 1, 2)),
        ]
    if len(texts) < total:
        blocks.append(Text("Once more for the next one.", "quiet"))
    else:
        blocks.append(
            Text(f"That was the last. The worked answer: course solution {day.number}", "quiet")
        )
    return Group(*blocks)
