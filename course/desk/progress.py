"""A learner's progress: the verdict on every available day, and which day comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from course.checks.answer_files import find_answer
from course.curriculum import DAYS, Day
from course.desk.state import keep_result, kept_result, passed_days
from course.desk.waiting import Waiting
from course.judging.digests import verdict_digest
from course.judging.results import CheckResult, DayResult
from course.references.stub_digests import is_untouched
from course.terminal import display
from course.terminal.arguments import EXERCISES
from course.workers.checking import check_days
from course.workers.worker import run_to_end


def all_results() -> dict[int, DayResult]:
    """Return the verdict on every available day, from the cache if the file has not changed."""
    return _results([day for day in DAYS if day.ready])


def failing(days: Sequence[Day], answers: Path) -> list[DayResult]:
    """Return the verdicts on the days whose files in a folder of answers are begun and wrong."""
    if answers.resolve() == EXERCISES:
        results = list(_results(days).values())
    else:
        submitted = [day for day in days if find_answer(day, answers) is not None]
        results = []
        for checked in check_days(submitted, answers):
            run_to_end(checked.run_on_practice())
            results.append(checked.result)
    return [result for result in results if result.status in ("failed", "error")]


def _results(days: Sequence[Day]) -> dict[int, DayResult]:
    results: dict[int, DayResult] = {}
    stale: dict[Day, str] = {}
    for day in days:
        mark = verdict_digest(day, find_answer(day, EXERCISES))
        if is_untouched(day, day.stub):
            results[day.number] = _untouched(day)
        elif (stored := kept_result(day, mark)) is not None:
            results[day.number] = stored
        else:
            stale[day] = mark
    # A new version of the course or of torch makes every verdict stale: that takes a minute.
    waiting = Waiting.on(display.console())
    for checked in check_days(list(stale), EXERCISES, wait=waiting):
        result = checked.finish()
        results[result.day.number] = result
        keep_result(result, stale[result.day])
    return dict(sorted(results.items()))


def next_day() -> Day:
    """Return the first day that does not pass, or the first day if all pass. Those that passed once are not
    checked again, unless their stubs are back."""
    passed = passed_days()
    candidates = (day for day in DAYS if day.ready)
    candidates = (day for day in candidates if day not in passed or is_untouched(day, day.stub))
    return next(
        (day for day in candidates if _results([day])[day.number].status != "passed"), DAYS[0]
    )


def _untouched(day: Day) -> DayResult:
    checks = tuple(CheckResult(name, name, "not_started") for name in day.exercises)
    return DayResult(day, checks, begun=False)
