"""The gradebook's tables: columns, points, ids, and no formula in any of them."""

import csv
import itertools
import platform
from dataclasses import replace

import pytest

from course.grading.gradebook import Weights
from course.grading.instructions import Member
from course.grading.reports.lms_tables import Person, write_tables
from tests.course.grading.reports.conftest import downloaded


@pytest.fixture
def tables(tmp_path):
    """Writes a class's tables, and reads one of them."""

    def read(graded, name, **how):
        write_tables(tmp_path, graded)
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file, **how))

    return read


VERSION = platform.python_version()


OLD_COLUMNS = [
    *("learner", "verdict", "points", "max_points", "day01", "day02", "day03"),
    *("watertight", "watertight_days"),
]


def test_grades(tables, made_up):
    """A day is one point, shared by its exercises; the refused have 0, a grader's fault nothing. After the
    points stands what is watertight, then what was late or not handed in, the Python, and what being late
    cost: what stood there before stays."""
    learners = [made_up.learner("right"), made_up.learner("half", wrong=1, beyond=1)]
    for day in learners[1].days[:2]:
        day["handed_in"] = False
    rest = made_up.refused("bomb"), made_up.nothing("pdf"), made_up.fault("unlucky")
    learners[1].days[2]["late"] = True
    learners[0].earlier.append(learners[0].days[1])
    graded = made_up.graded(learners[0], replace(learners[1], late=True), *rest)
    assert tables(graded, "grades.csv") == [
        [*OLD_COLUMNS, "late", "not_handed_in", "python", "lost_by_lateness", "earlier_days"],
        ["right", "graded", "3", "3", "1", "1", "1", "3", "1 2 3", "", "", VERSION, "", "2"],
        [
            "half",
            "graded",
            "2.5",
            "3",
            "0.5",
            "1",
            "1",
            "2",
            "2 3",
            "late",
            "1 2",
            VERSION,
            "0",
            "",
        ],
        ["bomb", "refused", "0", "3", "", "", "", "", "", "", "", VERSION, "", ""],
        ["pdf", "nothing_found", "0", "3", "", "", "", "", "", "", "", VERSION, "", ""],
        ["unlucky", "grader_fault", "", "3", "", "", "", "", "", "", "", VERSION, "", ""],
    ]


def test_thirds_and_weights(tables, made_up):
    """Points are plain decimals, whatever the weights."""
    learner = made_up.learner("a")
    learner.days[2] = made_up.day(3, wrong=1)
    graded = made_up.graded(learner, weights=Weights(made_up.days, {3: 0.5}))
    [_, grades] = tables(graded, "grades.csv")
    assert grades[: len(OLD_COLUMNS)] == [
        *("a", "graded", "2.3333", "2.5", "1", "1", "0.3333", "2", "1 2"),
    ]


def test_canvas(tables, made_up):
    """Canvas finds its columns, the points possible, and the id that its download had in the name."""
    learners = [made_up.learner("doejane_12345", wrong=1), made_up.learner("Ada")]
    learners += [made_up.refused("Bo_7"), made_up.fault("unlucky")]
    graded = made_up.graded(
        *learners, sources=[downloaded(one.learner, "Canvas") for one in learners]
    )
    title = "Transformers from scratch: from day 1"
    assert tables(graded, "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title],
        ["    Points Possible", "", "", "", "", "3"],
        ["doejane", "12345", "", "", "", "2.5"],
        ["Ada", "", "", "", "", "3"],
        ["Bo", "7", "", "", "", "0"],
    ]


def test_moodle(tables, made_up):
    """Moodle finds the columns without which it takes nothing, and the participant."""
    learners = made_up.learner("Jane Doe_12345", wrong=1), made_up.fault("unlucky")
    graded = made_up.graded(
        *learners, sources=[downloaded(one.learner, "Moodle") for one in learners]
    )
    columns, *rows = tables(graded, "moodle.csv")
    assert [dict(zip(columns, row, strict=True)) for row in rows] == [
        {
            "Identifier": "Participant 12345",
            "Full name": "Jane Doe",
            "Email address": "",
            "Status": "",
            "Grade": "2.5",
            "Maximum Grade": "3",
            "Grade can be changed": "Yes",
            "Last modified (submission)": "-",
            "Last modified (grade)": graded.when.strftime("%Y-%m-%d %H:%M UTC"),
        }
    ]


def test_nbgrader(tables, made_up):
    """nbgrader has a row for each assignment of each student; who was refused has 0 in each."""
    graded = made_up.graded(made_up.learner("jane", wrong=1), made_up.refused("bomb"))
    columns, *rows = tables(graded, "nbgrader.csv")
    assert ",".join(columns) == (
        "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
        "raw_score,late_submission_penalty,score,max_score"
    )
    assert rows[0] == ["day01_softmax", "", "", "jane", "", "", "", "0.5", "0", "0.5", "1"]
    assert [(row[3], row[9]) for row in rows[1:]] == [
        *(("jane", "1"), ("jane", "1")),
        *(("bomb", "0"), ("bomb", "0"), ("bomb", "0")),
    ]


@pytest.mark.parametrize(
    ("learner", "name", "number"),
    [
        ("Jane Doe_12345", "Jane Doe", "12345"),
        ("under_score_9", "under_score", "9"),
        ("Jane Doe", "Jane Doe", ""),
        ("team_b", "team_b", ""),
        ("_12", "_12", ""),
        ("x_١٢", "x_١٢", ""),
    ],
)
def test_ids(learner, name, number):
    """An id is what stands last, in ASCII digits, after a name and an underscore."""
    assert Person.of(learner, "Moodle") == Person(name, number)


@pytest.mark.parametrize(
    ("system", "name", "canvas", "moodle"),
    [
        ("", "team_3", "", ""),
        ("Canvas", "team", "3", ""),
        ("Moodle", "team", "", "Participant 3"),
    ],
)
def test_no_id_is_invented(tables, made_up, system, name, canvas, moodle):
    """Imported, it would be someone else's grade: a folder's name has none, and each system its own."""
    team = made_up.learner("team_3")
    members = [Member("3", "Cem"), Member("9", "Paul", "")]
    graded = made_up.graded(team, sources=[downloaded("team_3", system)], roster=members)
    assert tables(graded, "canvas.csv")[2][:2] == [name, canvas]
    assert [tables(graded, "moodle.csv")[1][at] for at in (1, 0)] == [name, moodle]
    verdict = "graded" if system else "nothing_handed_in"
    assert [row[4] for row in tables(graded, "roster.csv")[1:]] == [verdict, "nothing_handed_in"]


TABLES = ("grades.csv", "canvas.csv", "moodle.csv", "nbgrader.csv")


def test_no_formulas(tables, made_up, hostile):
    """Whatever a learner is called, no cell begins a formula, whichever sign parts the cells."""
    graded = made_up.graded(made_up.learner(f"{hostile}_77"))
    for name, delimiter in itertools.product(TABLES, ",;\t"):
        rows = tables(graded, name, delimiter=delimiter)
        cells = [cell for row in rows for cell in row if cell != "-"]  # Moodle's own for "never"
        assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝＋－＠")]
        assert not [cell for cell in cells if set(cell) & set("\x00\x1b\r\n\u202e\udcff")]


def test_hostile_names_keep_their_row(tables, made_up, hostile):
    """A name neither splits its row nor swallows the next learner's."""
    for name in TABLES:
        alone = tables(made_up.graded(made_up.learner("a"), made_up.learner("b")), name)
        beside = tables(made_up.graded(made_up.learner(hostile), made_up.learner("b")), name)
        assert [len(row) for row in beside] == [len(row) for row in alone]
        assert beside[-1] == alone[-1]
