"""What an instructor says beside the checks: policies, maps of names, rosters."""

import csv
import functools
import json
import unicodedata
from dataclasses import replace
from fractions import Fraction

import pytest

from course.curriculum import DAYS
from course.grading.gradebook import GRADED, LearnerResult, Weights
from course.grading.instructions import (
    Member,
    Policy,
    read_map,
    read_policy,
    read_roster,
    read_weights,
)
from course.grading.job import Plan
from course.grading.reports.gradescope import gradescope_results
from course.grading.reports.lms_tables import submission_of, write_canvas, write_roster
from course.grading.submission.names import meaning
from course.grading.submission.sources import attributed, find_sources
from course.grading.submission.taking import take
from tests.course.grading.reports.conftest import downloaded
from tests.course.grading.test_submissions import SOFTMAX, write, zip_of


def passed(learner, late=False):
    """A learner whose day 2 is right."""
    check = {"exercise": "attention", "status": "passed", "tier": "core"}
    day = {
        "day": 2,
        "stem": DAYS[1].stem,
        "status": "passed",
        "watertight": True,
        "checks": [check],
        "handed_in": True,
    }
    on_time = day | {"day": 3, "stem": DAYS[2].stem, "checks": [], "late": False}
    return LearnerResult(learner, GRADED, [day | {"late": late}, on_time], late=late)


read_day_2 = functools.partial(read_weights, days=DAYS[1:2])
POLICY = Policy(Fraction(1, 10), {"bo_2"}, {"cem_3": Fraction("7.5"), "dee_4": Fraction(0)})


@pytest.mark.parametrize(
    ("result", "points", "remark"),
    [
        (passed("ada_1"), 10, ""),
        (passed("ada_1", late=True), 9, "Handed in late: day 2, which costs 1 point."),
        (passed("bo_2", late=True), 10, ""),
        (passed("cem_3", late=True), Fraction("7.5"), "The points were set by hand."),
        (passed("dee_4"), 0, "The points were set by hand."),
    ],
)
def test_what_counts_beside_the_checks(result, points, remark):
    """Being late costs a share, unless it is excused; points set by hand are what they are."""
    weights = Weights([DAYS[1]], {2: 10}, policy=POLICY)
    assert (weights.total(result), weights.remark(result)) == (points, remark)
    assert result.as_json(weights)["points"] == points
    page = gradescope_results(result, weights)
    assert page["score"] == points
    assert remark in page["output"]


def test_a_policy_is_in_the_tables(tmp_path, made_up):
    """What another system imports are the points that count."""
    weights = Weights([DAYS[1]], {2: 10}, policy=POLICY)
    graded = made_up.graded(passed("ada_1", late=True), passed("cem_3"), weights=weights)
    write_canvas(tmp_path / "canvas.csv", graded)
    rows = list(csv.reader((tmp_path / "canvas.csv").open(encoding="utf-8")))
    assert [row[-1] for row in rows[1:]] == ["10", "9", "7.5"]


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_policy, "late: 2", "late must be a share from 0 to 1, got 2"),
        (read_policy, "lat: 0.1", "'lat' is none of"),
        (read_policy, "late: 0.1\nlate: 0.2", "'late' is there twice"),
        (read_policy, "points: {ada_1: -1}", "-1 points for ada_1"),
        (read_policy, "excused: ada_1", "excused must be a list"),
        (read_policy, "keep: first", "keep must be `last` or `best`, got 'first'"),
        (read_policy, "- late", "should hold a mapping"),
        (read_day_2, "8: 1", "8 is none of the days"),
        *((read_day_2, f"2: {points}", "0 or more") for points in ("-1", "many", ".nan")),
        (read_day_2, "2: {", "cannot be read"),
        (read_map, f"hw.ipynb: {SOFTMAX}", "must have the same ending"),
        (read_roster, "who\nAda\n", "id,name,group"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path, read, text, words):
    """A policy, a table of points, a map or a roster."""
    (tmp_path / "file").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "file")


def test_a_policy_is_read(tmp_path):
    text = "late: 0.1\nexcused: [bo_2]\npoints: {cem_3: 7.5, dee_4: 0}\n"
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    assert read_policy(tmp_path / "policy.yaml") == POLICY
    (tmp_path / "policy.yaml").write_text("keep: best", encoding="utf-8")
    assert read_policy(tmp_path / "policy.yaml") == Policy(excused=set(), keep_best=True)


def test_a_map_of_odd_names(tmp_path):
    """A name that means nothing by itself means what the instructor says, in a folder and in an archive."""
    map_file = tmp_path / "map.yaml"
    map_file.write_text(f"hw final.py: {SOFTMAX}\nx_1_2_y_3_4_z.zip: bo_3\n", encoding="utf-8")
    files, learners = read_map(map_file)
    assert (files, learners) == ({"hw final.py": SOFTMAX}, {"x_1_2_y_3_4_z.zip": "bo_3"})
    submissions = write(
        tmp_path / "class",
        {"ada/hw final.py": b"ada", "bo.zip": zip_of({"x/hw final.py": b"bo"})},
    )
    assert [take(source).files for source in find_sources(submissions)] == [{}, {}]
    renames = tuple(files.items())
    taken = [take(replace(source, renames=renames)).files for source in find_sources(submissions)]
    assert taken == [{SOFTMAX: b"ada"}, {SOFTMAX: b"bo"}]
    plan = Plan((1,), 5, "cpu", False, "edition", names=renames)
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    assert meaning("other.py") is None


@pytest.mark.parametrize("packed", [False, True], ids=["unpacked", "zip"])
def test_a_map_says_whose_an_unclear_submission_is(tmp_path, packed):
    """It is joined to what that learner handed in besides."""
    unclear = "ann_55_208490301_x_66_208490302_day02_attention.py"
    files = {f"ann_55_208490300_{SOFTMAX}": b"one", unclear: b"two"}
    path = tmp_path / "class"
    path.write_bytes(zip_of(files)) if packed else write(path, files)
    [source] = attributed(find_sources(path), {unclear: "ann_55"})
    assert (source.learner, source.unclear) == ("ann_55", ())
    assert take(source).files == {SOFTMAX: b"one", "day02_attention.py": b"two"}
    with pytest.raises(ValueError, match="No submission is called 'nobody'"):
        attributed(find_sources(path), {"nobody": "ann_55"})


def test_an_accent_is_an_accent(tmp_path):
    """A Mac writes `ë` as two characters: names of learners and files fit what an instructor writes."""
    of_a_mac = unicodedata.normalize("NFD", "Zoë")
    write(tmp_path / "class", {f"{of_a_mac}/{of_a_mac}.py": b"1"})
    (tmp_path / "policy.yaml").write_text(f"excused: [{of_a_mac}]", encoding="utf-8")
    [source] = find_sources(tmp_path / "class")
    assert take(replace(source, renames=(("Zoë.py", SOFTMAX),))).files == {SOFTMAX: b"1"}
    assert {source.learner} == read_policy(tmp_path / "policy.yaml").named == {"Zoë"}


def test_a_roster(tmp_path, made_up):
    """Each member has a row: by number, by name, by group; and those who handed in nothing, too."""
    (tmp_path / "roster.csv").write_text(
        "\ufeffID,Name,Group\n1,Ada Lee,\n,Bo,\n3,Cem,Team A\n4,Dee,Team A\n5,=Eve,\n,,\n",
        encoding="utf-8",
    )
    members = read_roster(tmp_path / "roster.csv")
    assert members[0] == Member("1", "Ada Lee", "")
    assert len(members) == 5
    learners = dict.fromkeys(["adalee_1", "Bo_2", "Team A", "Zed_9"], "Canvas")
    assert [submission_of(member, learners) for member in members] == [
        *("adalee_1", "Bo_2", "Team A", "Team A", None)
    ]
    graded = made_up.graded(
        *(passed(learner) for learner in learners),
        roster=members,
        weights=Weights([DAYS[1]], policy=Policy(points={"5": Fraction(1, 2)})),
        sources=[downloaded(learner, "Canvas") for learner in learners],
    )
    write_roster(tmp_path / "out.csv", graded)
    rows = list(csv.DictReader((tmp_path / "out.csv").open(encoding="utf-8")))
    assert [(row["name"], row["verdict"]) for row in rows] == [
        ("Ada Lee", "graded"), ("Bo", "graded"), ("Cem", "graded"), ("Dee", "graded"),
        ("'=Eve", "nothing_handed_in"),
    ]  # fmt: skip
    assert [row["points"] for row in rows] == ["1", "1", "1", "1", "0.5"]
