"""How much a learner is told: the same verdicts, with the checks' numbers, without them, or bare."""

import json

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.grading.job import Plan, course_digest, grade_as_json
from course.grading.submission.sources import Source
from course.judging.messages import Feedback
from course.judging.misconceptions import load_misconceptions
from tests.course.grading.test_run import task_of

DAY = DAYS[1]
WRONG = "import math\n\ndef attention(query, key, value, mask=None):\n    {}\n"


def graded(tmp_path, feedback, body, day=DAY):
    """The checks of a day in a result, for somebody's answer."""
    folder = tmp_path / "ada"
    folder.mkdir(exist_ok=True)
    (folder / f"{day.stem}.py").write_text(body)
    plan = Plan((day.number,), 5, "cpu", False, course_digest(), feedback)
    source = Source("ada", (folder,), ("ada",))
    result = json.loads(grade_as_json(task_of(plan, source)))
    assert result["verdict"] == "graded", result["reason"]
    return result["days"][0]["checks"]


pytestmark = pytest.mark.usefixtures("real_sandbox")


@pytest.mark.parametrize("feedback", [Feedback.full, Feedback.discreet, Feedback.verdict])
def test_verdicts_are_the_same_and_words_are_not(tmp_path, feedback):
    """A known mistake: told with numbers and inputs, without them, or not at all."""
    right = read_answer(DAY.solution)
    checks = graded(tmp_path, feedback, right.replace(" / math.sqrt(query.shape[-1])", ""))
    failed = [check for check in checks if check["status"] == "failed"]
    assert failed and len(failed) < len(checks)
    assert {check["misconception"] for check in failed} == (
        {None} if feedback == Feedback.verdict else {"not_scaled"}
    )
    words = " ".join(check["message"] for check in failed)
    assert ("is wrong (" in words) == (feedback == Feedback.discreet)
    assert ("; it should be 0." in words) == (feedback == Feedback.full)
    assert ("Inputs: query" in words) == (feedback == Feedback.full)
    assert bool(words.strip()) == (feedback != Feedback.verdict)


@pytest.mark.parametrize("feedback", [Feedback.full, Feedback.discreet])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return undefined_name", "NameError: name 'undefined_name' is not defined"),
        ("return [1, 2][query.ndim + 7]", "IndexError: list index out of range"),
        ("return query @ key, 0", "matmul: Input operand 1 has a mismatch"),
        ("return query.no_such_thing", "'numpy.ndarray' object has no attribute 'no_such_thing'"),
        ("return attention(query)", "attention() missing 2 required positional arguments"),
    ],
)
def test_common_exceptions_are_told_in_their_own_words(tmp_path, feedback, body, expected):
    """What Python and NumPy say of everyday mistakes is on the list, and names are the learner's."""
    words = " ".join(check["message"] for check in graded(tmp_path, feedback, WRONG.format(body)))
    assert expected in words
    assert f"line 4, in attention: {body}" in words


@pytest.mark.slow
def test_what_cannot_be_told_is_diagnosed_all_the_same(tmp_path):
    """An exception with more numbers in it than are shown is still that of a known mistake."""
    day = DAYS[8]
    [wrong] = [
        mistake for mistake in load_misconceptions(day) if mistake.id == "mask_twice_an_axis"
    ]
    answer = f"{read_answer(day.solution)}\n\n{wrong.text(day)}"
    failed = [
        check for check in graded(tmp_path, Feedback.discreet, answer, day) if check["message"]
    ]
    assert {check["misconception"] for check in failed} == {wrong.id}
    assert not any("must broadcast" in check["message"] for check in failed)
