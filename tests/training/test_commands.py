"""`course train` and what comes after it, as their users type them."""

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from course.cli import app
from tests.training.conftest import POETRY
from training.data import tasks
from training.data.downloads import File
from training.loop.run_folder import Run
from training.settings import CONFIGS

COPY = str(CONFIGS / "copy.yaml")
TINY = [
    "layers=1",
    "d_model=16",
    "heads=2",
    "d_ff=32",
    "batch=16",
    "validate_every=10",
    "save_every=10",
]
SMALL = [word for change in TINY for word in ("--set", change)]


@pytest.mark.slow
def test_a_model_is_trained_measured_and_used(course_here, tmp_path):
    done = course_here("train", "copy", "--steps", 30, "--seed", 3, *SMALL, "--out", "mine")
    assert done.exit_code == 0, done.output
    assert "run  mine" in done.stdout and "step 30/30" in done.stdout
    assert "test split    1,000 sequences" in done.stdout and "exact match" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colors
    run = Run(tmp_path / "mine")
    assert run.settings().seed == 3 and run.settings().steps == 30
    for path in (
        run.best,
        run.last,
        run.state,
        run.metrics,
        run.curves,
        run.attention,
        run.vocabulary,
    ):
        assert path.stat().st_size > 0

    measured = course_here("evaluate", "mine", "--json")
    results = json.loads(measured.stdout)
    assert {"loss", "perplexity", "exact_match", "bleu", "signature"} <= results.keys()
    assert (
        results["bleu"] is None
        and 0 <= results["exact_match"] <= 1
        and results["sequences"] == 1000
    )
    other = json.loads(course_here("evaluate", "mine", "--json", "--split", "validation").stdout)
    assert other["sequences"] == 500 and other["loss"] != results["loss"]

    # Of what Python takes for the end of a line, only a newline is one.
    (tmp_path / "lines").write_bytes("1 2 3\r\n4 5\u20286\x0c7\n".encode())
    from_file = course_here("translate", "mine", "lines").stdout.splitlines()
    assert [len(line.split()) for line in from_file] == [3, 4]
    assert course_here("translate", "mine", "1 2 3").stdout.splitlines() == from_file[:1]

    attention = course_here("attention", "mine", "1 2 3 4", "--out", "picture.png")
    assert attention.stdout.strip() == "picture.png" and (tmp_path / "picture.png").exists()

    again = course_here("train", "sorting", "--out", "mine")
    assert again.exit_code == 2 and "already contains a run" in again.stderr
    assert "course train copy --resume mine" in again.stderr
    fewer = course_here("train", "copy", "--resume", "mine", "--steps", 29)
    assert fewer.exit_code == 2 and run.settings().steps == 30
    assert "mine has done 30 steps: --steps must be at least 30, got 29" in fewer.stderr
    finished = course_here("train", "copy", "--resume", "mine")
    assert finished.exit_code == 0 and "Resuming from step 30" in finished.stdout
    further = course_here("train", "copy", "--resume", "mine", "--steps", 40)
    assert further.exit_code == 0 and "step 40/40" in further.stdout


def test_a_text_is_learned_and_gone_on_with(course_here, tmp_path):
    (tmp_path / "poem.txt").write_text(POETRY, encoding="utf-8")
    tiny = [*SMALL, "--set", "vocabulary=300", "--set", "context=16"]
    done = course_here("train", "text", "--data", "poem.txt", "--epochs", 1, *tiny, "--out", "mine")
    assert done.exit_code == 0, done.stderr
    assert "validation split" in done.stdout and "exact match" not in done.stdout
    steps = Run(tmp_path / "mine").settings().steps
    assert Run(tmp_path / "mine").settings().data == str(tmp_path / "poem.txt")
    assert 5 < steps < 100 and f"step {steps}/{steps}" in done.stdout
    how = [
        "--prompt",
        "7 green",
        "--tokens",
        20,
        "--top-k",
        5,
        "--top-p",
        0.9,
        "--temperature",
        0.8,
    ]
    first, same = (course_here("generate", "mine", *how, "--seed", 4) for _ in range(2))
    assert (
        first.exit_code == 0 and first.stdout == same.stdout and first.stdout.startswith("7 green")
    )
    measured = course_here("evaluate", "mine", "--json")
    results = json.loads(measured.stdout)
    assert results["exact_match"] is None and results["split"] == "validation"
    assert "Evaluating on the validation split" in measured.stderr
    assert "changed" not in measured.stderr
    (tmp_path / "poem.txt").write_text(POETRY.replace("green", "brown"), encoding="utf-8")
    assert "The data has changed since training" in course_here("evaluate", "mine", "--json").stderr


def test_the_data_are_found_where_training_found_them(tmp_path, monkeypatch):
    """A run remembers --data-dir; another one that is given wins; one that is gone is told of."""
    body = POETRY.encode()
    file = File("poem.txt", "http://nowhere.invalid/poem.txt", hashlib.sha256(body).hexdigest())
    monkeypatch.setattr(tasks, "TINY_SHAKESPEARE", file)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "poem.txt").write_bytes(body)

    def course(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    tiny = [*SMALL, "--set", "context=16", "--set", "vocabulary=300", "--steps", 5]
    done = course("train", "shakespeare", *tiny, "--data-dir", "data", "--out", "mine")
    assert done.exit_code == 0, done.output
    assert Run(tmp_path / "mine").settings().data_dir == str(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "other")  # wherever it is asked from
    assert course("evaluate", "../mine", "--json").exit_code == 0
    resumed = course("train", "shakespeare", "--resume", "../mine", "--steps", 6)
    assert resumed.exit_code == 0 and "step 6/6" in resumed.output
    shutil.rmtree(tmp_path / "data")
    gone = course("evaluate", "../mine")
    assert gone.exit_code == 2
    assert f"The data folder {tmp_path / 'data'} no longer exists" in gone.output
    assert course("evaluate", "../mine", "--json", "--data-dir", ".").exit_code == 0


def test_a_run_has_a_folder_of_its_own_by_default(course_here, tmp_path):
    done = course_here("train", "sorting", "--steps", 2, *SMALL)
    (folder,) = (tmp_path / "runs").iterdir()
    assert (
        re.fullmatch(r"sorting-\d{8}-\d{6}", folder.name) and f"runs/{folder.name}" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["copi"], "got 'copi' (did you mean 'copy'?)"),
        (
            ["copy", "--set", "foo=1"],
            "There is no setting 'foo' (did you mean 'factor'?): training/settings.py explains",
        ),
        (["copy", "--set", "layrs=2"], "There is no setting 'layrs' (did you mean 'layers'?)"),
        (["copy", "--set", "dropout=2"], "dropout must be from 0 to 0.999, got 2.0"),
        (["copy", "--config", "none.yaml"], "none.yaml cannot be read"),
        (["configs/copy.yaml"], "the shipped settings are in training/configs/"),
        ([COPY, "--config", "mine.yaml"], "--config and --resume need a TASK"),
        ([COPY, "--set", "dropout=2"], "dropout must be from 0 to 0.999, got 2.0"),
        (["copy", "--device", "cuda:7"], "device must be one of this machine's, cpu, got 'cuda:7'"),
        (["copy", "--device", "gpu"], "got 'gpu'"),
        (["copy", "--resume", "nowhere"], "nowhere contains no run"),
        (["copy", "--epochs", "2"], "has no epochs, because its data is generated: use --steps"),
        (["copy", "--steps", "1", "--epochs", "2"], "cannot be combined: use one"),
        (["text"], "--data FILE"),
        (["text", "--data", "none.txt"], "none.txt cannot be read"),
        (["translation", "--data", "multi31k"], "got 'multi31k', which does not exist"),
        (["translation", "--source", "de"], "toy has the languages en, fr, got 'de'"),
        (["copy", "--devices", "2", "--set", "norm=non"], "norm must be one of post, pre"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_trained_is_refused_in_words(course_here, tmp_path, arguments, words):
    done = course_here("train", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*"))  # nothing is in the way of the next try


def test_a_folder_with_something_else_is_left_alone(course_here, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("words")
    done = course_here("train", "copy", "--out", "mine")
    assert done.exit_code == 2 and "contains something else" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis"]


@pytest.mark.slow
def test_a_run_of_another_task_is_not_gone_on_with(course_here):
    course_here("train", "sorting", "--steps", 2, *SMALL, "--out", "mine")
    done = course_here("train", "copy", "--resume", "mine")
    assert done.exit_code == 2 and "is a run of 'sorting'" in done.stderr
    done = course_here("train", "sorting", "--resume", "mine", "--set", "d_model=32")
    assert done.exit_code == 2 and "keeps its settings" in done.stderr


def test_a_loss_that_is_no_number_ends_with_1(course_here, tmp_path):
    done = course_here(
        "train", "copy", "--steps", 60, *SMALL, "--set", "factor=1e30", "--out", "mine"
    )
    assert done.exit_code == 1
    assert "Nothing was saved yet" in done.stdout and "--set factor=5e+29" in done.stdout
    assert re.search(r"In step \d+ the (loss|gradient's norm) is (nan|inf)", done.stdout)
    assert not (tmp_path / "mine").exists()  # it would be in the way of the next try
    assert "Traceback" not in done.stderr


def _wait_for(file, running):
    while not file.exists():
        assert running.poll() is None, "it ended too early"
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    arguments = ["train", "copy", "--steps", "100000", *SMALL, "--out", "mine"]
    running = subprocess.Popen(
        [sys.executable, "-m", "course.cli", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    _wait_for(tmp_path / "mine" / "last.state", running)
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate()
    assert running.returncode == 130
    step = int(re.search(r"Stopped after step (\d+), which is saved", output)[1])
    assert "To resume: course train copy --resume mine" in output
    from training.checkpoints import read_state

    assert read_state(tmp_path / "mine" / "last.state").facts["progress"]["step"] == step


@pytest.mark.slow
def test_ctrl_c_while_it_is_measured_says_how_to_measure(tmp_path):
    arguments = ["train", "copy", "--steps", "2", *SMALL, "--out", "my run", "--device", "cpu"]
    running = subprocess.Popen(
        [sys.executable, "-u", "-m", "course.cli", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = ""
    while "Evaluating on the test split" not in output:
        output += running.stdout.readline()
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate()
    assert running.returncode == 130 and "Traceback" not in output
    assert "Training is complete; the evaluation was interrupted" in output
    assert "course evaluate 'my run' --device cpu" in output


@pytest.mark.slow
def test_ctrl_c_ends_two_processes_in_a_sentence(tmp_path):
    how = [*SMALL, "--out", "my run", "--devices", "2", "--device", "cpu"]
    running = subprocess.Popen(
        [sys.executable, "-m", "course.cli", "train", "copy", "--steps", "100000", *how],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    _wait_for(tmp_path / "my run" / "last.state", running)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    output, _ = running.communicate()
    assert running.returncode == 130
    last = output.splitlines()[-1]
    assert re.match(r"Stopped after step \d+, which is saved. To resume: course train copy", last)
    assert last.endswith("--resume 'my run' --devices 2 --device cpu")
    assert "Traceback" not in output and "torch" not in output


@pytest.mark.slow
def test_two_processes_are_started_by_the_command(course, course_here, tmp_path):
    how = ["--steps", 20, "--set", "dropout=0.0", *SMALL]
    course_here("train", "copy", *how, "--out", "one")
    two = course("train", "copy", *how, "--out", "two", "--devices", 2)
    assert two.returncode == 0, two.stderr
    assert "cpu × 2 (DDP)" in two.stdout
    losses = [
        [
            float(line.split(",")[2])
            for line in Run(tmp_path / name).metrics.read_text().splitlines()[1:]
        ]
        for name in ("one", "two")
    ]
    assert len(losses[0]) == 2 and losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.slow
def test_in_a_terminal_it_is_shown_live(tmp_path):
    main, other = pty.openpty()
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "course.cli",
            "train",
            "copy",
            "--steps",
            "30",
            *SMALL,
            "--out",
            "mine",
        ],
        cwd=tmp_path,
        stdout=other,
        stderr=other,
        env=os.environ | {"COLUMNS": "100", "TERM": "xterm"},
    )
    os.close(other)
    shown = b""
    while True:
        try:
            shown += os.read(main, 4096)
        except OSError:
            break
    assert running.wait() == 0
    text = shown.decode()
    for words in ("of 30", "left", "learning rate", "tokens/s", "best validation", "exact match"):
        assert words in text
    assert "step 10/30" not in text  # plain lines are for those without a terminal


def test_one_s_own_parts_are_trained(course_here, tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "day10_feed_forward_and_embeddings.py").write_text(
        "from implementation import *\n"
        "from torch import nn\n"
        "class PositionwiseFeedForward(nn.Module):\n"
        "    def __init__(self, d_model, d_ff, dropout=0.1):\n"
        "        super().__init__()\n"
        "        print('mine is used')\n"
        "        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)\n"
        "    def forward(self, x):\n"
        "        return self.w_2(self.w_1(x).relu())\n",
        encoding="utf-8",
    )
    done = course_here(
        "train", "copy", "--steps", 5, *SMALL, "--answers", "answers", "--out", "mine"
    )
    assert done.exit_code == 0, done.output
    assert "mine is used" in done.stdout
    assert "Yours (1): PositionwiseFeedForward" in done.stdout
    assert Run(tmp_path / "mine").settings().fused is False
    assert "mine is used" in course_here("evaluate", "mine").stdout
    (folder / "day14_make_model.py").write_text(
        "def make_model(*sizes, **more):\n    raise KeyError('sizes')\n", encoding="utf-8"
    )
    wrong = course_here(
        "train", "copy", "--steps", 5, *SMALL, "--answers", "answers", "--out", "other"
    )
    assert wrong.exit_code == 2 and "do not make a model: KeyError: 'sizes'" in wrong.stderr
    assert "line 2, in make_model: raise KeyError('sizes')" in wrong.stderr
    assert "course check 14 --answers" in wrong.stderr and "Traceback" not in wrong.stderr
    assert not (tmp_path / "other").exists()
