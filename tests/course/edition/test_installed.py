"""A student edition installed in an environment of its own, and used as a learner would."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, LAST_DAY
from course.edition.bundle import bundle
from course.judging.misconceptions import load_misconceptions
from tests.course.conftest import SEVERAL, said_by
from tests.course.edition.verdicts import chosen, verdicts

READY = [day for day in DAYS if day.ready]


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

    @property
    def environment(self):
        hidden = ("PYTHONPATH", "FORCE_COLOR")
        return {name: value for name, value in os.environ.items() if name not in hidden}

    def _run(self, command, check=False):
        return subprocess.run(
            command,
            cwd=self.edition,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            check=check,
        )

    def course(self, *arguments):
        return self._run([str(self.bin / "course"), *map(str, arguments)])

    def courses(self, *commands):
        """Several commands in one process, of the environment's Python."""
        program = [str(self.bin / "python"), "-P", "-c", SEVERAL]
        return said_by(program, commands, cwd=self.edition, env=self.environment)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """An edition in which every day is released."""
    folder = tmp_path_factory.mktemp("released")
    bundle(folder / "edition", LAST_DAY, lambda day: None)
    return Installed(folder / "edition", folder / "environment")


@pytest.fixture(scope="module")
def checked(released, request, tmp_path_factory):
    """The verdicts on the days that are asked about: on the stubs, the solutions, and known wrong answers."""
    days = chosen(request, "day")
    wrong = tmp_path_factory.mktemp("wrong")
    for day in days:
        text = f"{read_answer(day.solution)}\n\n{load_misconceptions(day)[0].text(day)}"
        (wrong / f"{day.stem}.py").write_text(text, encoding="utf-8")
    command = ["check", *(str(day.number) for day in days), "--json", "--answers"]
    outputs = released.courses(
        *([*command, folder] for folder in ("exercises", "solutions", str(wrong)))
    )
    return [verdicts(done) for done in outputs]


@pytest.mark.slow
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


@pytest.mark.slow
def test_it_grades_nobody(released):
    """With every day released it is a student edition still."""
    refused = released.course("grade", "--out", "anywhere")
    assert refused.returncode == 2
    assert "'grade' is not in the student edition" in " ".join(refused.stderr.split())
    assert released.course("doctor").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
def test_released_days(checked, day):
    """An untouched stub is not started, the solution is right, and a known wrong answer is not."""
    stub, solution, wrong = (verdict[day.number] for verdict in checked)
    assert stub["status"] == "not_started"
    assert (solution["status"], solution["watertight"]) == ("passed", True)
    went_wrong = [check for check in wrong["checks"] if check["status"] != "passed"]
    assert went_wrong
    assert not any("signal" in check["message"] for check in went_wrong)
