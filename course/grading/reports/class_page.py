"""The report on a class and the pages to hand out, as HTML that needs nothing but itself.

The templates hold the layout. What they print is made visible here and escaped by Jinja2, whoever
wrote it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from course.curriculum import BY_NUMBER, Day
from course.grading.gradebook import (
    GRADED,
    GRADER_FAULT,
    NOTHING_FOUND,
    REFUSED,
    LearnerResult,
    Weights,
)
from course.grading.reports.escaping import file_name, one_line, shortened, visible
from course.grading.reports.feedback import Exercise, exercises, others
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass, spans
from course.grading.reports.lms_tables import of_nobody
from course.judging.misconceptions import load_misconceptions
from course.judging.results import BROKEN
from course.terminal.display import MARKS

HALF_RIGHT, NOT_HANDED_IN, NOT_LOADED = "half_right", "not_handed_in", "not_loaded"
# In one color, as some see them, `error` must differ from `failed`.
SIGNS = MARKS | {"error": "!", HALF_RIGHT: "½", NOT_HANDED_IN: "·", NOT_LOADED: "⊘"}
LABELS = {
    "watertight": "passed and watertight",
    HALF_RIGHT: "half right: some exercises earn their points",
    "in_progress": "begun, not finished",
    "not_started": "stub untouched",
    NOT_LOADED: "could not be loaded",
}
STUCK = ("error", "failed", HALF_RIGHT, "in_progress")
UNBEGUN = ("not_started", NOT_HANDED_IN)
# A day's column is sorted by who needs help most.
BY_NEED = (NOT_LOADED, *STUCK, *UNBEGUN, "skipped", "passed", "watertight")
QUIET = (*UNBEGUN, "passed", "watertight")  # of which there is nothing more to say
BARS = 10  # of the histogram
MAX_SHORTCUTS = 12  # of one learner
MAX_IGNORED = 8  # files of one learner, in the report
MAX_SLOW = 5  # learners


def write_pages(folder: Path, graded: GradedClass) -> None:
    """Write `report.html`, and a page for each learner in `feedback/`."""
    environment, report = _environment(), _Report(graded)
    with whole_file(folder / "report.html") as file:
        file.write(environment.get_template("report.html.j2").render(report=report))
    feedback = environment.get_template("feedback.html.j2")
    for learner in report.learners:
        with whole_file(folder / "feedback" / f"{learner.file}.html") as file:
            file.write(feedback.render(learner=learner))


class _Report:
    """The class as the template asks for it."""

    def __init__(self, graded: GradedClass) -> None:
        self.run = graded
        self.days = graded.weights.days
        self.max_points = graded.weights.max_points
        self.of_nobody = of_nobody(graded)
        self.learners = [
            _Learner(number, result, graded.weights)
            for number, result in enumerate(graded.results, 1)
        ]
        self.graded = [learner for learner in self.learners if learner.verdict == GRADED]
        self.verdicts = Counter(learner.verdict for learner in self.learners)
        points = [learner.points for learner in self.graded]
        self.mean = sum(points, Fraction(0)) / max(1, len(points))
        self.bars = Counter(map(self._bar, points))
        """How many graded learners have which tenth of all points."""
        self.tallest = max(self.bars.values(), default=1)
        days = [day for learner in self.graded for day in learner.days]
        self.passed = Counter(day.number for day in days if day.status == "passed")
        self.watertight = Counter(day.number for day in days if day.watertight)

    def _bar(self, points: Fraction) -> int:
        return min(BARS - 1, int(BARS * points / self.max_points)) if self.max_points else 0

    @property
    def slowest(self) -> list[_Learner]:
        """The learners whose days took longest, whether they computed or slept."""
        by_time = sorted(self.graded, key=lambda one: -max(one.seconds, one.result.computed))
        return by_time[:MAX_SLOW]

    @property
    def misconceptions(self) -> Iterator[tuple[Day, list[tuple[str, str, list[_Learner]]]]]:
        """For each day the known mistakes that were made, the commonest first: id, words, and by whom."""
        for index, day in enumerate(self.days):
            by_name = defaultdict(list)
            for learner in self.graded:
                for name in learner.days[index].misconceptions:
                    by_name[name].append(learner)
            if by_name:
                sentences = {mistake.id: mistake.tell for mistake in load_misconceptions(day)}
                common_first = sorted(by_name, key=lambda name: (-len(by_name[name]), name))
                yield day, [(name, sentences.get(name, ""), by_name[name]) for name in common_first]

    @property
    def stuck(self) -> list[_Row]:
        """Learners with days begun that are not right yet, and which; those with the most of them first."""
        return self._most_first(lambda day: day.shown in STUCK)

    @property
    def behind(self) -> list[_Row]:
        """Learners who have not begun days that at least half of the class passes, and which."""
        most = max(1.0, len(self.graded) / 2)
        return self._most_first(
            lambda day: day.shown in UNBEGUN and self.passed[day.number] >= most
        )

    def _most_first(self, predicate: Callable[[_GradedDay], bool]) -> list[_Row]:
        rows = [(learner, list(filter(predicate, learner.days))) for learner in self.learners]
        return sorted((row for row in rows if row[1]), key=lambda row: -len(row[1]))

    @functools.cached_property
    def places(self) -> dict[int, str]:
        """By learners' numbers the places of their rows in every order, as CSS has them."""
        orders: dict[str, Callable[[_Learner], Any]] = {"points": lambda learner: -learner.rank}
        for index, day in enumerate(self.days):
            orders[f"day-{day.number}"] = functools.partial(_need, index)
        styles = defaultdict(list)
        for name, key in orders.items():
            for rank, learner in enumerate(sorted(self.learners, key=key), 1):
                styles[learner.number].append(f"--{name}:{rank}")
        return {number: ";".join(places) for number, places in styles.items()}


def _need(index: int, learner: _Learner) -> int:
    """A learner's place in a day's column, by need; those not graded come last."""
    return BY_NEED.index(learner.days[index].shown) if learner.days else len(BY_NEED)


class _Learner:
    """One learner's page. The number stands for the name wherever a name would have to be escaped."""

    def __init__(self, number: int, result: LearnerResult, weights: Weights) -> None:
        self.number = number
        self.result = result
        self.weights = weights
        self.name = one_line(result.learner)
        self.file = file_name(result.learner)
        self.verdict = result.verdict
        self.points = weights.total(result)
        self.rank = self.points if self.verdict == GRADED else Fraction(-1)
        self.seconds = sum(float(day.get("seconds", 0.0)) for day in result.days)
        self.max_points = weights.max_points
        self.remark = weights.remark(result)
        self.days = [_GradedDay(day, weights) for day in result.days]
        self.stars = sum(day.watertight for day in self.days)
        self.reason = shortened(result.reason)
        # Files instead of which others of the same day were graded; and names with more than a day's.
        self.choices = [note for note in result.ignored if note.of_several][:MAX_IGNORED]
        lacking = not all(day["handed_in"] for day in result.days)
        self.unused = [note for note in result.ignored if lacking and not note.of_several]
        self.unused = self.unused[:MAX_IGNORED]
        self.understood = [note for note in result.taken if note.understood]
        review = result.review[:MAX_SHORTCUTS]
        self.shortcuts = [
            (shortcut.day, shortcut.line, one_line(shortcut.what)[:200]) for shortcut in review
        ]

    @property
    def not_loaded(self) -> list[tuple[list[int], str]]:
        """The days whose files could not be loaded, by the reason."""
        by_reason = defaultdict(list)
        for day in self.days:
            if day.shown == NOT_LOADED:
                named = re.escape(day.result["stem"]) + r"\.\w+"
                by_reason[re.sub(named, "The file", day.same_for_all)].append(day)
        return [
            ([day.number for day in days], reason if days[1:] else days[0].same_for_all)
            for reason, days in by_reason.items()
        ]


_Row = tuple[_Learner, list["_GradedDay"]]


class _GradedDay:
    """One day of one learner."""

    def __init__(self, result: dict[str, Any], weights: Weights) -> None:
        self.result = result
        self.weights = weights
        self.number: int = result["day"]
        self.title = BY_NUMBER[self.number].title
        self.status: str = result["status"]
        self.watertight: bool = result["watertight"]
        self.points = weights.day_points(result)
        self.max_points = weights.of(self.number)
        self.shown = self._shown()

    def _shown(self) -> str:
        """Its status, or more than that: passed with a star, half right, not even loaded or handed in."""
        if not self.result["handed_in"]:
            return NOT_HANDED_IN
        checks = self.result["checks"]
        never_ran = all(check["status"] in BROKEN and not check["seconds"] for check in checks)
        if never_ran and len({check["message"] for check in checks}) == 1:
            return NOT_LOADED
        if self.watertight:
            return "watertight"
        return HALF_RIGHT if self.status in ("failed", "error") and self.points else self.status

    @property
    def misconceptions(self) -> set[str]:
        """The known mistakes that its checks found."""
        return {check["misconception"] for check in self.result["checks"]} - {None}

    @property
    def exercises(self) -> list[Exercise]:
        return exercises(self.result, self.weights)

    @property
    def invited(self) -> list[Exercise]:
        """The exercises that are right, and could be watertight."""
        return [exercise for exercise in self.exercises if exercise.invitations]

    @property
    def same_for_all(self) -> str:
        """The message to show once, if one thing is wrong with the whole file."""
        checks = self.result["checks"]
        messages = {check["message"] for check in checks}
        diagnosed = any(check["misconception"] for check in checks)
        return shortened(messages.pop()) if len(messages) == 1 and not diagnosed else ""


# --- Jinja2 ---------------------------------------------------------------------------------------


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("course.grading.reports"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "words": _words,
        "line": one_line,
        "prose": _prose,
        "kind": _kind,
        "others": others,
        "days": _days,
        "day_order": "day-{}".format,
    }
    environment.globals |= {
        "SIGNS": SIGNS,
        "BARS": BARS,
        "MAX_IGNORED": MAX_IGNORED,
        "GRADED": GRADED,
        "QUIET": QUIET,
        "NOTHING_FOUND": NOTHING_FOUND,
        "NOT_LOADED": NOT_LOADED,
        "REFUSED": REFUSED,
        "GRADER_FAULT": GRADER_FAULT,
    }
    return environment


def _finalize(value: object) -> object:
    """Whatever a template prints; Jinja2 escapes it next."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _number(points: Fraction) -> str:
    """Points for people: files have more of the digits."""
    return f"{float(points):.2f}".rstrip("0").rstrip(".")


def _days(numbers: Sequence[int]) -> str:
    return f"{'Day' if len(numbers) == 1 else 'Days'} {spans(numbers)}"


def _words(status: str) -> str:
    return LABELS.get(status, status.replace("_", " "))


def _kind(status: str) -> str:
    """The status of a day that a check's status is shown as."""
    return "error" if status in BROKEN else status


def _prose(text: str) -> Markup:
    """One of our sentences, with backticks as code and asterisks as emphasis."""
    return Markup(re.sub(r"`([^`\n]+)`|\*([^*\n]+)\*", _set, str(escape(visible(text)))))


def _set(match: re.Match[str]) -> str:
    code, stressed = match.groups()
    return f"<code>{code}</code>" if code else f"<em>{stressed}</em>"
