"""The gradebook as tables: our own, and those that Canvas, Moodle and nbgrader read.

A learner of whom nothing is known, for the grader failed, has empty cells in ours and no row in the
others: read in, an empty cell may take an earlier grade away.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from fractions import Fraction
from pathlib import Path

from course.grading.gradebook import GRADER_FAULT, LearnerResult, rounded
from course.grading.instructions import Member
from course.grading.reports.escaping import cell
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass

Cell = str | int | float


def write_tables(folder: Path, graded: GradedClass) -> None:
    """Write all the tables."""
    write_grades(folder / "grades.csv", graded)
    write_canvas(folder / "canvas.csv", graded)
    write_moodle(folder / "moodle.csv", graded)
    write_nbgrader(folder / "nbgrader.csv", graded)
    if graded.roster:
        write_roster(folder / "roster.csv", graded)


def write_grades(path: Path, graded: GradedClass) -> None:
    """Our own table: a learner a row, a day a column; then how many days are watertight, and which; then
    whether the download says that it is late, and which days were not handed in."""
    weights = graded.weights
    days = [day.number for day in weights.days]
    by_days = [f"day{day:02d}" for day in days]
    stars = ["watertight", "watertight_days"]
    handing_in = ["late", "not_handed_in"]
    columns = ["learner", "verdict", "points", "max_points", *by_days, *stars, *handing_in]

    def row(result: LearnerResult) -> list[Cell]:
        earned = {day["day"]: plain(weights.day_points(day)) for day in result.days}
        points = "" if result.verdict == GRADER_FAULT else plain(weights.total(result))
        most = plain(weights.max_points)
        by_day = [earned.get(day, "") for day in days]
        solid = [day["day"] for day in result.days if day["watertight"]]
        count = len(solid) if result.days else ""
        which = " ".join(map(str, solid))
        late = "late" if result.late else ""
        lacking = " ".join(str(day["day"]) for day in result.days if not day["handed_in"])
        graded_as = [cell(result.learner), result.verdict, points, most]
        return [*graded_as, *by_day, count, which, late, lacking]

    _write(path, columns, (row(result) for result in graded.results()))


def write_canvas(path: Path, graded: GradedClass) -> None:
    """A table that Canvas's gradebook imports: a column of points for one assignment."""
    weights = graded.weights
    assignment = f"Transformers from scratch: days {graded.which_days.replace('–', '-')}"
    columns = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]

    def rows() -> Iterable[list[Cell]]:
        yield ["    Points Possible", "", "", "", "", plain(weights.max_points)]
        for result in graded.known:
            who = Person.of(result.learner)
            yield [cell(who.name), who.id, "", "", "", plain(weights.total(result))]

    _write(path, columns, rows())


def write_moodle(path: Path, graded: GradedClass) -> None:
    """A grading worksheet as Moodle's assignments take it.

    It has no column for feedback, which Moodle would take for HTML: that is what feedback/ is for. Moodle
    skips a row whose grade was modified in Moodle after the time that stands there
    (mod/assign/feedback/offline/importgradesform.php), and `-` is before all of them.
    """
    weights = graded.weights
    when = graded.when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    columns = [
        *("Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade"),
        *("Grade can be changed", "Last modified (submission)", "Last modified (grade)"),
    ]

    def row(result: LearnerResult) -> list[Cell]:
        who = Person.of(result.learner)
        identifier = f"Participant {who.id}" if who.id else ""
        grade, most = plain(weights.total(result)), plain(weights.max_points)
        return [identifier, cell(who.name), "", "", grade, most, "Yes", "-", when]

    _write(path, columns, map(row, graded.known))


def write_nbgrader(path: Path, graded: GradedClass) -> None:
    """A table as nbgrader exports it: every day is an assignment, and has a row for each learner."""
    weights = graded.weights
    columns = [
        *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
        *("raw_score", "late_submission_penalty", "score", "max_score"),
    ]

    def rows(result: LearnerResult) -> Iterable[list[Cell]]:
        earned = {day["day"]: weights.day_points(day) for day in result.days}
        who = cell(result.learner)
        lost = weights.penalty(result) / (weights.points(result.days) or 1)
        for day in weights.days:
            score, most = earned.get(day.number, Fraction(0)), plain(weights.of(day.number))
            less = score * lost
            scores = [plain(score), plain(less), plain(score - less), most]
            yield [day.stem, "", "", who, "", "", "", *scores]

    _write(path, columns, (row for result in graded.known for row in rows(result)))


def write_roster(path: Path, graded: GradedClass) -> None:
    """The class as the roster has it: a row for each member, with what their group handed in, or nothing."""
    weights = graded.weights
    handed_in = {result.learner: result for result in graded.results()}
    columns = ["id", "name", "group", "learner", "verdict", "points", "max_points", "late"]

    def row(member: Member) -> list[Cell]:
        who = [cell(member.id), cell(member.name), cell(member.group)]
        learner = submission_of(member, handed_in)
        if learner is None:
            return [*who, "", "nothing_handed_in", 0, plain(weights.max_points), ""]
        result = handed_in[learner]
        points = "" if result.verdict == GRADER_FAULT else plain(weights.total(result))
        late = "late" if result.late else ""
        return [*who, cell(learner), result.verdict, points, plain(weights.max_points), late]

    _write(path, columns, map(row, graded.roster))


def submission_of(member: Member, learners: Iterable[str]) -> str | None:
    """The submission of a member of the class: by their number, their name, or their group's."""
    learners = list(learners)
    keys = [
        (member.id, Person.id_of),
        (member.name, Person.name_of),
        (member.group, Person.name_of),
    ]
    for wanted, key in keys:
        found = [one for one in learners if wanted and wanted in (one, key(one))]
        if len(found) == 1:
            return found[0]
    return None


@dataclass(frozen=True)
class Person:
    """Who a submission is of: in a download of Canvas or Moodle its name ends in the learner's id."""

    name: str
    id: str

    @classmethod
    def of(cls, learner: str) -> Person:
        """Tell the name from the id, as in `Jane Doe_12345`."""
        found = re.fullmatch(r"(.+)_([0-9]{1,18})", learner, re.DOTALL)
        return cls(found[1], found[2]) if found else cls(learner, "")

    @classmethod
    def id_of(cls, learner: str) -> str:
        return cls.of(learner).id

    @classmethod
    def name_of(cls, learner: str) -> str:
        return cls.of(learner).name


def plain(points: Fraction) -> int | float:
    """Points as a plain number, without a fraction where there is none."""
    value = rounded(points)
    return int(value) if value.is_integer() else value


def _write(path: Path, columns: list[str], rows: Iterable[list[Cell]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
