"""A student edition installed in an environment of its own, and used as a learner would."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from contextlib import contextmanager

import pytest

from course.checks.answers import read_answer
from course.curriculum import DAYS
from course.edition import bundle as bundling
from course.edition.bundle import bundle
from course.judging import recorded, truth
from course.judging.misconceptions import load_misconceptions
from course.judging.recorded import record
from course.terminal.arguments import listed_days
from tests.conftest import FRESH_SEED

READY = [day for day in DAYS if day.ready]
SHARE = 4  # one in so many days, where not all are checked
# Days whose checks import parts of earlier days.
BUILT_ON_OTHERS = (14, 18, 19, 20, 23, 24, 26, 27, 32, 36, 39)


class Installed:
    """An edition in a folder, and the environment in which its command is installed."""

    def __init__(self, edition, environment):
        self.edition = edition
        self.bin = environment / ("Scripts" if os.name == "nt" else "bin")
        venv.create(environment, with_pip=False)
        paths = {"base": str(environment), "platbase": str(environment)}
        packages = sysconfig.get_path("purelib", vars=paths)
        with open(f"{packages}/packages_of_the_tests.pth", "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(sysconfig.get_path("purelib"))
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--editable"]
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python")]
        self._run([*pip, "install", *options, str(edition)], check=True)

    def _run(self, command, check=False):
        hidden = ("PYTHONPATH", "FORCE_COLOR")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        return subprocess.run(
            command,
            cwd=self.edition,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=check,
        )

    def course(self, *arguments):
        return self._run([str(self.bin / "course"), *map(str, arguments)])

    def check(self, numbers, answers="exercises"):
        """The verdicts on days, by their numbers."""
        done = self.course("check", *numbers, "--answers", answers, "--json")
        assert done.stdout, done.stderr
        return {day["day"]: day for day in json.loads(done.stdout)["days"]}


def chosen(numbers, config):
    """All of them, or every fourth, beginning with another one each run."""
    if config.getoption("--thorough"):
        return list(numbers)
    return list(numbers)[int(os.environ[FRESH_SEED]) % SHARE :: SHARE]


@contextmanager
def recorded_in_haste(numbers):
    """Within it, of each day one wrong answer is recorded, and of all but these no check."""
    load_checks, load_misconceptions = recorded.load_checks, recorded.load_misconceptions

    def make(day, folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                recorded, "load_checks", load_checks if day.number in numbers else lambda day: []
            )
            patch.setattr(
                recorded, "load_misconceptions", lambda *asked: load_misconceptions(*asked)[:1]
            )
            recorded._make(day, recorded._file(day, folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "record", make)
        yield


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """An edition in which every day is released."""
    folder = tmp_path_factory.mktemp("released")
    bundle(folder / "edition", len(DAYS), lambda day: None)
    return Installed(folder / "edition", folder / "environment")


@pytest.fixture(scope="module")
def unreleased(tmp_path_factory, pytestconfig):
    """An edition in which no day is released; of the days that build on others, some are recorded."""
    folder = tmp_path_factory.mktemp("unreleased")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(folder / "cache"))
        with recorded_in_haste(chosen(BUILT_ON_OTHERS, pytestconfig)):
            bundle(folder / "edition", 0, lambda day: None)
    return Installed(folder / "edition", folder / "environment")


def test_the_project_file(released):
    """It can be read, and declares the command and what is to be installed."""
    text = (released.edition / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)
    assert project["project"]["scripts"] == {"course": "course.cli:main"}
    assert project["tool"]["setuptools"]["py-modules"] == ["implementation", "numpy_reference"]
    assert "optional-dependencies" not in project["project"]


def test_the_installed_command_is_the_editions(released):
    """The command runs the edition's own code, and none of this repository's."""
    code = "import course, implementation; print(course.__file__, implementation.__file__)"
    done = released._run([str(released.bin / "python"), "-P", "-c", code], check=True)
    assert done.stdout.count(str(released.edition)) == 2
    assert "watch" in released.course("--help").stdout


def test_released_days(released, pytestconfig, tmp_path):
    """An untouched stub is not started, the solution is right, and a known wrong answer is not."""
    days = chosen(READY, pytestconfig)
    numbers = [day.number for day in days]
    assert {day["status"] for day in released.check(numbers).values()} == {"not_started"}
    solutions = released.check(numbers, "solutions")
    assert {(day["status"], day["watertight"]) for day in solutions.values()} == {("passed", True)}
    for day in days:
        wrong = load_misconceptions(day)[0].text(day)
        text = f"{read_answer(day.solution)}\n\n{wrong}"
        (tmp_path / f"{day.stem}.py").write_text(text, encoding="utf-8")
    for number, day in released.check(numbers, tmp_path).items():
        went_wrong = [check for check in day["checks"] if check["status"] != "passed"]
        assert went_wrong, number
        assert not any("signal" in check["message"] for check in went_wrong)


def test_days_that_build_on_days_not_done(unreleased, pytestconfig):
    """Where its checks need an earlier day that is not done, a stub is not started, and a right answer
    is told which day comes first."""
    numbers = chosen(BUILT_ON_OTHERS, pytestconfig)
    for number, day in unreleased.check(numbers).items():
        assert day["status"] == "not_started", number
        assert f"Day {number} builds on an earlier day." in day["checks"][0]["message"]
    for number in numbers:
        day = DAYS[number - 1]
        path = unreleased.edition / "exercises" / f"{day.stem}.py"
        stub = path.read_text(encoding="utf-8")
        path.write_text(read_answer(day.solution), encoding="utf-8")
        [checked] = unreleased.check([number]).values()
        path.write_text(stub, encoding="utf-8")
        assert checked["status"] == "error"
        assert {check["status"] for check in checked["checks"]} == {"error"}
        assert "first." in checked["checks"][0]["message"]


def test_an_edition_of_chosen_days(tmp_path):
    """It holds these alone. What lies between them is given; what comes after is not there."""
    with recorded_in_haste([23]), pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
        bundle(tmp_path / "edition", 9, lambda day: None, listed_days("1-9,23"))
    edition = tmp_path / "edition"
    stems = {day.stem for day in listed_days("1-9,23")}
    assert {path.stem for path in (edition / "exercises").glob("day*.py")} == stems
    assert {path.stem for path in (edition / "lessons").glob("*.ipynb")} == stems
    assert {path.stem for path in (edition / "solutions").glob("*.ipynb")} == stems - {"day23_gpt"}
    assert "class DecoderLayer" in (edition / "implementation.py").read_text(encoding="utf-8")
    assert "class GPT(" not in (edition / "variants/gpt.py").read_text(encoding="utf-8")
    assert "def rotate" not in (edition / "variants/rope.py").read_text(encoding="utf-8")
    installed = Installed(edition, tmp_path / "environment")
    assert installed.check([23])[23]["status"] == "not_started"
    stub = edition / "exercises" / "day23_gpt.py"
    stub.write_text(read_answer(DAYS[22].solution), encoding="utf-8")
    assert installed.check([23])[23]["status"] == "passed"


def test_a_recording_is_not_made_twice(tmp_path, monkeypatch):
    """A second edition takes it as it is; one of which a piece is lost is made again."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    record(DAYS[0], tmp_path / "one")
    observed = []
    watched = truth.see
    monkeypatch.setattr(
        truth, "see", lambda check, *rest: observed.append(check) or watched(check, *rest)
    )
    record(DAYS[0], tmp_path / "other")
    [one], [other] = (list((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    assert observed == []
    [made] = (tmp_path / "cache" / "recorded").iterdir()
    made.write_bytes(made.read_bytes()[:-40])
    record(DAYS[0], tmp_path / "third")
    assert recorded.Kept(tmp_path / "third" / one.name).read(recorded.TOLD)
