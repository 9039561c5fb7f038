"""Points: a day's, shared by its exercises; results as JSON and back; what the command says of a class."""

import json
from fractions import Fraction

import pytest

from course.curriculum import DAYS
from course.grading import grade_command
from course.grading.gradebook import (
    GRADED,
    GRADER_FAULT,
    REFUSED,
    LearnerResult,
    Shortcut,
    Weights,
)
from course.grading.instructions import Member, Policy
from course.grading.job import Plan
from course.grading.reports.returning import Returned
from course.grading.run import ClassRun
from course.grading.submission.choosing import FileNote
from course.grading.submission.sources import Source


def day(number, **statuses):
    """A day's verdicts: the statuses of each exercise's core, and after a `+` of what is watertight."""
    checks = [
        {"exercise": name, "status": status.lstrip("+"), "tier": tier}
        for name, each in statuses.items()
        for status in each
        for tier in ["watertight" if status[0] == "+" else "core"]
    ]
    return {"day": number, "checks": checks, "late": False}


@pytest.mark.parametrize(
    ("statuses", "points"),
    [
        ({"padding_mask": ["passed"], "subsequent_mask": ["passed"], "target_mask": ["passed"]}, 1),
        ({"padding_mask": ["passed"], "subsequent_mask": ["failed"]}, Fraction(1, 3)),
        ({"padding_mask": ["passed", "failed"]}, 0),
        ({"padding_mask": ["passed", "skipped"]}, Fraction(1, 3)),
        ({"padding_mask": ["skipped"]}, 0),
        ({"padding_mask": ["passed", "+failed", "+timed_out"]}, Fraction(1, 3)),
        ({"padding_mask": ["failed", "+passed"]}, 0),
        ({}, 0),
    ],
)  # fmt: skip
def test_an_exercise_earns_its_share_when_its_core_passes(statuses, points):
    """Day 3 has three exercises, each a third; no check at all earns nothing."""
    assert Weights([DAYS[2]]).day_points(day(3, **statuses)) == points


@pytest.mark.parametrize(
    ("statuses", "points"),
    [
        (["passed", "+passed", "+passed"], Fraction(1, 3)),
        (["passed", "+passed", "+failed"], Fraction(4, 15)),
        (["passed", "+failed", "+failed"], Fraction(4, 15)),
        (["passed", "+not_started"], Fraction(4, 15)),
        (["passed", "+passed", "+skipped"], Fraction(1, 3)),
        (["passed", "+skipped"], Fraction(1, 3)),
        (["passed"], Fraction(1, 3)),
        (["failed", "+passed"], 0),
        (["skipped", "+passed"], 0),
    ],
)
def test_a_share_for_what_is_watertight(statuses, points):
    """A fifth of an exercise's points, for all that was asked beyond its core and only with its core; where
    nothing was, the core earns it."""
    weights = Weights([DAYS[2]], watertight=Fraction(1, 5))
    assert weights.day_points(day(3, padding_mask=statuses)) == points
    assert weights.max_points == 1


@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_shares_are_exact(part):
    """A day gives a point, or what its weight says to the decimal; the core earns all but the share."""
    weights = Weights(DAYS[:3], {2: 0.1, 3: 4}, part)
    assert weights.max_points == Fraction("5.1")
    assert weights.day_points(day(2, attention=["passed", "+passed"])) == Fraction("0.1")
    assert weights.day_points(day(2, attention=["passed", "+failed"])) == (1 - part) / 10


def test_there_and_back():
    """What is written is what is read."""
    day_2, note = day(2, attention=["passed"]), FileNote("Day2.py", "day02_attention.py", "taken")
    result = LearnerResult(
        *(
            "Ünal",
            GRADED,
            [day_2],
            "why",
            [Shortcut(2, 7, "torch")],
            {"day02_attention.py": [3, 5]},
        ),
        *("abc", 1.5, True, [note], [FileNote("essay.pdf", "", "")], 7, "3.12.1", [day_2]),
    )
    text = json.dumps(result.as_json(Weights([DAYS[1]])))
    assert LearnerResult.from_json(json.loads(text)) == result
    assert json.loads(text)["points"] == json.loads(text)["max_points"] == 1.0


def handed_in(file, status, late):
    """The verdict on day 2 in one submission."""
    return day(2, attention=[status]) | {"file": file, "late": late, "handed_in": file != ""}


RIGHT, WRONG = (("a", "passed"), ("b", "failed"))


@pytest.mark.parametrize(
    ("submissions", "points", "remark"),
    [
        ([(*RIGHT, False), (*WRONG, True)], 1, "An earlier submission counts: day 2."),
        ([(*WRONG, False), (*RIGHT, True)], 0.9, "Handed in late: day 2, which costs 0.1 points."),
        ([("a", "passed", True), ("c", "passed", False)], 1, ""),
        ([(*RIGHT, False), (*RIGHT, True)], 1, "An earlier submission counts: day 2."),
        ([("a", "passed", False), ("a", "failed", True)], 0, ""),
        ([(*WRONG, False), ("", "failed", False)], 0, "An earlier submission counts: day 2."),
        ([(*RIGHT, False), (*WRONG, True), ("c", "failed", True)], 1, "An earlier submission counts: day 2."),
        ([(*RIGHT, False), (*WRONG, True), (*RIGHT, True)], 1, "An earlier submission counts: day 2."),
    ],
    ids=["earlier", "late", "equal", "late again", "checks changed", "no file", "two before", "back again"],
)  # fmt: skip
def test_the_best_submission_counts(submissions, points, remark):
    """With that policy, what a day earns less what being late costs decides; else the last one counts. An
    unchanged file has the verdict of today's checks."""
    last = None
    for submission in submissions:
        result = LearnerResult("ada", GRADED, [handed_in(*submission)], late=submission[2])
        last = result.after(last) if last else result
    best = Weights(DAYS[1:2], policy=Policy(Fraction(1, 10), keep_best=True))
    chosen = best.counting(last)
    assert last.as_json(best)["points"] == float(best.total(chosen)) == points
    assert best.remark(chosen).startswith(remark) and bool(best.remark(chosen)) == bool(remark)
    assert chosen.late == any(chosen.late_days)
    last_counts = Weights(DAYS[1:2], policy=Policy(Fraction(1, 10)))
    assert last_counts.counting(last) is last


@pytest.mark.parametrize(
    ("verdict", "days", "counts"),
    [(REFUSED, DAYS[1:2], True), (GRADER_FAULT, DAYS[1:2], False), (REFUSED, DAYS[:2], False)],
)
def test_an_earlier_submission_in_place_of_one_without_verdicts(verdict, days, counts):
    """It counts if it has every day; but where the grader failed, nothing is known yet."""
    earlier = LearnerResult("ada", GRADED, [handed_in(*RIGHT, False)])
    last = LearnerResult("ada", verdict, reason="'x' is a device").after(earlier)
    weights = Weights(days, policy=Policy(keep_best=True))
    chosen = weights.counting(last)
    assert (chosen.verdict, weights.total(chosen)) == ((GRADED, 1) if counts else (verdict, 0))
    told = "day 2. The last submission was not graded: 'x' is a device"
    assert weights.remark(chosen).endswith(told) == counts


def test_what_others_read_stays():
    """The fields that results have had since tiers came are there, and their version is the same."""
    entry = LearnerResult("a", GRADED).as_json(Weights([DAYS[1]]))
    assert list(entry)[:11] == [
        *("version", "learner", "verdict", "points", "max_points", "days", "reason", "review"),
        *("fingerprints", "digest", "computed"),
    ]
    assert entry["version"] == 2


def test_the_command_tells_of_names(tmp_path):
    """Lines of a map that fit no file, learners who may be two, and names that nobody has; points set by
    hand may be of who handed in nothing."""
    taken = [FileNote("x/hw1.py", "day01_softmax.py", ""), FileNote("day02_attention.py", "", "")]
    result = LearnerResult("ada", GRADED, taken=taken, ignored=[FileNote("b.py", "", "")])
    files = dict.fromkeys(("hw1.py", "hw[0-9].py", "b*", "day0*.py", "hw2.py"), "day01_softmax.py")
    twice = Source("Jane Doe", (), (), numbers=("111", "112"))
    sources = [twice, *(Source(name, (), ()) for name in ("ada", "ada.zip"))]
    policy = Policy(excused=["jane"], points={"paul_paper": 1, "zoe_1": 2, "ada": 3})
    roster = [Member("paul_paper"), Member("1", "zoe"), Member("2", "ada")]
    plan = Plan((1,), 5, "cpu", False, "edition")
    run = ClassRun(tmp_path, plan, Weights(DAYS[:1], policy=policy), sources, roster)
    run.keep(result)
    returned = [Returned(tmp_path / "x.zip", ["bo"])]
    assert list(grade_command.notes(run, files, returned)) == [
        f"To hand back: {tmp_path / 'x.zip'}",
        "It has no page for bo, who handed in no file: see feedback/.",
        "Jane Doe handed in under the numbers 111, 112, and the newest files count. "
        "If these are two people, rename a folder.",
        "ada and ada.zip are in the class: if they are one learner's, remove one of them.",
        "--map has lines that fit no file: day0*.py, hw2.py.",
        "2 of 3 in the roster handed in nothing: paul_paper, zoe (roster.csv).",
        "--policy names jane, but no submission or roster has that name.",
    ]
