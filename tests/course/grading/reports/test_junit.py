"""The class as JUnit XML: well-formed whatever learners write, with every verdict in it."""

from xml.etree import ElementTree

import pytest

from course.grading.reports.escaping import shortened, visible
from course.grading.reports.junit import write_junit


@pytest.fixture
def suites(tmp_path):
    """The suites of a class, as a parser reads them."""

    def read(graded):
        write_junit(tmp_path / "junit.xml", graded)
        return ElementTree.parse(tmp_path / "junit.xml").getroot().findall("testsuite")

    return read


def test_verdicts(suites, made_up):
    """Each check is a case, and the suite counts those that failed or broke."""
    failing = made_up.learner("one", wrong=2)
    broken = made_up.learner("two", wrong=3, status="timed_out")
    first, two = suites(made_up.graded(failing, broken))
    checks = sum(len(day["checks"]) for day in failing.days)
    assert first.get("name") == "one"
    assert int(first.get("tests")) == len(first.findall("testcase")) == checks
    assert (first.get("failures"), first.get("errors")) == ("2", "0")
    assert (two.get("failures"), two.get("errors")) == ("0", "3")
    assert two.find("testcase/error").get("type") == "timed_out"
    assert first.find("testcase").get("classname") == "day01_softmax.softmax"


@pytest.mark.parametrize("status", ["not_started", "skipped"])
def test_skipped(suites, made_up, status):
    """What was not begun or could not be asked is skipped, with its reason."""
    [suite] = suites(made_up.graded(made_up.learner("a", wrong=1, status=status, message="Why.")))
    assert suite.get("skipped") == "1"
    assert suite.find("testcase/skipped").get("type") == status
    assert suite.find("testcase/skipped").text == "Why."


def test_invitations(suites, made_up):
    """What is only not watertight fails nothing: it is skipped, by that name."""
    [suite] = suites(made_up.graded(made_up.learner("a", beyond=2, message="It is NaN.")))
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "2")
    assert suite.find("testcase/skipped").get("type") == "watertight"
    assert suite.find("testcase/skipped").text == "It is NaN."


def test_not_graded(suites, made_up):
    """Who was refused, and where the grader failed, is an error with its reason, not a suite of nothing."""
    refused, fault = suites(made_up.graded(made_up.refused("a", "Too large."), made_up.fault("b")))
    assert refused.find("testcase/error").text == "Too large."
    assert (refused.get("tests"), refused.get("errors")) == ("1", "1")
    assert fault.find("testcase/error").get("type") == "grader_fault"


def test_hostile_text(suites, made_up, hostile):
    """Names and messages stay text, and what XML forbids is written out."""
    learner = made_up.learner(hostile, wrong=1, message=hostile)
    first, two = suites(made_up.graded(learner, made_up.learner("next")))
    assert {element.tag for element in first.iter()} == {"testsuite", "testcase", "failure"}
    assert first.find("testcase/failure").text == visible(shortened(hostile))
    assert two.get("name") == "next"
