"""What Gradescope is handed: its fields, a test an exercise, the same points as in the gradebook."""

import json
from fractions import Fraction

import pytest

from course.grading.gradebook import Weights
from course.grading.reports.gradescope import gradescope_results, write_gradescope

# Every field that the specification knows; it would ignore another in silence.
FIELDS = {
    *("score", "output", "output_format", "test_output_format"),
    *("test_name_format", "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"),
}
TEST_FIELDS = {
    *("score", "max_score", "status", "name", "name_format", "number", "output", "output_format"),
    *("tags", "visibility", "extra_data"),
}


@pytest.fixture
def results(made_up):
    """A learner's results as Gradescope reads them."""

    def read(result):
        return json.loads(json.dumps(gradescope_results(result, Weights(made_up.days))))

    return read


def test_fields(results, made_up):
    """All fields are Gradescope's, and all text is to be taken as text."""
    output = results(made_up.learner("a", wrong=1))
    assert set(output) <= FIELDS
    assert all(set(test) <= TEST_FIELDS for test in output["tests"])
    formats = {test["output_format"] for test in output["tests"]}
    assert formats | {output["output_format"], output["test_output_format"]} == {"text"}


def test_points(results, made_up):
    """An exercise is a test; the total is that of the gradebook, though thirds do not add up to it."""
    output = results(made_up.learner("a", wrong=1))
    assert output["score"] == 2.5
    assert [(test["number"], test["score"], test["max_score"]) for test in output["tests"]] == [
        ("1.1", 0, 0.5),
        ("1.2", 0.5, 0.5),
        ("2.1", 1, 1),
        *((f"3.{number}", 0.3333, 0.3333) for number in (1, 2, 3)),
    ]


def test_output(results, made_up):
    """A failed test says what the check is about and what was seen; a passed one says nothing."""
    output = results(made_up.learner("a", wrong=1, message="It sums to 2."))
    failed, passed, *_ = output["tests"]
    assert (failed["status"], passed["status"]) == ("failed", "passed")
    assert failed["name"] == "Day 1 · Softmax: softmax"
    assert (
        "A row of scores becomes positive weights that sum to 1.\nIt sums to 2." in failed["output"]
    )
    assert passed["output"] == ""


def test_invitations(results, made_up):
    """What is not watertight is no failure, and told as an invitation; the days with a star are named."""
    output = results(made_up.learner("a", beyond=1, message="It is NaN."))
    first = output["tests"][0]
    assert (first["status"], first["score"]) == ("passed", 0.5)
    assert first["output"].startswith("☆ An invitation to make it watertight: ")
    assert first["output"].endswith("It is NaN.")
    assert output["output"] == "★ Watertight days: 2–3"


def test_skipped(results, made_up):
    """An exercise that could not be asked earns nothing, and says why."""
    skipped = made_up.learner("a", wrong=99, status="skipped", message="Skipped: no GPU here.")
    first = results(skipped)["tests"][0]
    assert (first["status"], Fraction(first["score"])) == ("failed", 0)
    assert "no GPU here" in first["output"]


def test_hostile_text(results, made_up, hostile):
    """No message steers what shows it, and none is endless."""
    output = results(made_up.learner(hostile, wrong=1, message=hostile))["tests"][0]["output"]
    assert not set(output) & set("\x00\x07\x1b\r\x85\u2028\u202e\u2066\ufffe\udcff\ud800")
    assert len(output) < 1500


def test_grader_fault_is_no_zero(made_up, tmp_path):
    """Where the grader failed there is no file: Gradescope then gives no grade."""
    with pytest.raises(ValueError, match="unlucky"):
        gradescope_results(made_up.fault("unlucky"), Weights(made_up.days))
    graded = made_up.graded(made_up.fault("unlucky"), made_up.learner("../x"))
    write_gradescope(tmp_path, graded)
    assert [path.name for path in tmp_path.iterdir()] == ["..%2Fx.json"]


@pytest.mark.parametrize("kind", ["refused", "nothing"])
def test_not_graded(results, made_up, kind):
    """Who was refused, or handed in nothing that is a day's, has 0 points and reads why."""
    output = results(getattr(made_up, kind)("a", "There is 'essay.pdf'."))
    assert (output["score"], output["tests"]) == (0, [])
    assert "There is 'essay.pdf'." in output["output"]
