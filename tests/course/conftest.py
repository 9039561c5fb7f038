"""A copy of the project that a test may do anything to, and its command line."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from course.curriculum import ROOT
from course.grading.sandbox import NoSandbox, open_sandbox
from course.judging import diagnosis

COPIED = (
    *("course", "training", "numpy_reference.py", "implementation.py", "variants"),
    *("tests/days", "exercises", "solutions", "lessons"),
)
LINKED = ("course", "training", "variants", "lessons")  # no test changes anything in these
ANSWER = ROOT / "tests" / "days" / "accepted" / "day02_attention" / "query_scaled_first.py"
# Runs commands in one process, as a start costs a second of imports; prints what became of each.
SEVERAL = """
import json, sys
from typer.testing import CliRunner
from course.cli import app

def said(arguments, environment):
    done = CliRunner().invoke(app, arguments, env=environment, prog_name="course")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return {"returncode": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}

print(json.dumps([said(*command) for command in json.load(sys.stdin)]))
"""


def said_by(
    program: Sequence[str], commands: Sequence[Sequence[str]], **how: object
) -> list[SimpleNamespace]:
    """Exit code and output of each of several commands that a program runs, which is given them as JSON."""
    requests = [
        (command[:-1], command[-1]) if command and isinstance(command[-1], dict) else (command, {})
        for command in commands
    ]
    done = subprocess.run(
        program, input=json.dumps(requests), capture_output=True, encoding="utf-8", **how
    )
    assert done.returncode == 0, done.stderr
    return [SimpleNamespace(**entry) for entry in json.loads(done.stdout)]


@dataclass
class Project:
    """The project in a folder of its own."""

    root: Path

    @property
    def exercise(self) -> Path:
        """Day 2's file among the exercises."""
        return self.root / "exercises" / "day02_attention.py"

    def environment(self, **changes: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
        width = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        return inherited | width | {"PYTHONPATH": str(self.root)} | changes

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

    def courses(
        self, *commands: Sequence[str], prefix: Sequence[str] = (), **environment: str
    ) -> list[SimpleNamespace]:
        """Run several commands in one process, one after the other.

        Args:
            commands: the arguments of each; the last may be a dict, its own environment.
            prefix: what the process is started by.
            environment: that of all of them.
        """
        return said_by(
            [*prefix, sys.executable, "-c", SEVERAL],
            commands,
            cwd=self.root,
            env=self.environment(**environment),
        )

    def check(self, *arguments: str) -> dict:
        """The one day that `course check --json` reports on."""
        done = self.course("check", *(arguments or ("2",)), "--json")
        report = json.loads(done.stdout)
        [day] = report["days"]
        assert done.returncode == (0 if day["status"] == "passed" else 1)
        return day


@pytest.fixture(scope="session", autouse=True)
def unhurried():
    """No test depends on how much a slow machine finds in the seconds that a learner waits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosis, "PATIENCE", math.inf)
        yield


@pytest.fixture(scope="module")
def real_sandbox():
    """The walls of this machine; where there are none, tests of them are skipped."""
    try:
        with open_sandbox() as opened:
            yield opened
    except NoSandbox as reason:
        pytest.skip(f"no sandbox here: {reason}")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """A copy of the project with every stub untouched, made once for all processes of a run."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    root = shared / "pristine" / "project"
    with FileLock(shared / "pristine.lock"):
        marker = root.with_name("made")
        if not marker.exists():
            shutil.rmtree(root, ignore_errors=True)  # of a process that was killed
            _copy_to(root)
            marker.touch()
    return root


def _copy_to(root):
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for day in (root / "exercises").glob("day*.py"):
        day.unlink()
    done = Project(root).course("sync")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def project(pristine, tmp_path):
    """A fresh copy, with every stub untouched."""
    root = tmp_path / "project"
    shutil.copytree(pristine, root, ignore=shutil.ignore_patterns(*LINKED))
    for name in LINKED:
        shutil.copytree(pristine / name, root / name, copy_function=os.link)
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
