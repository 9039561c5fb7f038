"""The gradebook as tables: our own, and those that Canvas, Moodle and nbgrader read.

A learner of whom nothing is known, for the grader failed, has empty cells in ours and no row in the
others: read in, an empty cell may take an earlier grade away.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from fractions import Fraction
from pathlib import Path

from course.grading.gradebook import GRADER_FAULT, LearnerResult, rounded
from course.grading.instructions import Member
from course.grading.reports.escaping import cell
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass
from course.grading.submission.sources import CANVAS, MOODLE

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
    whether the download says that it is late, which days were not handed in, which Python graded, the points
    that being late cost, and the days for which an earlier submission counts."""
    weights = graded.weights
    days = [day.number for day in weights.days]
    by_days = [f"day{day:02d}" for day in days]
    stars = ["watertight", "watertight_days"]
    handing_in = ["late", "not_handed_in", "python", "lost_by_lateness", "earlier_days"]
    columns = ["learner", "verdict", "points", "max_points", *by_days, *stars, *handing_in]

    def row(result: LearnerResult) -> list[Cell]:
        earned = {day["day"]: plain(weights.day_points(day)) for day in result.days}
        points = "" if result.verdict == GRADER_FAULT else plain(weights.total(result))
        most = plain(weights.max_points)
        by_day = [earned.get(day, "") for day in days]
        solid = [day["day"] for day in result.days if day["watertight"]]
        count = len(solid) if result.days else ""
        which = " ".join(map(str, solid))
        late = _late(result)
        lacking = " ".join(str(day["day"]) for day in result.days if not day["handed_in"])
        graded_as = [cell(result.learner), result.verdict, points, most]
        lost = plain(weights.penalty(result)) if result.late else ""
        earlier = " ".join(map(str, result.earlier_days))
        return [*graded_as, *by_day, count, which, late, lacking, result.python, lost, earlier]

    _write(path, columns, (row(result) for result in graded.results))


def _late(result: LearnerResult) -> str:
    """`late`, or `late 3 5` where not everything that was handed in was late."""
    on_time = any(day["handed_in"] and day["day"] not in result.late_days for day in result.days)
    which = map(str, result.late_days) if on_time else ()
    return " ".join(["late", *which]) if result.late else ""


def write_canvas(path: Path, graded: GradedClass) -> None:
    """A table that Canvas's gradebook imports: a column of points for one assignment."""
    weights = graded.weights
    # The name by which Canvas finds its assignment again, also once more days are graded.
    assignment = f"Transformers from scratch: from day {weights.days[0].number}"
    columns = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]

    def rows() -> Iterable[list[Cell]]:
        yield ["    Points Possible", "", "", "", "", plain(weights.max_points)]
        for result in graded.known:
            who = Person.known_to(CANVAS, result.learner, graded)
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
        who = Person.known_to(MOODLE, result.learner, graded)
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
        earned = {
            day["day"]: (weights.day_points(day), weights.day_penalty(result, day))
            for day in result.days
        }
        who = cell(result.learner)
        for day in weights.days:
            score, less = earned.get(day.number, (Fraction(0), Fraction(0)))
            most = plain(weights.of(day.number))
            scores = [plain(score), plain(less), plain(score - less), most]
            yield [day.stem, "", "", who, "", "", "", *scores]

    _write(path, columns, (row for result in graded.known for row in rows(result)))


def write_roster(path: Path, graded: GradedClass) -> None:
    """The class as the roster has it: a row for each member, with what their group handed in, or nothing."""
    weights = graded.weights
    handed_in = {result.learner: result for result in graded.results}
    systems = {learner: graded.system_of(learner) for learner in handed_in}
    by_hand = weights.policy.points
    columns = ["id", "name", "group", "learner", "verdict", "points", "max_points", "late"]

    def row(member: Member) -> list[Cell]:
        who = [cell(member.id), cell(member.name), cell(member.group)]
        learner = submission_of(member, systems)
        if learner is None:
            earned = plain(by_hand.get(named_as(member, by_hand), Fraction(0)))
            return [*who, "", "nothing_handed_in", earned, plain(weights.max_points), ""]
        result = handed_in[learner]
        points = "" if result.verdict == GRADER_FAULT else plain(weights.total(result))
        late = _late(result)
        return [*who, cell(learner), result.verdict, points, plain(weights.max_points), late]

    _write(path, columns, map(row, graded.roster))


def submission_of(member: Member, systems: Mapping[str, str]) -> str | None:
    """The submission of a member of the class: by their number, their name, or their group's.

    Args:
        member: of the class.
        systems: by learners who handed in, the system from which their submissions came.
    """
    people = {learner: Person.of(learner, system) for learner, system in systems.items()}
    for value, key in ((member.id, "id"), (member.name, "name"), (member.group, "name")):
        matches = [
            learner
            for learner, who in people.items()
            if value and value in (learner, getattr(who, key))
        ]
        if len(matches) == 1:
            return matches[0]
    return None


def of_nobody(graded: GradedClass) -> list[str]:
    """The submissions that are of no member of the class, where its members are known."""
    systems = {result.learner: graded.system_of(result.learner) for result in graded.results}
    matched = {submission_of(member, systems) for member in graded.roster}
    return [learner for learner in systems if learner not in matched] if graded.roster else []


def named_as(member: Member, names: Iterable[str]) -> str:
    """The name among these by which a policy means a member who handed in nothing; or nothing."""
    meant = (member.id, member.name, f"{member.name}_{member.id}")
    return next((name for name in names if name in meant), "")


@dataclass(frozen=True)
class Person:
    """Who a submission is of: in a download of Canvas or Moodle, and nowhere else, its name ends in the
    learner's id, which means nothing to another system."""

    name: str
    id: str

    @classmethod
    def of(cls, learner: str, system: str) -> Person:
        """Tell the name from the id, as in `Jane Doe_12345`."""
        match = re.fullmatch(r"(.+)_([0-9]{1,18})", learner, re.DOTALL) if system else None
        return cls(match[1], match[2]) if match else cls(learner, "")

    @classmethod
    def known_to(cls, system: str, learner: str, graded: GradedClass) -> Person:
        """The learner with the id that the system has for them, if it has any."""
        who = cls.of(learner, graded.system_of(learner))
        return who if graded.system_of(learner) == system else cls(who.name, "")


def plain(points: Fraction) -> int | float:
    """Points as a plain number, without a fraction where there is none."""
    value = rounded(points)
    return int(value) if value.is_integer() else value


def _write(path: Path, columns: list[str], rows: Iterable[list[Cell]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
