"""The report on a class and the pages to hand out, as HTML that needs nothing but itself.

The templates hold the layout. What they print is made visible here and escaped by Jinja2, whoever
wrote it. The class is read from the disk a learner at a time, once for each part of the report.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from course.curriculum import DAYS, Day
from course.grading.gradebook import GRADED, GRADER_FAULT, REFUSED, LearnerResult, Weights
from course.grading.reports.escaping import file_name, one_line, shortened, visible
from course.grading.reports.feedback import Exercise, exercises, others
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass, spans
from course.judging.misconceptions import load_misconceptions
from course.judging.results import BROKEN
from course.terminal.display import MARKS

SIGNS = MARKS | {"error": "!"}  # in one colour, as some see them, `error` must differ from `failed`
BARS = 10  # of the histogram
LABELS = {"watertight": "passed and watertight"}
MOST_SHORTCUTS = 12  # of one learner
MOST_PAIRS = 200


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
        self.alike = graded.alike[:MOST_PAIRS]

    @property
    def learners(self) -> Iterator[_Learner]:
        """The learners, read once more."""
        for number, result in enumerate(self.run.results(), 1):
            yield _Learner(number, result, self.run.weights)

    @functools.cached_property
    def summary(self) -> _Summary:
        summary = _Summary()
        for learner in self.learners:
            summary.add(learner)
        return summary

    @property
    def misconceptions(self) -> Iterator[tuple[Day, list[tuple[int, str, str]], list[str]]]:
        """For each day the known mistakes that several made, the commonest first, as learners, id and
        words; and the ids of those that one made."""
        for day in self.days:
            if made := self.summary.misconceptions[day.number]:
                told = {one.id: one.tell for one in load_misconceptions(day)}
                several = [(n, name, told.get(name, "")) for name, n in made.most_common() if n > 1]
                yield day, several, sorted(name for name, n in made.items() if n == 1)


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
    misconceptions: defaultdict[int, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """By the day, how many learners made each known mistake."""
    shortcuts: int = 0
    """How many learners have something to be looked at by hand."""

    @property
    def learners(self) -> int:
        return self.verdicts.total()

    @property
    def mean(self) -> Fraction:
        return self.points / max(1, self.verdicts[GRADED])

    @property
    def tallest(self) -> int:
        return max(self.bars.values(), default=1)

    def add(self, learner: _Learner) -> None:
        result = learner.result
        self.verdicts[result.verdict] += 1
        self.shortcuts += bool(result.review)
        if result.verdict != GRADED:
            return
        self.points += learner.points
        share = learner.points / learner.max_points if learner.max_points else Fraction(0)
        self.bars[min(BARS - 1, int(share * BARS))] += 1
        self.passed.update(day.number for day in learner.days if day.status == "passed")
        self.watertight.update(day.number for day in learner.days if day.watertight)
        for day in result.days:
            made = {check["misconception"] for check in day["checks"]} - {None}
            self.misconceptions[day["day"]].update(made)


@dataclass(frozen=True)
class _Learner:
    """One learner's page. The number stands for the name wherever a name would have to be escaped."""

    number: int
    result: LearnerResult
    weights: Weights

    @property
    def name(self) -> str:
        return one_line(self.result.learner)

    @property
    def file(self) -> str:
        return file_name(self.result.learner)

    @property
    def verdict(self) -> str:
        return self.result.verdict

    @property
    def points(self) -> Fraction:
        return self.weights.points(self.result.days)

    @property
    def max_points(self) -> Fraction:
        return self.weights.max_points

    @property
    def days(self) -> list[_Day]:
        return [_Day(result, self.weights) for result in self.result.days]

    @property
    def stars(self) -> int:
        """How many days are watertight."""
        return sum(day.watertight for day in self.days)

    @property
    def reason(self) -> str:
        return shortened(self.result.reason)

    @property
    def shortcuts(self) -> list[tuple[int, int, str]]:
        """What to look at by hand: day, line, and what stands there."""
        return [
            (s.day, s.line, one_line(s.what)[:200]) for s in self.result.review[:MOST_SHORTCUTS]
        ]


@dataclass(frozen=True)
class _Day:
    """One day of one learner."""

    result: dict[str, Any]
    weights: Weights

    @property
    def number(self) -> int:
        return int(self.result["day"])

    @property
    def title(self) -> str:
        return DAYS[self.number - 1].title

    @property
    def status(self) -> str:
        return str(self.result["status"])

    @property
    def watertight(self) -> bool:
        return bool(self.result["watertight"])

    @property
    def shown(self) -> str:
        """Its status, or that it is passed with a star."""
        return "watertight" if self.watertight else self.status

    @property
    def points(self) -> Fraction:
        return self.weights.day_points(self.result)

    @property
    def max_points(self) -> Fraction:
        return self.weights.of(self.number)

    @property
    def exercises(self) -> list[Exercise]:
        return exercises(self.result, self.weights)

    @property
    def invited(self) -> list[Exercise]:
        """The exercises that are right, and could be watertight."""
        return [exercise for exercise in self.exercises if exercise.invitations]

    @property
    def same_for_all(self) -> str:
        """What there is to say once, where one thing is wrong with the whole file."""
        checks = self.result["checks"]
        messages = {check["message"] for check in checks}
        known = any(check["misconception"] for check in checks)
        return shortened(messages.pop()) if len(messages) == 1 and not known else ""


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
        "spans": spans,
    }
    environment.globals |= {
        "SIGNS": SIGNS,
        "BARS": BARS,
        "GRADED": GRADED,
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


def _words(status: str) -> str:
    return LABELS.get(status, status.replace("_", " "))


def _kind(status: str) -> str:
    """The status of a day that a check's status is shown as."""
    return "error" if status in BROKEN else status


def _prose(text: str) -> Markup:
    """A sentence of ours, with what stands in backticks as code and between asterisks stressed."""
    return Markup(re.sub(r"`([^`\n]+)`|\*([^*\n]+)\*", _set, str(escape(visible(text)))))


def _set(found: re.Match[str]) -> str:
    code, stressed = found.groups()
    return f"<code>{code}</code>" if code else f"<em>{stressed}</em>"
