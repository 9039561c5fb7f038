"""A copy of the project that a test may do anything to, and its command line."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from course.curriculum import ROOT
from course.grading.sandbox import NoSandbox, walls

COPIED = (
    *("course", "training", "numpy_reference.py", "implementation.py", "variants"),
    *("tests/days", "exercises", "solutions", "lessons"),
)
ANSWER = ROOT / "tests" / "days" / "accepted" / "day02_attention" / "query_scaled_first.py"


@dataclass
class Project:
    """The project in a folder of its own."""

    root: Path

    @property
    def exercise(self) -> Path:
        """Day 2's file among the exercises."""
        return self.root / "exercises" / "day02_attention.py"

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
        width = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        return kept | width | {"PYTHONPATH": str(self.root)} | changes

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "course.cli"]

    def course(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command as a user would, without a terminal."""
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
        )

    def check(self, *arguments: str) -> dict:
        """The one day that `course check --json` reports on."""
        done = self.course("check", *(arguments or ("2",)), "--json")
        report = json.loads(done.stdout)
        [day] = report["days"]
        assert done.returncode == (0 if day["status"] == "passed" else 1)
        return day


@pytest.fixture(scope="module")
def found():
    """The walls of this machine; where there are none, tests of them are skipped."""
    try:
        with walls() as found:
            yield found
    except NoSandbox as reason:
        pytest.skip(f"no sandbox here: {reason}")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """A copy of the project with every stub untouched, made once."""
    root = tmp_path_factory.mktemp("pristine") / "project"
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for day in (root / "exercises").glob("day*.py"):
        day.unlink()
    Project(root).course("sync")
    return root


@pytest.fixture
def project(pristine, tmp_path):
    """A fresh copy, with every stub untouched.

    Lessons are most of its bytes, and no test changes one: they are linked.
    """
    root = tmp_path / "project"
    shutil.copytree(pristine, root, ignore=shutil.ignore_patterns("lessons"))
    shutil.copytree(pristine / "lessons", root / "lessons", copy_function=os.link)
    return Project(root)


@pytest.fixture
def answer() -> str:
    """The source of a right answer to day 2."""
    return ANSWER.read_text(encoding="utf-8")


@pytest.fixture
def loose(answer) -> str:
    """The source of an answer that passes day 2 and is not watertight: a query that may attend to nothing
    attends to everything."""
    assert answer.count("weights = weights * mask") == 1
    return answer.replace("weights = weights * mask", "pass")
