"""What a learner reads about a day: its verdict, and its hints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from course.checks.arrays import PRACTICE
from course.checks.loading import CORE
from course.curriculum import Day
from course.desk.prose import Prose
from course.judging.diagnosis import Search
from course.judging.results import RUNNING, CheckResult, DayResult, counted
from course.terminal.display import MARKS, MAX_PRINTED_LINES, printed, safe

LOOKING = "Looking for the misunderstanding."
UNKNOWN = "No known mistake explains all of this."

PLAIN = re.compile(r"[\w.=-]+")  # what no shell asks to be quoted


def verdict(
    result: DayResult, max_printed: int = MAX_PRINTED_LINES, seed: int = 0
) -> RenderableType:
    """Show a day: each exercise with its core checks, the first failure in full, and, if none
    fails, what would make the day watertight.

    Args:
        max_printed: the maximum number of shown lines that the learner's code printed.
    """
    day = result.day
    told_of = [check for check in result.checks if not check.repeats]
    again = _again(day, seed)
    count = f"   {result.passed} of {result.total} checks pass"
    head = Text.assemble(
        (f"Day {day.number} · {day.title}", "bold"), (count, _color(result.status))
    )
    if result.watertight:
        head.append(f"   {MARKS['watertight']} watertight", "watertight")
    lines: list[RenderableType] = [head]
    if len({check.message for check in told_of}) == 1 and told_of[0].message:
        lines += _same_for_all(result)
    else:
        mentioned = False
        for exercise in day.exercises:
            checks = [check for check in result.checks if check.exercise == exercise]
            lines += _exercise(exercise, checks, again if not mentioned else "")
            mentioned = mentioned or any(check.went_wrong for check in checks if check.tier == CORE)
        lines += _skipped(result)
        lines += invitation(result, seed)
        lines += _running(result)
    if result.printed.strip():
        lines += printed(result.printed, max_printed)
    return Group(*lines)


def outcome_of(searches: Iterable[Search], result: DayResult) -> str:
    """Say how the search for a diagnosis ended, if something is wrong and no mistake was named."""
    needed = [search for search in searches if search.needed]
    if not needed or result.is_named or not result.shown_wrong:
        return ""
    if all(search.done for search in needed):
        return UNKNOWN
    seconds = sum(search.seconds for search in needed)
    return f"No known mistake was found in {seconds:.0f} s of looking, which has stopped."


def _running(result: DayResult) -> list[RenderableType]:
    """What the verdict still waits for."""
    if result.status != RUNNING:
        return []
    return [Padding(Text("CPU passed, device check running …", "quiet"), (0, 2))]


def practice_verdict(result: DayResult, seed: int = 0) -> RenderableType:
    """Show the results of the checks on the practice GPU, after the verdict on the CPU."""
    checks = [check for check in result.checks if check.device == PRACTICE and not check.repeats]
    wrong = [check for check in checks if check.is_open]
    if wrong:
        lines = [
            Text(f"  On the practice GPU {len(wrong)} of {len(checks)} checks fail:", "failed")
        ]
        return Group(
            *lines, Padding(_failure(wrong[0], "failed", _again(result.day, seed)), (0, 0, 0, 4))
        )
    mark = ("  ✔ ", "passed") if result.status == "passed" else "    "
    words = Text.assemble(mark, f"On the practice GPU {len(checks)} of {len(checks)} checks pass.")
    if result.watertight:
        words.append(f"   {MARKS['watertight']} watertight", "watertight")
    return words


def _again(day: Day, seed: int) -> str:
    """The command that checks the same inputs again."""
    return f"course check {day.number}{f' --seed {seed}' if seed else ''}"


def _same_for_all(result: DayResult) -> list[RenderableType]:
    """One thing is wrong with the whole file, or nothing is begun."""
    status, message = result.checks[0].status, result.checks[0].message
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(Text(MARKS.get(status, "✘"), _color(status)), safe(message))
    return [Padding(line, (0, 0, 0, 2))]


def _skipped(result: DayResult) -> list[RenderableType]:
    """How many checks could not be run here, and why."""
    reasons = Counter(check.message for check in result.checks if check.status == "skipped")
    return [
        Padding(
            Text(f"{why.rstrip('.')} ({count} of {len(result.checks)} checks).", "skipped"), (0, 2)
        )
        for why, count in reasons.items()
    ]


def _exercise(exercise: str, checks: Sequence[CheckResult], again: str) -> list[RenderableType]:
    """An exercise with its first failure: in full, with the command that draws its inputs, or only what it
    is, where another comes first.

    Its star is earned by all its checks; what else is shown is of its core.
    """
    core = [check for check in checks if check.tier == CORE]
    open_ = [check for check in core if check.is_open and not check.repeats]
    wrong = sorted(open_, key=lambda check: not check.went_wrong)  # before what is not begun
    passed, total = counted(core)
    if wrong:
        status = wrong[0].status
        status = "in_progress" if passed and status == "not_started" else status
    elif passed:
        unsure = any(check.is_open or check.status == RUNNING for check in checks)
        status = "passed" if unsure else "watertight"
    else:
        status = "skipped"
    mark = f"{MARKS.get(status, '✘')} "
    running = sum(check.status == RUNNING for check in core)
    count = f"  {passed} of {total}" if total else ""
    count += f", {running} running" if running else ""
    head = Text.assemble((mark, _color(status)), (exercise, "bold"), (count, "quiet"))
    lines: list[RenderableType] = [Padding(head, (0, 0, 0, 2))]
    if wrong and not again and wrong[0].went_wrong:
        lines.append(Padding(_briefly(wrong[0]), (0, 0, 0, 4)))
        return lines
    if wrong:
        lines.append(Padding(_failure(wrong[0], _color(wrong[0].status), again), (0, 0, 0, 4)))
    also_failing = [check.name for check in wrong[1:] if check.status != "not_started"]
    if also_failing:
        lines.append(Padding(Text(f"also failing: {_folded(also_failing)}", "quiet"), (0, 0, 0, 4)))
    return lines


def invitation(result: DayResult, seed: int = 0) -> list[RenderableType]:
    """Show what a passed day lacks to be watertight, the first part in full, as an offer, not as a
    failure."""
    checks = [check for check in result.invitations if not check.repeats]
    if not checks:
        return []
    first, *further = checks
    lines = Table.grid(padding=(0, 1, 0, 0))
    invited = f" An invitation to make `{first.exercise}` watertight:"
    lines.add_row(
        Text("☆", "watertight"), Text.assemble(("You passed the day.", "passed"), invited)
    )
    lines.add_row("", _failure(first, "bold", _again(result.day, seed)))
    if further:
        names = _folded([check.name for check in further])
        lines.add_row("", Text(f"further checks: {names}", "quiet"))
    return ["", Padding(lines, (0, 0, 0, 2))]


def _folded(names: Sequence[str]) -> str:
    """Names of checks in a sentence, those that differ in their parameters alone as one."""
    counts = Counter(name.removeprefix("test_").partition("[")[0] for name in names)
    return ", ".join(f"{name} (×{count})" if count > 1 else name for name, count in counts.items())


def _briefly(check: CheckResult) -> RenderableType:
    what = check.message.partition("\n")[0]
    return Text.assemble((check.name, _color(check.status)), "  ", safe(what))


def _failure(check: CheckResult, style: str, again: str) -> RenderableType:
    """A failing check: what it is about, what differs, and the command that draws its inputs."""
    if check.status == "not_started":
        return safe(check.message)
    where = " on the practice GPU" if check.device == PRACTICE else ""
    lines: list[RenderableType] = [Text.assemble((f"{check.name}{where}", style), "  ", check.says)]
    detail = check.message
    if check.misconception is not None:
        lines.append(_check_box(check))
        _, _, detail = detail.partition("\n")
    lines.append(Padding(safe(detail), (0, 0, 0, 2)))
    if check.beyond and check.misconception is None and not check.explained:
        lines.append(Padding(Text(f"Beyond the core: {check.beyond}.", "quiet"), (0, 0, 0, 2)))
    if again:
        name = check.name.removeprefix("test_")
        name = name if PLAIN.fullmatch(name) else f'"{name}"'
        where = "" if check.device == "cpu" else f" --device {check.device}"
        command = f"To draw these inputs: {again}{where} --case {name}"
        lines.append(Padding(Text(command, "quiet"), (0, 0, 0, 2)))
    return Group(*lines)


def case(check: CheckResult) -> RenderableType:
    """Show the verdict on one check."""
    mark = Text.assemble((f"{MARKS.get(check.status, '✘')} ", _color(check.status)), check.exercise)
    shown = _failure(check, _color(check.status), "") if check.message else Text(check.name)
    return Group(mark, Padding(shown, (0, 0, 0, 2)))


def diagnoses(result: DayResult) -> RenderableType:
    """Show the diagnoses of the exercises that have one, with the exercise's name if the day has
    several."""
    results = [*result.core, *result.invitations]
    diagnosed = {check.exercise: check for check in reversed(results) if check.misconception}
    several = len(result.day.exercises) > 1
    boxes = [
        _check_box(diagnosed[name], f"{name}: " if several else "")
        for name in result.day.exercises
        if name in diagnosed
    ]
    return Group(*(Padding(box, (0, 0, 0, 4)) for box in boxes))


def _check_box(check: CheckResult, exercise: str = "") -> RenderableType:
    """The diagnosis, which is the first line of a message."""
    diagnosis, _, _ = check.message.partition("\n")
    return Panel(
        safe(diagnosis.replace(" • ", "\n• ")),  # several things, a line each
        title=Text(f"{exercise}{check.misconception or ''}"),
        title_align="left",
        border_style="yellow",
    )


def _color(status: str) -> str:
    return status if status in MARKS else "error"


def hint(
    day: Day,
    exercise: str,
    shown: Mapping[int, str],
    total: int,
    last_wrong: CheckResult | None = None,
) -> RenderableType:
    """Show hints by their numbers, after the result of the last check; print them with `crop=False`."""
    blocks: list[RenderableType] = [Text(f"Day {day.number} · {exercise}", "bold")]
    if last_wrong is not None:
        box = (
            _check_box(last_wrong)
            if last_wrong.misconception
            else safe(last_wrong.message.partition("\n")[0])
        )
        blocks += [Text("Your last check found:", "quiet"), box]
    for number, text in shown.items():
        blocks += [Text(f"Hint {number} of {total}", "quiet"), Prose(text)]
    if total not in shown:
        blocks.append(Text("Run it again for the next hint.", "quiet"))
    else:
        blocks.append(
            Text(
                "That was the last hint; run it again to see them all. The worked answer: "
                f"course solution {day.number}",
                "quiet",
            )
        )
    return Group(*blocks)
