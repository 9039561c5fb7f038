"""What stands ready for services and containers, as far as it can be run without them."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import yaml

from course.curriculum import DAYS, ROOT
from course.grading.sandbox import NoSandbox, open_sandbox

FOLDER = ROOT / "integrations"
CLASSROOM = FOLDER / "github-classroom"
CI = ROOT / ".github" / "workflows" / "ci.yml"
GRADESCOPE = FOLDER / "gradescope"
RIGHT = ROOT / "tests" / "days" / "accepted" / DAYS[0].stem / "log_first.py"
WRONG = "def softmax(x, axis=-1):\n    return x\n"


@pytest.fixture
def program():
    """Puts a program into a folder that is looked through before the others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # nobody, as whom bubblewrap is started, has to get there

        def program(name, text):
            path = Path(folder, name)
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
            return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

        yield program


# --- GitHub ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workflow():
    return yaml.load((CLASSROOM / "classroom.yml").read_text(encoding="utf-8"), yaml.BaseLoader)


def test_the_workflow_is_named_as_the_reporter_asks(workflow):
    """It reports only for a workflow of that name, whose only job has that name."""
    assert workflow["name"] == "Autograding Tests"
    assert list(workflow["jobs"]) == ["run-autograding-tests"]


def test_the_reporter_finds_the_result(workflow):
    """It looks for it in a variable that is called after the step that had it as an output."""
    steps = workflow["jobs"]["run-autograding-tests"]["steps"]
    [reporter] = [step for step in steps if "autograding-grading-reporter" in step.get("uses", "")]
    [check] = [step for step in steps if "report.py" in step.get("run", "")]
    runner = reporter["with"]["runners"]
    assert runner == check["id"]
    name = f"{runner.upper()}_RESULTS"
    assert reporter["env"] == {name: f"${{{{ steps.{runner}.outputs.result }}}}"}
    assert check["run"].endswith('>> "$GITHUB_OUTPUT"')


@pytest.mark.parametrize("file", [CLASSROOM / "classroom.yml", CI], ids=lambda file: file.stem)
def test_the_workflow_has_nothing_to_steal(file):
    """Students and whoever sends a change can change it: it knows no secret, and may write nothing."""
    text = file.read_text(encoding="utf-8")
    parsed = yaml.load(text, yaml.BaseLoader)
    assert parsed["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in parsed["jobs"].values())
    assert not re.search(r"secrets\.|token", text)


def test_the_gate_runs_on_the_oldest_python():
    """Of those that pyproject.toml allows."""
    gate = yaml.load(CI.read_text(encoding="utf-8"), yaml.BaseLoader)["jobs"]["gate"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={gate['strategy']['matrix']['python'][0]}"
    [script] = [step["run"] for step in gate["steps"] if step.get("run", "").startswith(".")]
    assert os.access(ROOT / script, os.X_OK)


def report(project, *days):
    done = subprocess.run(
        [sys.executable, CLASSROOM / "report.py", *days],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        encoding="utf-8",
    )
    key, _, value = done.stdout.strip().partition("=")
    return done, json.loads(base64.b64decode(value)) if key == "result" else None


def test_a_point_for_each_exercise(project, answer):
    """What passes has a point, what is wrong or not begun has none, and the log says why."""
    project.exercise.write_text(answer, encoding="utf-8")
    stub = project.root / "exercises" / DAYS[0].stub.name
    stub.write_text(RIGHT.read_text(encoding="utf-8") + "\n\n" + WRONG, encoding="utf-8")
    done, result = report(project, "1-3")
    points = {test["name"]: (test["status"], test["score"]) for test in result["tests"]}
    assert points["Day 1: softmax"] == ("fail", 0)
    assert points["Day 1: log_softmax"] == ("pass", 1)
    assert points["Day 2: attention"] == ("pass", 1)
    assert points["Day 3: padding_mask"] == ("fail", 0)
    assert result["max_score"] == len(points) == 6
    assert result["status"] == "fail"
    assert re.search(r"^Day 1: softmax: \w.*no_exponential", done.stderr, flags=re.MULTILINE)
    assert "Day 1: log_softmax: passed" in done.stderr
    assert "Day 3: padding_mask: `padding_mask` is yours to write." in done.stderr


def test_the_core_alone_has_the_point(project, loose):
    """Who passes a day has all its points, watertight or not."""
    project.exercise.write_text(loose, encoding="utf-8")
    _, result = report(project, "2")
    assert not project.check("2")["watertight"]
    assert result["status"] == "pass"
    assert [test["score"] for test in result["tests"]] == [result["max_score"]] == [1]


def test_a_day_that_is_not_there(project):
    """Nothing is reported where nothing could be asked for."""
    done, result = report(project, "99")
    assert done.returncode == 2
    assert result is None
    assert "There is no day 99" in done.stderr
    assert "Traceback" not in done.stderr


# --- Gradescope -----------------------------------------------------------------------------------

NO_NAMESPACES = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1"


@pytest.fixture
def autograder(tmp_path):
    """Gradescope's folders, with a right answer to day 1 handed in."""
    folder = tmp_path / "autograder"
    (folder / "submission").mkdir(parents=True)
    shutil.copy(RIGHT, folder / "submission" / DAYS[0].stub.name)
    shutil.copytree(GRADESCOPE, folder / "source")
    (folder / "venv" / "bin").mkdir(parents=True)
    python = folder / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return folder


def run_autograder(autograder, **environment):
    """Grade what is handed in: the command's words, and what Gradescope gets."""
    done = subprocess.run(
        [autograder / "source" / "run_autograder"],
        env={**os.environ, "AUTOGRADER": str(autograder), "DAYS": "1", **environment},
        capture_output=True,
        encoding="utf-8",
    )
    file = autograder / "results" / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    assert (done.returncode == 0) == (results is not None)
    return done.stdout + done.stderr, results


def test_behind_walls(autograder):
    """Where walls stand, they are used, whatever was allowed."""
    try:
        with open_sandbox():
            pass
    except NoSandbox as reason:
        pytest.skip(str(reason))
    _, results = run_autograder(autograder, ALLOW_UNSAFE="1")
    assert results["score"] == 1
    assert "extra_data" not in results
    assert all(test["visibility"] == "visible" for test in results["tests"])


@pytest.mark.slow
def test_without_walls(autograder, program):
    """Where bubblewrap cannot start nothing is graded, unless that is allowed, and then it is told."""
    environment = program("bwrap", NO_NAMESPACES)
    output, results = run_autograder(autograder, **environment)
    assert results is None
    assert "No permissions to create new namespace" in " ".join(output.replace("│", " ").split())
    _, results = run_autograder(autograder, ALLOW_UNSAFE="1", **environment)
    assert results["score"] == 1
    notice, *tests = results["tests"]
    assert notice["visibility"] == "hidden"  # for the instructor alone
    assert "score" not in notice
    assert "No permissions to create new namespace" in notice["output"]
    assert all(test["visibility"] == "visible" for test in tests)
    assert "namespace" in results["extra_data"]["without_walls"]
    assert "namespace" not in json.dumps(tests) + results["output"]


def test_another_failure_takes_no_walls_down(autograder):
    """What fails for another reason is not tried again without walls."""
    output, results = run_autograder(autograder, DAYS="99", ALLOW_UNSAFE="1")
    assert results is None
    assert "There is no day 99" in output
    assert "Without a sandbox" not in output


# --- The containers -------------------------------------------------------------------------------


DOCKERFILES = ("Dockerfile", "jupyterhub/Dockerfile")


def instructions(dockerfile):
    """What a Dockerfile says, an instruction and its words each."""
    text = (FOLDER / dockerfile).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def calls_of_pip(dockerfile, tmp_path, program, **arguments):
    """The index that each `pip install` of a build asks, given build arguments: run with another pip."""
    log = tmp_path / "log"
    environment = program(
        "pip",
        f'case "$*" in *--index-url*) i="${{4}}";; *) i="$PIP_INDEX_URL";; esac; echo "$i" >> {log}',
    )
    for name in ("apt-get", "rm", "useradd", "install", "grep", "cp", "chown"):
        program(name, "")
    environment = {**os.environ, **environment, **arguments}
    for instruction, words in instructions(dockerfile):
        if instruction == "ARG":
            name, _, default = words.partition("=")
            value = subprocess.run(
                ["bash", "-c", f'echo "{default}"'], env=environment, capture_output=True, text=True
            ).stdout.strip()
            if value:
                environment.setdefault(name, value)
        elif instruction == "RUN":
            subprocess.run(["bash", "-c", words], env=environment, check=True)
    return log.read_text().splitlines()


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_what_is_copied_is_there(dockerfile):
    """Each source of COPY exists."""
    sources = [words.split()[:-1] for name, words in instructions(dockerfile) if name == "COPY"]
    assert sources
    assert all((ROOT / source).exists() for copied in sources for source in copied)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_index_governs_every_call(dockerfile, tmp_path, program, monkeypatch):
    """Given an index, nothing comes from elsewhere; given none, torch alone comes from PyTorch's."""
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    own = calls_of_pip(dockerfile, tmp_path, program, PIP_INDEX_URL="file:///own")
    assert own == ["file:///own"] * 3
    (tmp_path / "log").unlink()
    assert calls_of_pip(dockerfile, tmp_path, program) == [
        "https://download.pytorch.org/whl/cpu",
        "",
        "",
    ]


def test_the_image_holds_nothing_that_git_ignores():
    """Environments, caches and one's own work stay out of the container."""
    ignored, left_out = (
        {line.strip("/").removeprefix("**/") for line in (ROOT / name).read_text().splitlines()}
        for name in (".gitignore", ".dockerignore")
    )
    assert ignored <= left_out
    assert ".git" in left_out
