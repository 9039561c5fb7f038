"""What a newcomer meets first: `make start`, a devcontainer, Colab, and a server in a class.

Neither a network nor a service is needed: programs that would use one are replaced by some that write down
how they were called.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from packaging.requirements import Requirement

from course.cli import COMMANDS, EXTRAS
from course.curriculum import DAYS, ROOT
from course.references.lessons import USE
from tests.notebooks.kernels import PortlessKernelManager

COLAB = ROOT / "integrations" / "colab"
FIRST_CELL = (COLAB / "first_cell.py").read_text(encoding="utf-8")
RIGHT = ROOT / "tests" / "days" / "accepted" / DAYS[0].stem / "log_first.py"
TORCH = next(
    line for line in (ROOT / "requirements.txt").read_text().splitlines() if line[:6] == "torch="
)

REST = r"--constraint constraints.txt --editable \.\[train,explore,grade\] "


def test_pins_are_of_what_the_project_asks_for():
    """A learner's packages are pinned in one file, the extras' in the other, each within its range."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    theirs = [
        requirement for extra in extras.values() for requirement in extra if "[" not in requirement
    ]
    for file, requirements in (
        ("requirements.txt", project["dependencies"]),
        ("constraints.txt", theirs),
    ):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        pins = {
            requirement.name: requirement
            for requirement in map(Requirement, (x for x in lines if x[0] not in "#-"))
        }
        ranges = {requirement.name: requirement for requirement in map(Requirement, requirements)}
        assert pins.keys() == ranges.keys()
        for name, pin in pins.items():
            [version] = pin.specifier
            assert version.operator == "==" and version.version in ranges[name].specifier
            assert pin.marker == ranges[name].marker
    for extra, packages in EXTRAS.values():
        assert {Requirement(requirement).name for requirement in extras[extra]} >= set(packages)


# --- make start -----------------------------------------------------------------------------------

# Stands for Python, for pip, uv and course in the environment that it makes, and for a uv of one's own.
STANDS_IN = """#!/bin/sh
name=$(basename "$0")
case "$*" in
  "-m venv .venv")
    mkdir -p .venv/bin
    for program in python pip course; do cp "$0" .venv/bin/$program; done ;;
  "config get global.index-url") [ -z "$INDEX_OF_PIP" ] || echo "$INDEX_OF_PIP"; exit ;;
  *" uv=="*) [ -n "$NO_UV" ] || cp "$0" .venv/bin/uv ;;
esac
echo "$name $* | $UV_DEFAULT_INDEX" >> calls
case "$name $*" in $FAILS) echo "no route to the index" >&2; exit 1 ;; esac
"""


@pytest.fixture
def make_start(tmp_path):
    """Runs `make start` with programs that write down their calls: how it ended, and the calls."""
    for name in ("Makefile", "requirements.txt", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text(STANDS_IN)
    python.chmod(0o755)

    def make_start(*arguments, own_uv=False, **environment):
        if own_uv:
            shutil.copy(python, tmp_path / "bin" / "uv")
        inherited = ("PIP_", "UV_", "MAKE", "TORCH_")  # an outer make hands its own flags on
        cleaned = {k: v for k, v in os.environ.items() if not k.startswith(inherited)}
        path = f"{python.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
        done = subprocess.run(
            ["make", "start", *arguments],
            cwd=tmp_path,
            env=cleaned | {"PATH": path, "FAILS": "nothing"} | environment,
            capture_output=True,
            encoding="utf-8",
        )
        return done, (tmp_path / "calls").read_text().splitlines()

    return make_start


def called(calls, pattern):
    """Where in the calls the one stands that fits a pattern."""
    [index] = [index for index, call in enumerate(calls) if re.search(pattern, call)]
    return index


def test_pip_takes_torch_first_and_uv_the_rest(make_start):
    """In this order, as torch would come with all of CUDA where another package asks for it."""
    done, calls = make_start()
    assert done.returncode == 0, done.stderr
    torch = called(calls, rf"^python -m pip install .*{re.escape(TORCH)}")
    brought = called(calls, r"^python -m pip install .* uv==[\d.]+ ")
    rest = called(calls, rf"^uv pip install .*--python .venv/bin/python .*{REST}")
    assert torch < brought < rest < called(calls, "^course check 1 ")
    assert [line[:6] for line in done.stdout.splitlines() if line[1:6] == " of 3"] == [
        f"{step} of 3" for step in "123"
    ]


def test_a_second_time_sets_nothing_up(make_start):
    """What is there is used."""
    make_start()
    _, calls = make_start()
    assert len([call for call in calls if " venv " in call]) == 1
    assert len([call for call in calls if call.startswith("course check 1 ")]) == 2


def test_a_uv_of_ones_own(make_start):
    """It is used, and no other fetched."""
    done, calls = make_start(own_uv=True)
    assert done.returncode == 0
    assert not [call for call in calls if " uv==" in call]
    called(calls, rf"^uv pip install .*{REST}")


@pytest.mark.parametrize("trouble", [{"NO_UV": "1"}, {"FAILS": "uv *"}])
def test_pip_does_what_uv_cannot(make_start, trouble):
    """Where uv cannot be had, or fails: the same packages, and a word about it."""
    done, calls = make_start(**trouble)
    assert done.returncode == 0, done.stderr
    called(calls, rf"^python -m pip install .*{REST}")
    assert "pip does it" in done.stdout


@pytest.mark.parametrize("fails", [f"*{TORCH}*", "*--editable .*"])
def test_what_cannot_be_installed_stops_it(make_start, fails):
    """With the installer's own words; and the next `make start` tries again."""
    done, calls = make_start(FAILS=fails)
    assert done.returncode != 0
    assert "no route to the index" in done.stderr
    assert not [call for call in calls if call.startswith("course ")]
    again, _ = make_start()
    assert again.returncode == 0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
        ({"INDEX_OF_PIP": "https://file"}, "https://file"),
        ({"INDEX_OF_PIP": "https://file", "PIP_INDEX_URL": "https://pip"}, "https://pip"),
        ({"PIP_INDEX_URL": "https://pip", "UV_DEFAULT_INDEX": "https://uv"}, "https://uv"),
    ],
)
def test_uv_asks_the_index_that_was_set(make_start, settings, expected):
    """For uv, or else for pip, by a variable or in its file."""
    _, calls = make_start(**settings)
    indexes = {call.partition(" | ")[2] for call in calls if call.startswith("uv pip install")}
    assert indexes == {expected}


CPU_BUILD = f"--index-url=https://download.pytorch.org/whl/cpu .*{re.escape(TORCH)}"


def torch_calls(calls):
    """What pip was asked for torch, in order: the CPU's build, or the usual one."""
    return [
        "cpu" if re.search(CPU_BUILD, call) else "usual" for call in calls if f" {TORCH}" in call
    ]


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("nvidia-smi", path="/usr/bin:/bin") is not None,
    reason="on Linux without an NVIDIA driver",
)
@pytest.mark.parametrize(
    ("driver", "fails", "expected"),
    [
        (False, "nothing", ["cpu"]),
        (False, "*whl/cpu*", ["cpu", "usual"]),
        (True, "nothing", ["usual"]),
    ],
)
def test_without_a_driver_torch_is_the_cpus(make_start, tmp_path, driver, fails, expected):
    """It is tried once, and the usual build comes where that index cannot be reached."""
    if driver:
        (tmp_path / "bin" / "nvidia-smi").symlink_to(tmp_path / "bin" / "python3")
    done, calls = make_start(FAILS=fails)
    assert done.returncode == 0, done.stderr
    assert torch_calls(calls) == expected


def test_an_index_for_torch_alone(make_start):
    """Asked for nothing else."""
    _, calls = make_start("TORCH_INDEX_URL=https://cpu")
    assert [call for call in calls if "https://cpu" in call] == [
        calls[called(calls, re.escape(TORCH))]
    ]


# --- The devcontainer -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def devcontainer():
    """Its settings; comments have lines of their own."""
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def test_the_devcontainer_sets_up_as_anybody_does(devcontainer, make_start):
    """By `make start`, with torch for the CPU."""
    start, _, lesson = devcontainer["onCreateCommand"].partition(" && ")
    make, target, *variables = shlex.split(start)
    assert (make, target) == ("make", "start")
    _, calls = make_start(*variables)
    assert "https://download.pytorch.org/whl/cpu" in calls[called(calls, re.escape(TORCH))]
    assert ".venv/bin/course lesson 1" in lesson


def test_the_devcontainer_opens_day_1(devcontainer, project):
    """The copy of its lesson that the set-up made, with the set-up's Python."""
    assert project.course("lesson", "1", COURSE_NO_BROWSER="1").returncode == 0
    opened = devcontainer["customizations"]["codespaces"]["openFiles"]
    assert opened == [f"my/lessons/{DAYS[0].lesson.name}"]
    assert (project.root / opened[0]).exists()
    settings = devcontainer["customizations"]["vscode"]["settings"]
    python = settings["python.defaultInterpreterPath"]
    assert python == "${containerWorkspaceFolder}/.venv/bin/python"


def test_vs_code_runs_commands_that_there_are():
    """Its tasks, and in the Test Explorer the checks of the learner's own exercises."""
    tasks = json.loads((ROOT / ".vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    assert {task["args"][0] for task in tasks} == {"watch", "hint", "recall"} <= set(COMMANDS)
    settings = json.loads((ROOT / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    assert settings["python.testing.pytestArgs"] == ["tests/days", "--answers", "exercises"]


# --- Colab ----------------------------------------------------------------------------------------


@pytest.fixture
def published(project):
    """The address of a repository with the course in it."""
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "The course"]):
        subprocess.run([*git, *command], cwd=project.root, check=True)
    return project.root.as_uri()


def first_cell(folder, address):
    """The first cell, for a course at that address and not for Colab's folder."""
    text = FIRST_CELL.replace("https://github.com/OWNER/NAME", address)
    assert text != FIRST_CELL
    return text.replace('"/content/course"', repr(str(folder / "course")))


def run_alone(cell):
    """Run a cell in a Python of its own, which finds no other copy of the course."""
    return subprocess.run(
        [sys.executable, "-c", cell], cwd="/", capture_output=True, encoding="utf-8"
    )


def test_check_works_in_colab(tmp_path, published):
    """After the first cell, run twice, a right answer passes and a wrong one is told what is wrong."""
    set_up = first_cell(tmp_path, published)
    where = "import course\nassert course.__file__.startswith(str(COURSE)), course.__file__"
    wrong = (
        "import numpy as np\n\ndef softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum()"
    )
    ask = "from course import check\ncheck(softmax)"
    right = RIGHT.read_text(encoding="utf-8")
    use = (
        "os.environ.pop('COURSE_YOURS', None)\n"  # which this kernel has for lessons
        "from course import yours\nsoftmax = yours('softmax')\nlog_softmax = yours('log_softmax')"
    )
    cells = [set_up, set_up, where, right, ask, wrong, ask, use]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    options = {"timeout": None, "kernel_manager_class": PortlessKernelManager}
    NotebookClient(notebook, **options).execute(cwd=str(tmp_path))
    outputs = [
        "".join(
            part.get("text") or part.get("data", {}).get("text/plain", "") for part in cell.outputs
        )
        for cell in notebook.cells
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("Ready, with numpy==")
    assert "16 of 16 checks pass" in outputs[4]
    assert "✘ softmax\n  overflows_over_everything" in outputs[6]
    assert "softmax: the reference's, because a core check fails: " in outputs[7]
    assert "log_softmax: yours, from your cell." in outputs[7]


@pytest.mark.slow
def test_colab_keeps_its_own_numpy_and_torch(tmp_path, published):
    """What is missing is asked for together with the very NumPy and torch that are there, by version."""
    log, pip = tmp_path / "log", tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\necho "$@" > "{log}"\n')
    pip.chmod(0o755)
    cell = first_cell(tmp_path, published).replace("sys.executable", repr(str(pip)))
    done = run_alone(cell.replace('"jaxtyping"', '"not_there", "jaxtyping"'))
    assert done.returncode == 0, done.stderr
    _, _, packages = log.read_text().partition("install --quiet ")
    missing, numpy, torch = packages.split()
    assert missing == "not_there"
    assert re.fullmatch(r"numpy==\S+", numpy)
    assert re.fullmatch(r"torch==\S+", torch)


@pytest.mark.slow
def test_colab_says_what_failed(tmp_path, published):
    """A course that is not there, and a package that cannot be had: by name, in the last lines."""
    done = run_alone(first_cell(tmp_path, "file:///nowhere"))
    assert (
        "The course could not be fetched from file:///nowhere. Is there a network?" in done.stderr
    )
    cell = first_cell(tmp_path, published).replace('"jaxtyping"', '"not_there"')
    done = run_alone("import os\nos.environ['PIP_NO_INDEX'] = '1'\n" + cell)
    assert "RuntimeError: not_there could not be installed. Is there a network?" in done.stderr


@pytest.mark.slow
def test_a_clone_that_was_cut_off_is_made_again(tmp_path, published):
    """Half a folder is no course."""
    (tmp_path / "course" / ".git").mkdir(parents=True)
    assert run_alone(first_cell(tmp_path, published)).returncode == 0


def test_the_first_cell_installs_what_is_pinned(tmp_path):
    """All that it may install is something that the course asks for."""
    needed = re.search(r"NEEDED = \((.*)\)", FIRST_CELL)[1]
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert set(re.findall(r"\w+", needed)) <= set(pinned)


def write_notebooks(*arguments):
    return subprocess.run(
        [sys.executable, COLAB / "notebooks.py", *arguments], capture_output=True, encoding="utf-8"
    )


def test_lessons_for_colab(tmp_path):
    """Each is set up by its first cell, has no outputs, and has its exercise and the check of it."""
    assert write_notebooks("ada/course", tmp_path).returncode == 0
    notebooks = {path.stem: path for path in (tmp_path / "lessons").iterdir()}
    assert list(notebooks) and set(notebooks) == {day.stem for day in DAYS}
    for day in DAYS:
        notebook = nbformat.read(notebooks[day.stem], 4)
        nbformat.validate(notebook)
        set_up, *rest = notebook.cells
        at = next(n for n, cell in enumerate(rest) if cell.id == "exercise")
        exercise, ask, *after = rest[at:]
        lesson = rest[:at] + after
        assert [USE in cell.metadata.get("tags", ()) for cell in after[:1]] == [True] * bool(after)
        assert 'REPOSITORY = "https://github.com/ada/course"' in set_up.source
        assert [cell.source for cell in lesson] == [
            cell.source for cell in nbformat.read(day.lesson, 4).cells
        ]
        defined = re.findall(r"^(?:def|class) (\w+)", exercise.source, re.MULTILINE)
        assert set(day.exercises) <= set(defined)
        assert "raise NotImplementedError" in exercise.source
        assert f"check({', '.join(day.exercises)}, day={day.number})" in ask.source
        assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.parametrize("repository", ["course", "https://github.com/ada/course", "ada/course/"])
def test_a_place_that_is_none(tmp_path, repository):
    """Is refused, and an example given."""
    done = write_notebooks(repository, tmp_path)
    assert done.returncode == 1
    assert f"{repository!r} is no place on GitHub: OWNER/NAME is wanted" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_branch_for_colab(tmp_path, published, project):
    """The workflow's own commands leave a branch with the lessons of Colab and nothing else."""
    shutil.copytree(ROOT / "integrations", project.root / "integrations")
    workflow = yaml.safe_load((COLAB / "colab.yml").read_text(encoding="utf-8"))
    steps = [step["run"] for step in workflow["jobs"]["publish"]["steps"] if "run" in step]
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "hub"], check=True)
    environment = project.environment(
        GITHUB_REPOSITORY="ada/course",
        GITHUB_SHA="1234567",
        RUNNER_TEMP=str(tmp_path / "runner"),
        PATH=os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ["PATH"]]
        ),  # its `python`
    )
    origin = ["git", "remote", "add", "origin", str(tmp_path / "hub")]
    subprocess.run(origin, cwd=project.root, check=True)
    for step in steps:
        subprocess.run(["bash", "-ec", step], cwd=project.root, env=environment, check=True)
    listed = ["git", "-C", str(tmp_path / "hub"), "ls-tree", "-r", "--name-only", "colab"]
    files = subprocess.run(listed, capture_output=True, encoding="utf-8", check=True).stdout.split()
    assert files == [f"lessons/{day.lesson.name}" for day in DAYS]


# --- JupyterHub -----------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """Starts a server of the image, in a home of its own: what its command printed."""
    text = (ROOT / "integrations" / "jupyterhub" / "Dockerfile").read_text(encoding="utf-8")
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])
    course, home = tmp_path / "opt" / "course", tmp_path / "home"
    course.mkdir(parents=True)
    home.mkdir()
    (course / "exercise.py").write_text("a stub\n")
    entry = [word.replace("/opt/course", str(course)) for word in entry]

    def start(*command):
        return subprocess.run(
            [*entry, *command],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout

    return start


def test_the_first_start_copies_the_course(start, tmp_path):
    """Whole, and what was asked for runs in the copy, with its arguments as they are."""
    assert start("cat", "exercise.py") == "a stub\n"
    assert start("pwd") == f"{tmp_path}/home/course\n"
    assert start("printf", "%s|", "two words", "$HOME") == "two words|$HOME|"


def test_a_later_start_leaves_the_copy_alone(start, tmp_path):
    """What a learner wrote stays, whatever the image holds."""
    start("true")
    copy = tmp_path / "home" / "course" / "exercise.py"
    copy.write_text("mine\n")
    (tmp_path / "opt" / "course" / "exercise.py").write_text("another stub\n")
    assert start("cat", "exercise.py") == "mine\n"


def test_a_copy_that_was_cut_off_is_made_again(start, tmp_path):
    """Half a course is not taken for one."""
    (tmp_path / "home" / ".course-new").mkdir()
    (tmp_path / "home" / ".course-new" / "half").touch()
    start("true")
    assert [path.name for path in (tmp_path / "home" / "course").iterdir()] == ["exercise.py"]
    assert not (tmp_path / "home" / ".course-new").exists()
