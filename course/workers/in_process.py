"""Check in the same process, in a notebook, where learners could only fool themselves."""

from __future__ import annotations

import functools
import html
import inspect
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import Outline
from course.curriculum import DAYS, MAX_SHOWN_LENGTH, Day
from course.judging.judge import Judge, Outcome
from course.judging.results import CheckResult, DayResult
from course.terminal.display import safe

NOT_YOURS = ("numpy_reference", "implementation", "variants", "torch", "numpy", "scipy")


def check_here(definitions: Sequence[Any], number: int | None) -> None:
    """Check definitions in this process, and print the verdict."""
    _refuse_what_defines_nothing(definitions, number)
    names = [getattr(definition, "__name__", repr(definition)) for definition in definitions]
    day = _day_of(names, number)
    _refuse_what_others_wrote(definitions, names)
    answer = SimpleNamespace(**dict(zip(names, definitions, strict=True)))
    judge = _judge(day)
    checks = [check for check in judge.checks if check.uses <= set(names)]
    outcomes = {
        check.name: Outcome(judge.truth.run(check, answer, _file(answer, check)))
        for check in checks
    }
    result = DayResult(day, tuple(judge.results(outcomes)))
    practice_results = _practice_results(judge, answer, result)
    _show(replace(result, checks=(*result.checks, *practice_results)))
    judge.keep()


def _refuse_what_defines_nothing(definitions: Sequence[Any], number: int | None) -> None:
    """`check(1)` is what `course check 1` looks like from here: the message says what to write instead."""
    wrong = [definition for definition in definitions if not callable(definition)]
    if definitions and not wrong:
        return
    day_number = wrong[0] if wrong and type(wrong[0]) is int else number
    day = next((day for day in DAYS if day.number == day_number), DAYS[0])
    got = f", got {wrong[0]!r:.{MAX_SHOWN_LENGTH}}" if wrong else ""
    raise ValueError(
        f"check() takes the functions or classes that you wrote in this notebook{got}. For day "
        f"{day.number}: check({', '.join(day.exercises)}, day={day.number}). To check the file "
        f"exercises/{day.stub.name}, run `course check {day.number}` in a terminal."
    )


def _refuse_what_others_wrote(definitions: Sequence[Any], names: Sequence[str]) -> None:
    """An answer that imports the reference would pass."""
    for definition, name in zip(definitions, names, strict=True):
        module = getattr(definition, "__module__", None)  # methods in C have none
        if module is None or module.partition(".")[0] in NOT_YOURS:
            where = f"is from {module or 'a library'}"
            raise ValueError(f"{name} {where}: check() takes what you wrote yourself")


@functools.cache
def _judge(day: Day) -> Judge:
    return Judge(day)


def _file(answer: SimpleNamespace, check: Outline) -> str | None:
    """Where the answer was written; a class says so by its methods alone where it comes from a cell."""
    definition = getattr(answer, check.exercise)
    if inspect.isclass(definition):
        definition = next(filter(inspect.isfunction, vars(definition).values()), None)
    try:
        return inspect.getsourcefile(definition)
    except (TypeError, OSError):
        return None


def _day_of(names: Sequence[str], number: int | None) -> Day:
    asking = [day for day in DAYS if day.ready and set(names) <= set(day.exercises)]
    if number is not None:
        asking = [day for day in asking if day.number == number]
    if len(asking) == 1:
        return asking[0]
    what = " and ".join(names)
    if asking:
        days = " and ".join(str(day.number) for day in asking)
        raise ValueError(
            f"days {days} all ask for {what}: say which, check({names[0]}, day={asking[0].number})"
        )
    if number is None:
        raise ValueError(f"no day asks for {what}")
    exercises = next((", ".join(day.exercises) for day in DAYS if day.number == number), "nothing")
    raise ValueError(f"day {number} does not ask for {what}, but for {exercises}")


def _practice_results(
    judge: Judge, answer: SimpleNamespace, result: DayResult
) -> list[CheckResult]:
    """Check what passes on the CPU on the practice GPU, too. Returns what fails there."""
    if judge.day.uses_torch and _has_gpu():
        return []  # torch takes the practice GPU for the accelerator from then on, and breaks on the real one
    practice, passed = (
        judge.practice,
        {check.name for check in result.checks if check.status == "passed"},
    )
    again = [check for check in practice.checks if check.name in passed] if practice else []
    if practice is None or not again:
        return []
    runs = {check.name: practice.truth.run(check, answer, _file(answer, check)) for check in again}
    results = practice.results({name: Outcome(run) for name, run in runs.items()})
    return [check for check in results if check.went_wrong]


def _has_gpu() -> bool:
    from course.checks.tensors import missing_device  # torch takes a second to import

    return missing_device("cuda") is None or missing_device("mps") is None


# --- The verdict in a notebook --------------------------------------------------------------------

PASSING = "What passes"  # no second count: the title's is of the core
STYLE = """<style>
.course-check { --good: #1a7f37; --bad: #cf222e; --note: #9a6700; --soft: #59636e;
  max-width: 48em; line-height: 1.45; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { .course-check {
  --good: #3fb950; --bad: #f85149; --note: #d29922; --soft: #9198a1 } }
[data-jp-theme-light="true"] .course-check {
  --good: #1a7f37; --bad: #cf222e; --note: #9a6700; --soft: #59636e }
[data-jp-theme-light="false"] .course-check, .vscode-dark .course-check {
  --good: #3fb950; --bad: #f85149; --note: #d29922; --soft: #9198a1 }
.course-check p { margin: .4em 0 }
.course-check pre { margin: .4em 0; white-space: pre-wrap; color: inherit; background: none;
  font-family: monospace }
.course-check .box { border: 1px solid var(--note); border-radius: .4em; padding: .3em .8em;
  white-space: pre-line }
.course-check .good { color: var(--good) } .course-check .bad { color: var(--bad) }
.course-check .note { color: var(--note) } .course-check .soft { color: var(--soft) }
</style>"""


class Verdict:
    """A day's verdict in a notebook: first what is wrong, and the passed checks folded."""

    def __init__(self, result: DayResult) -> None:
        self._result = result
        checks = [*[check for check in result.core if check.went_wrong], *result.invitations]
        self._first = {check.exercise: check for check in reversed(checks)}
        self._others = [check for check in checks if check not in self._first.values()]
        self._passed = [check.name for check in result.checks if check.status == "passed"]

    def __repr__(self) -> str:
        lines = [self._title]
        for check in self._told:
            name, diagnosis, detail = _parts(check)
            lines += [f"{self._mark} {check.exercise}"]
            lines += [f"  {line}" for line in (f"{name}: {diagnosis}").splitlines() if name]
            lines += [f"  {check.name}{_where(check)}: {check.says}"]
            lines += [f"    {line}" for line in (*detail.splitlines(), _again(self._day, check))]
        if self._others:
            lines.append(f"{self._more}: {_listed(self._others)}")
        lines.append(f"✔ {PASSING}: {', '.join(self._passed)}")
        return safe("\n".join(lines)).plain

    def _repr_html_(self) -> str:
        color = "good" if self._result.status == "passed" else "bad"
        rows = [f'<p><b class="{color}">{_safe(self._title)}</b></p>']
        for check in self._told:
            name, diagnosis, detail = _parts(check)
            rows.append(
                f'<p><b class="{color}">{self._mark}</b> <b>{_safe(check.exercise)}</b></p>'
            )
            if name:
                box = f'<b class="note">{_safe(name)}</b>\n{_safe(diagnosis)}'
                rows.append(f'<div class="box">{box}</div>')
            what = f"<code>{_safe(check.name)}</code>{_where(check)} {_safe(check.says)}"
            rows += [f"<p>{what}</p>", f"<pre>{_safe(detail)}</pre>"]
            rows.append(f'<p class="soft">{_safe(_again(self._day, check))}</p>')
        if self._others:
            rows.append(f'<p class="soft">{self._more}: {_safe(_listed(self._others))}</p>')
        names = _safe(", ".join(self._passed))
        rows.append(f'<details><summary class="good">✔ {PASSING}</summary>{names}</details>')
        return f'{STYLE}<div class="course-check">{"".join(rows)}</div>'

    @property
    def _day(self) -> Day:
        return self._result.day

    @property
    def _told(self) -> list[CheckResult]:
        return [self._first[name] for name in self._day.exercises if name in self._first]

    @property
    def _title(self) -> str:
        day, result = self._day, self._result
        title = f"Day {day.number} · {day.title}: {result.passed} of {result.total} checks pass"
        invited = ". Invitations to make it watertight (★):"
        return title + invited * (result.status == "passed")

    @property
    def _mark(self) -> str:
        return "☆" if self._result.status == "passed" else "✘"

    @property
    def _more(self) -> str:
        return "Then there are" if self._result.status == "passed" else "Also failing"


def _parts(check: CheckResult) -> tuple[str, str, str]:
    """The name of a known mistake, what to tell of it, and the rest of a message."""
    if check.misconception is None:
        return "", "", check.message
    diagnosis, _, detail = check.message.partition("\n")
    return check.misconception, diagnosis.replace(" • ", "\n• "), detail


def _again(day: Day, check: CheckResult) -> str:
    where = f', device="{PRACTICE}"' if check.device == PRACTICE else ""
    return (
        f'To draw these inputs: from course import case; case({day.number}, "{check.name}"{where})'
    )


def _where(check: CheckResult) -> str:
    return " on the practice GPU" if check.device == PRACTICE else ""


def _listed(checks: Sequence[CheckResult]) -> str:
    counts = Counter(check.name.partition("[")[0] + _where(check) for check in checks)
    return ", ".join(f"{name} (×{count})" if count > 1 else name for name, count in counts.items())


def _safe(text: str) -> str:
    return html.escape(safe(text).plain)


def _all_pass(result: DayResult) -> str:
    """The verdict on an answer that passes everything: what was checked, without times."""
    day = result.day
    title = f"Day {day.number} · {day.title}: {result.passed} of {result.total} checks pass"
    marks = [f"  ✔ {check.name}" for check in result.core if check.status == "passed"]
    marks += [f"  ★ {check.name}" for check in result.extra if check.status == "passed"]
    return "\n".join([f"{title}, ★ watertight", *marks])


def _show(result: DayResult) -> None:
    if result.watertight:
        print(_all_pass(result))
    elif "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        sys.modules["IPython"].display.display(Verdict(result))
    else:
        print(repr(Verdict(result)))
