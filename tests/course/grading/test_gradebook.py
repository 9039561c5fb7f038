"""Points: a day's, shared by its exercises; and results as JSON and back."""

import json
from fractions import Fraction

import pytest

from course.curriculum import DAYS
from course.grading.gradebook import GRADED, LearnerResult, Shortcut, Weights


def day(number, **statuses):
    checks = [
        {"exercise": name, "status": status} for name, each in statuses.items() for status in each
    ]
    return {"day": number, "checks": checks}


@pytest.mark.parametrize(
    ("statuses", "points"),
    [
        ({"padding_mask": ["passed"], "subsequent_mask": ["passed"], "target_mask": ["passed"]}, 1),
        ({"padding_mask": ["passed"], "subsequent_mask": ["failed"]}, Fraction(1, 3)),
        ({"padding_mask": ["passed", "failed"]}, 0),
        ({"padding_mask": ["passed", "skipped"]}, Fraction(1, 3)),
        ({"padding_mask": ["skipped"]}, 0),
        ({}, 0),
    ],
)  # fmt: skip
def test_an_exercise_earns_its_share_when_all_its_checks_pass(statuses, points):
    """Day 3 has three exercises, each a third; no check at all earns nothing."""
    assert Weights([DAYS[2]]).day_points(day(3, **statuses)) == points


def test_weights():
    """A day gives one point unless told otherwise; decimals are taken as they are written."""
    weights = Weights(DAYS[:3], {2: 0.1, 3: 4})
    assert weights.max_points == Fraction("5.1")
    assert weights.points([day(2, attention=["passed"])]) == Fraction("0.1")


def test_there_and_back():
    """What is written is what is read."""
    result = LearnerResult(
        "Ünal",
        GRADED,
        [day(2, attention=["passed"])],
        "why",
        [Shortcut(2, 7, "torch")],
        {"day02_attention.py": [3, 5]},
        "abc",
        1.5,
    )
    text = json.dumps(result.as_json(Weights([DAYS[1]])))
    assert LearnerResult.from_json(json.loads(text)) == result
    assert json.loads(text)["points"] == json.loads(text)["max_points"] == 1.0
