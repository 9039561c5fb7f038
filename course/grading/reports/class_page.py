"""The report on a class and the pages to hand out, as HTML that needs nothing but itself.

The templates hold the layout. What they print is made visible here and escaped by Jinja2, whoever
wrote it. The class is read from the disk a learner at a time, once for each part of the report.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

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
    environment = _environment()
    report = environment.get_template("report.html.j2")
    with whole_file(folder / "report.html") as file:
        file.writelines(report.generate(report=_Report(graded)))
    feedback = environment.get_template("feedback.html.j2")
    for learner in _Report(graded).learners:
        with whole_file(folder / "feedback" / f"{learner.file}.html") as file:
            # Jinja2 leaves cycles behind, which would keep every learner until they are collected.
            file.writelines(feedback.generate(learner=weakref.proxy(learner)))


class _Report:
    """The class as the template asks for it."""

    def __init__(self, graded: GradedClass) -> None:
        self.run = graded
        self.days = graded.weights.days
        self.max_points = graded.weights.max_points
        self.of_nobody = of_nobody(graded)
        self.from_a_system = " or ".join(
            sorted({download.system for download in graded.downloads.values() if download.system})
        )

    @property
    def unclear(self) -> list[tuple[str, Sequence[str]]]:
        """The submissions that may be of several learners, and of whom."""
        return [
            (name, download.unclear)
            for name, download in self.run.downloads.items()
            if download.unclear
        ]

    @property
    def learners(self) -> Iterator[_Learner]:
        """The learners, read once more."""
        for number, result in enumerate(self.run.results, 1):
            yield _Learner(number, result, self.run.weights)

    @functools.cached_property
    def summary(self) -> _Summary:
        summary = _Summary()
        for learner in self.learners:
            summary.add(learner)
        return summary

    @property
    def misconceptions(self) -> Iterator[tuple[Day, list[tuple[str, str, list[_Who]]]]]:
        """For each day the known mistakes that were made, the commonest first: id, words, and by whom."""
        for day in self.days:
            if by_name := self.summary.misconceptions[day.number]:
                sentences = {
                    misconception.id: misconception.tell
                    for misconception in load_misconceptions(day)
                }
                common_first = sorted(by_name, key=lambda name: (-len(by_name[name]), name))
                yield day, [(name, sentences.get(name, ""), by_name[name]) for name in common_first]

    @property
    def stuck(self) -> list[_Row]:
        """Learners with days begun that are not right yet, and which; those with the most of them first."""
        return self._most_first(lambda day: day.shown in STUCK)

    @property
    def behind(self) -> list[_Row]:
        """Learners who have not begun days that at least half of the class passes, and which."""
        passed, half = self.summary.passed, self.summary.verdicts[GRADED] / 2
        usual = {day.number for day in self.days if passed[day.number] >= max(1.0, half)}
        return self._most_first(lambda day: day.shown in UNBEGUN and day.number in usual)

    def _most_first(self, predicate: Callable[[_Shown], bool]) -> list[_Row]:
        rows = [(who, list(filter(predicate, days))) for who, days in self.summary.shown]
        return sorted(
            (row for row in rows if row[1]), key=lambda row: (-len(row[1]), row[0].number)
        )

    @functools.cached_property
    def places(self) -> dict[int, str]:
        """By learners' numbers the places of their rows in every order, as CSS has them."""
        shown = self.summary.shown
        orders: dict[str, Callable[[_Row], Any]] = {
            "points": lambda row: (-row[0].points, row[0].number)
        }
        for index, day in enumerate(self.days):
            orders[f"day-{day.number}"] = functools.partial(_need, index)
        styles = defaultdict(list)
        for name, key in orders.items():
            for rank, (who, _) in enumerate(sorted(shown, key=key), 1):
                styles[who.number].append(f"--{name}:{rank}")
        return {number: ";".join(places) for number, places in styles.items()}


class _Who(NamedTuple):
    """A learner as a list names them; who is not graded has less than no points."""

    number: int
    name: str
    points: Fraction


class _Shown(NamedTuple):
    """What a day of a learner is shown as."""

    number: int
    shown: str


_Row = tuple[_Who, list[_Shown]]


def _need(index: int, learner: _Row) -> tuple[int, int]:
    """A learner's place in a day's column: by need, then by name; those not graded come last."""
    who, days = learner
    return BY_NEED.index(days[index].shown) if days else len(BY_NEED), who.number


@dataclass
class _Summary:
    """What can be said of a class in a few numbers, whatever its size."""

    verdicts: Counter[str] = field(default_factory=Counter)
    points: Fraction = Fraction(0)
    bars: Counter[int] = field(default_factory=Counter)
    """How many graded learners have which tenth of all points."""
    passed: Counter[int] = field(default_factory=Counter)
    """How many pass each day."""
    watertight: Counter[int] = field(default_factory=Counter)
    """For how many each day is watertight."""
    misconceptions: defaultdict[int, defaultdict[str, list[_Who]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """By the day, who made each known mistake."""
    shown: list[_Row] = field(default_factory=list)
    """Everybody, and what their days are shown as; no days of those who are not graded."""
    late: int = 0
    choices: int = 0
    """How many learners handed in several files of one day."""
    unused: int = 0
    """How many learners lack a day, and handed in files that are for no day."""
    understood: int = 0
    """How many learners handed in files whose names have more than a day's."""
    pythons: set[str] = field(default_factory=set)
    shortcuts: int = 0
    """How many learners have something to be looked at by hand."""
    not_loaded: int = 0
    """How many learners have files that could not be loaded."""
    seconds: list[tuple[float, float, _Who]] = field(default_factory=list)
    """How long each learner's days took, and how much of it they computed."""

    @property
    def learners(self) -> int:
        return self.verdicts.total()

    @property
    def mean(self) -> Fraction:
        return self.points / max(1, self.verdicts[GRADED])

    @property
    def slowest(self) -> list[tuple[float, float, _Who]]:
        return sorted(self.seconds, key=lambda entry: -max(entry[:2]))[:MAX_SLOW]

    @property
    def tallest(self) -> int:
        return max(self.bars.values(), default=1)

    def add(self, learner: _Learner) -> None:
        result = learner.result
        self.verdicts[result.verdict] += 1
        self.shortcuts += bool(result.review)
        self.choices += bool(learner.choices)
        self.unused += bool(learner.unused)
        self.understood += bool(learner.understood)
        self.pythons.add(result.python)
        self.late += result.late
        graded = result.verdict == GRADED
        who = _Who(learner.number, learner.name, learner.points if graded else Fraction(-1))
        self.shown.append((who, [_Shown(day.number, day.shown) for day in learner.days]))
        if not graded:
            return
        self.not_loaded += bool(learner.not_loaded)
        taken = sum(float(day.get("seconds", 0.0)) for day in result.days)
        self.seconds.append((taken, result.computed, who))
        self.points += learner.points
        share = learner.points / learner.max_points if learner.max_points else Fraction(0)
        self.bars[min(BARS - 1, int(share * BARS))] += 1
        self.passed.update(day.number for day in learner.days if day.status == "passed")
        self.watertight.update(day.number for day in learner.days if day.watertight)
        for day in result.days:
            for misconception in {check["misconception"] for check in day["checks"]} - {None}:
                self.misconceptions[day["day"]][misconception].append(who)


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
