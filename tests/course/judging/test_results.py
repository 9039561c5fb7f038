"""What a day's verdicts come to: its core decides, and what is beyond earns the star."""

import json

import pytest

from course.curriculum import DAYS
from course.judging.results import CheckResult, DayResult, report_json


def day(*statuses, begun=True):
    """A day with a check for each status, those after a `+` watertight."""
    checks = [
        CheckResult("test_it", "attention", status[1:], tier="watertight", beyond="why")
        if status[0] == "+"
        else CheckResult("test_it", "attention", status)
        for status in statuses
    ]
    return DayResult(DAYS[1], tuple(checks), begun)


@pytest.mark.parametrize(
    ("statuses", "status", "watertight"),
    [
        (["passed", "+passed"], "passed", True),
        (["passed"], "passed", True),
        (["passed", "skipped", "+skipped"], "passed", True),
        (["passed", "+failed"], "passed", False),
        (["+failed", "passed"], "passed", False),
        (["passed", "+passed", "+error"], "passed", False),
        (["passed", "+timed_out"], "passed", False),
        (["passed", "+not_started"], "passed", False),
        (["failed", "+passed"], "failed", False),
        (["failed", "passed", "+error"], "failed", False),
        (["failed", "error"], "error", False),
        (["passed", "timed_out"], "error", False),
        (["not_started", "out_of_memory"], "error", False),
        (["not_started", "failed"], "failed", False),
        (["not_started", "passed", "+failed"], "in_progress", False),
        (["not_started", "+error"], "in_progress", False),
        (["skipped", "+skipped"], "skipped", False),
        (["skipped", "+passed"], "skipped", False),
    ],
)
def test_the_core_decides(statuses, status, watertight):
    """The status is the worst of the core's; the star needs everything that was asked."""
    assert (day(*statuses).status, day(*statuses).watertight) == (status, watertight)


def test_nothing_begun():
    """What is not started is so in earnest where nothing was begun."""
    assert day("not_started", "+not_started", begun=False).status == "not_started"


def test_tiers_are_counted_apart():
    """Checks that were skipped count in neither."""
    first = day("passed", "failed", "skipped", "+passed", "+failed", "+error", "+skipped")
    two = day("passed", "+passed")
    report = report_json([first, two])
    assert (report["passed"], report["total"]) == (2, 3)
    assert (report["passed_watertight"], report["total_watertight"]) == (2, 4)
    assert [day["watertight"] for day in report["days"]] == [False, True]
    assert [check["tier"] for check in report["days"][1]["checks"]] == ["core", "watertight"]
    json.dumps(report)


def test_invitations_wait_for_the_core():
    """What a day lacks to be watertight is no concern before it is passed."""
    assert [check.status for check in day("passed", "+passed", "+failed").invitations] == ["failed"]
    assert day("failed", "+failed").invitations == []
    assert day("not_started", "+failed").invitations == []


def test_what_a_message_explains_is_not_puzzling():
    """ "No known mistake explains all of this" is for numbers that nobody can place."""

    def result(**how):
        return DayResult(DAYS[1], (CheckResult("test_it", "attention", "failed", "No.", **how),))

    assert result().is_puzzling
    assert not result(explained=True).is_puzzling
    assert not result(misconception="not_scaled").is_puzzling
