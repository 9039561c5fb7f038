"""Checking in the same process: in a notebook, where the learner is the only one who could be fooled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import Outline
from course.curriculum import DAYS, LONGEST_SHOWN, Day
from course.judging.judge import Attempt, Judge
from course.judging.results import CheckResult, DayResult

NOT_YOURS = ("numpy_reference", "implementation", "variants", "torch", "numpy", "scipy")


def check_here(definitions: Sequence[Any], number: int | None) -> None:
    """Check definitions of this process and print the verdict."""
    _refuse_what_defines_nothing(definitions, number)
    names = [getattr(definition, "__name__", repr(definition)) for definition in definitions]
    day = _day_of(names, number)
    _refuse_what_others_wrote(definitions, names)
    answer = SimpleNamespace(**dict(zip(names, definitions, strict=True)))
    judge = _judge(day)
    checks = [check for check in judge.checks if check.uses <= set(names)]
    attempts = {
        check.name: Attempt(judge.truth.run(check, answer, _file(answer, check)))
        for check in checks
    }
    result = DayResult(day, tuple(judge.results(attempts)))
    print(_report(result))
    for line in _there(judge, answer, result):
        print(line)
    judge.keep()


def _refuse_what_defines_nothing(definitions: Sequence[Any], number: int | None) -> None:
    """`check(1)` is what `course check 1` looks like from here: the message says what to write instead."""
    wrong = [one for one in definitions if not callable(one)]
    if definitions and not wrong:
        return
    asked = wrong[0] if wrong and type(wrong[0]) is int else number
    day = next((day for day in DAYS if day.number == asked), DAYS[0])
    given = f", got {wrong[0]!r:.{LONGEST_SHOWN}}" if wrong else ""
    raise ValueError(
        f"check() takes the functions or classes that you wrote in this notebook{given}. For day "
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
    written = getattr(answer, check.exercise)
    if inspect.isclass(written):
        written = next(filter(inspect.isfunction, vars(written).values()), None)
    try:
        return inspect.getsourcefile(written)
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
    wanted = next((", ".join(day.exercises) for day in DAYS if day.number == number), "nothing")
    raise ValueError(f"day {number} does not ask for {what}, but for {wanted}")


def _report(result: DayResult) -> str:
    """The verdict in plain text, the first failure of each exercise in full, without times.

    What would make a passed day watertight comes after its core, as an invitation.
    """
    day, star = result.day, ", ★ watertight" if result.watertight else ""
    lines = [f"Day {day.number} · {day.title}: {result.passed} of {result.total} checks pass{star}"]
    told: set[str] = set()
    for check in result.core:
        if check.status == "passed":
            lines.append(f"  ✔ {check.name}")
        else:
            lines.append(f"  ✘ {check.name}: {check.says}")
            lines += _failure_lines(day, check, told)
    if result.status == "passed":
        lines += [f"  ★ {check.name}" for check in result.extra if check.status == "passed"]
    if result.invitations:
        lines.append("Passed. Invitations to make it watertight (★):")
    for check in result.invitations:
        lines += [
            f"  ☆ {check.beyond}",
            f"    {check.name}: {check.says}",
            *_failure_lines(day, check, told),
        ]
    return "\n".join(lines)


def _there(judge: Judge, answer: SimpleNamespace, result: DayResult) -> Iterator[str]:
    """What fails on the practice GPU of the checks that pass on the CPU."""
    if judge.day.uses_torch and _has_gpu():
        return  # torch takes the practice GPU for the accelerator from then on, and breaks on the real one
    there, passed = judge.practice, {one.name for one in result.checks if one.status == "passed"}
    again = [check for check in there.checks if check.name in passed] if there else []
    if there is None or not again:
        return
    seen = {check.name: there.truth.run(check, answer, _file(answer, check)) for check in again}
    results = there.results({name: Attempt(one) for name, one in seen.items()})
    wrong = [check for check in results if check.went_wrong and check.name in seen]
    if wrong:
        yield f"On the practice GPU {len(wrong)} of {len(again)} checks fail:"
    told: set[str] = set()
    for check in wrong:
        yield f"  ✘ {check.name}: {check.says}"
        yield from _failure_lines(judge.day, check, told)


def _has_gpu() -> bool:
    from course.checks.tensors import missing_device  # torch takes a second to import

    return missing_device("cuda") is None or missing_device("mps") is None


def _failure_lines(day: Day, check: CheckResult, told: set[str]) -> list[str]:
    if check.exercise in told:
        return []
    told.add(check.exercise)
    where = f', device="{PRACTICE}"' if check.device == PRACTICE else ""
    call = f'case({day.number}, "{check.name}"{where})'
    again = f"To draw these inputs: from course import case; {call}"
    return ["      " + line for line in (*check.message.splitlines(), again)]
