"""No attack earns a point, none costs anybody else one, and nothing of it is left.

`kinds.py` says what a kind is, and the files beside it what kinds there are.
"""

import html
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import psutil
import pytest

from course.curriculum import ROOT
from course.grading import cgroups
from tests.course.hostile import couriers
from tests.course.hostile.classes import HONEST, MARK, called
from tests.course.hostile.kinds import GRADED, right

# All tests of this file share one run, which takes some minutes.
pytestmark = pytest.mark.timeout(1800)

MAX_RESULT_BYTES = 1_000_000  # bytes of a learner's file in results/


def hidden_lines():
    """Lines of the references that are in no right answer to the days that are graded."""
    harmless = "".join(map(right, GRADED))
    for file in ("numpy_reference.py", "implementation.py"):
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if len(line.strip()) > 30 and line.strip() not in harmless:
                yield line.strip()


HIDDEN = set(hidden_lines())


@pytest.mark.slow
def test_kind(graded, kind):
    """The verdict, every day's status and the points are as expected; the page tells of nobody else."""
    result = graded.result(kind.shown)
    assert (result["verdict"], kind.refused in result["reason"]) == (kind.verdict, True)
    statuses = {day["day"]: day["status"] for day in result["days"]}
    assert statuses == kind.expected
    passed = {day for day, status in statuses.items() if status == "passed"}
    assert {day["day"] for day in result["days"] if day["watertight"]} == passed
    assert (result["points"], result["max_points"]) == (kind.points, len(GRADED))
    assert kind.review in " ".join(note["what"] for note in result["review"])
    assert len(str(result)) < MAX_RESULT_BYTES
    page = html.unescape(graded.page(kind.shown))
    assert not [name for name in HONEST if name in page]
    assert not [line for line in HIDDEN if line in page]


@pytest.mark.slow
def test_the_honest_get_what_they_get_alone(graded, empty_class):
    """Every status and every message is the same, to the letter; only times differ."""
    alone = empty_class()
    for learner, days in HONEST.items():
        alone.add(learner, days)
    alone.grade(jobs=1)
    assert alone.returncode == 0
    for learner in HONEST:
        assert without_times(graded.result(learner)) == without_times(alone.result(learner))


def without_times(result):
    days = [
        day | {"seconds": 0, "checks": [check | {"seconds": 0} for check in day["checks"]]}
        for day in result["days"]
    ]
    return result | {"days": days, "computed": 0}


def test_the_honest_are_told_apart(graded):
    """Right is right, and wrong is wrong, between all the others: what is the same is not nothing."""
    statuses = {
        learner: [day["status"] for day in graded.result(learner)["days"]] for learner in HONEST
    }
    assert statuses == {
        "bea-quillfeather": ["passed", "passed", "passed"],
        "gus-thistlewood": ["passed", "failed", "passed"],
        "mia-larkspur": ["failed", "passed", "not_started"],
        "tom-ravenscroft": ["passed", "not_started", "error"],
        "zoe-honeycombe": ["passed", "passed", "passed"],
    }


def test_the_command_succeeds(graded):
    """Everybody is graded or refused, and that is what the exit status says."""
    assert "fault" not in graded.printed
    assert graded.returncode == 0


def test_nothing_is_left(graded):
    """No process, no cgroup, no file of the grader's, no mark."""
    processes = [
        process.info
        for process in psutil.process_iter(["pid", "cmdline"])
        if str(graded.temporary) in " ".join(process.info["cmdline"] or [])
    ]
    assert processes == []
    groups = [
        path for process in graded.processes for path in cgroups.ROOT.rglob(f"course-{process}-*")
    ]
    assert groups == []
    assert list(graded.temporary.glob("course-*")) == []
    ours = [graded.folder, *(graded.out.iterdir()), graded.submissions, ROOT, ROOT / "course"]
    everybodys = [Path("/"), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
    assert [path for folder in ours + everybodys for path in folder.glob(f"{MARK}*")] == []


def test_nobody_called(graded, sockets):
    """Nothing has arrived at this machine's sockets."""
    assert called(sockets) == []


def test_nothing_is_carried_out(graded):
    """What a worker says in words is in no result, report or page, and was not printed."""
    for path in graded.out.rglob("*"):
        if path.is_file():
            assert couriers.CARGO.encode() not in path.read_bytes(), path
    assert couriers.CARGO not in graded.printed


def test_reports_are_harmless(graded):
    """What steers a terminal, a browser or a spreadsheet is in no report, and XML stays XML."""
    files = [path for path in graded.out.rglob("*") if path.suffix in (".html", ".csv", ".xml")]
    assert len(files) > len(graded.finished())
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), path
        if path.suffix == ".html":
            assert "<script>alert" not in text and "<script>document" not in text, path
        if path.suffix == ".csv":
            assert not re.search(r'(^|[,;])"?[=+@]', text, re.MULTILINE), path
    ElementTree.parse(graded.out / "junit.xml")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", graded.printed)
