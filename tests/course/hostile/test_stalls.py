"""Whoever stalls spends the time that a submission has: the grader's own time never runs out first.

The limits are about a tenth of the real ones here, and stand to each other much as those do. What is slept
is counted, and not what the clock shows: so the test takes as long as the machine lets it.
"""

import json
import os
import subprocess
import sys

import pytest

from course.curriculum import ROOT
from course.grading.job import Plan, course_digest
from course.grading.submission.sources import find_sources
from tests.course.hostile.kinds import before, during, right

GRADE = """
import sys
from course.grading import job
from course.workers import answer_run

answer_run.NAP, answer_run.MAX_SLEEP_SECONDS, job.SLEEPING = 2.0, 3.0, 4.0  # seconds
job.BEGINNING = job.COMPUTING = 2.0
print(job.grade_as_json(sys.stdin.read()))
"""

DEAF = """
import gc, io, os
for one in gc.get_objects():
    if type(one) is io.BufferedReader and not one.closed and one.fileno() > 2:
        os.close(one.fileno())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graded", "days", "statuses"),
    [
        pytest.param(
            (8,),
            during(8, "import time; time.sleep(1)"),
            {"timed_out"},
            id="a little in every check",
        ),
        pytest.param(
            (1, 2),
            before(1, DEAF) | {2: right(2) + "#" * 500_000},
            set(),
            id="a request that nobody reads",
        ),
    ],
)
def test_a_stall_is_the_submissions_own(empty_class, graded, days, statuses):
    """It is graded, in the time that it has and the grader's own."""
    alone = empty_class()
    alone.add("stalling", days)
    plan = Plan(graded, 3, "cpu", False, course_digest())
    [source] = find_sources(alone.submissions)
    done = subprocess.run(
        [sys.executable, "-c", GRADE],
        input=json.dumps({"plan": plan.as_json(), "source": source.as_json(), "known": ""}),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(alone.temporary)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["verdict"], result["reason"]) == ("graded", "")
    assert statuses <= {check["status"] for day in result["days"] for check in day["checks"]}
