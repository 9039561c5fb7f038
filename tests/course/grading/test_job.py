"""One submission graded: what is said of it beside the verdicts."""

import contextlib
import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from course.grading import grade_command, job
from course.grading.gradebook import GRADED, LOST, UNSEEN, LearnerResult, Shortcut
from course.grading.job import Grader, Plan
from course.grading.submission.sources import Source
from course.grading.submission.taking import Taken
from course.workers.checking import not_observed
from course.workers.worker import NotStarted, TimedOut

DAY2 = "day02_attention.py"


class Scripted:
    """A worker that answers every request alike, or raises."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.ended = False

    def send(self, request, files):
        pass

    def receive(self, *limits):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome, {}

    def end(self):
        self.ended = True


@pytest.fixture
def grader():
    grader = Grader(Plan((2,), 5, "cpu", True, "edition"))
    yield grader
    grader.close()


def looked_through(grader, outcome):
    worker = Scripted(outcome)
    session = SimpleNamespace(take=lambda torch_on: worker, give_back=lambda worker: "")
    return grader._analyze({DAY2: b"x = 1"}, session)


FOUND = {"shortcuts": [[3, "gc"]], "fingerprints": [1, 2], "unseen": False}
UNSEEN_ON_DAY_2 = Shortcut(2, 0, UNSEEN)


@pytest.mark.parametrize(
    ("outcome", "review"),
    [
        (FOUND, [Shortcut(2, 3, "gc")]),
        (FOUND | {"unseen": True, "shortcuts": []}, [UNSEEN_ON_DAY_2]),
        (TimedOut("60,000 definitions"), [UNSEEN_ON_DAY_2]),
        ({}, [UNSEEN_ON_DAY_2]),
        (
            FOUND | {"fingerprints": list(range(job.MAX_FINGERPRINTS + 1))},
            [UNSEEN_ON_DAY_2, Shortcut(2, 3, "gc")],
        ),
    ],
)
def test_a_file_that_cannot_be_looked_through_is_reported(grader, outcome, review):
    """Whether it says so, takes too long or says too much: it is for review, before all else."""
    notes, _ = looked_through(grader, outcome)
    assert notes == review
    assert LearnerResult("ada", GRADED, review=notes).unseen == (UNSEEN_ON_DAY_2 in review)


def test_the_summary_counts_what_could_not_be_looked_through(tmp_path):
    """The last lines of the command name them, where there are any."""
    lines = []
    for unseen in (0, 2):
        console = Console(file=io.StringIO(), width=200)
        review = [[UNSEEN_ON_DAY_2]] * unseen + [[]] * (5 - unseen)
        results = [LearnerResult("ada", GRADED, review=notes) for notes in review]
        grade_command._print_summary(console, tmp_path, results)
        lines.append(console.file.getvalue().splitlines()[0])
    assert lines == ["5 graded.", "5 graded, 2 with files that could not be searched."]


@pytest.fixture
def graded(monkeypatch):
    """Grade several days, of each of which a function says what its verdict is."""

    def grade(days, judge_day):
        grader = Grader(Plan(days, 5, "cpu", True, "edition"))
        monkeypatch.setattr(job, "take", lambda source: Taken({DAY2: b"x = 1"}))
        monkeypatch.setattr(grader, "_analyze", lambda files, session: ([], {}))
        monkeypatch.setattr(grader, "_day", lambda judge, _, __, runs: judge_day(judge, runs))
        with contextlib.closing(grader):
            return grader.grade(Source("ada", (), ()))

    return grade


@pytest.mark.parametrize("error", [IndexError("33"), NotStarted("no memory")])
def test_a_fault_of_one_day_loses_that_day(graded, error):
    """It is named for review, and no other day pays; what the machine failed at is tried again whole."""

    def judge_day(judge, runs):
        if judge.day.number == 1:
            raise error
        return not_observed(judge, "timed_out", ""), 0

    if isinstance(error, NotStarted):
        with pytest.raises(NotStarted):
            graded((1, 2), judge_day)
        return
    result = graded((1, 2), judge_day)
    assert [day["status"] for day in result.days] == ["skipped", "error"]
    assert result.review == [Shortcut(1, 0, f"{LOST} (IndexError: 33)")]
    assert result.lost_day


def test_a_submission_has_so_many_runs_for_all_its_days(graded):
    """What one day's diagnosis took of the grader's time is not there for the next."""
    limits = []

    def judge_day(judge, runs):
        limits.append(runs)
        return not_observed(judge, "not_started", ""), 250

    graded((1, 2, 3), judge_day)
    assert limits == [job.MAX_RUNS, job.MAX_RUNS - 250, job.MAX_RUNS - 500]
