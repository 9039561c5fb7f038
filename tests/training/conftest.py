"""What the tests of training share: small runs, in this process and in others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from course.cli import app
from training.data import tasks
from training.devices import ProcessContext
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer
from training.settings import OF_LANGUAGE, Settings

CPU = ProcessContext(torch.device("cpu"))
QUIET = Console(quiet=True)
SMALL = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
POETRY = "\n".join(f"{n} green bottles hanging on the wall, said Zoë {n * n}." for n in range(200))


def small(task: str = "copy", **changes: object) -> Settings:
    """Settings of a run that takes a second."""
    usual = {
        "dropout": 0.1,
        "batch": 8,
        "steps": 12,
        "warmup": 5,
        "validate_every": 5,
        "save_every": 4,
        "smoothing": 0.0 if task in OF_LANGUAGE else 0.1,
    }
    if task == "translation":
        usual |= {"data": "toy", "vocabulary": 400, "batch_tokens": 400}
    return Settings(task=task, **(SMALL | usual | changes))


@pytest.fixture
def poem(tmp_path):
    """A text to learn from."""
    path = tmp_path / "poem.txt"
    path.write_text(POETRY, encoding="utf-8")
    return path


@pytest.fixture
def trainer(tmp_path):
    """Make a trainer of a new run, or, with `folder`, of one that is there."""

    def make(settings: Settings, folder: Path | None = None, **how: object) -> Trainer:
        run = (
            Run(folder)
            if folder
            else Run.begin(tmp_path / f"run{len(list(tmp_path.iterdir()))}", settings)
        )
        task = tasks.load(settings, QUIET, run.languages())
        if run.languages() is None:
            run.keep_languages(task.languages)
        return Trainer(settings, task, run, CPU, **how)

    return make


@pytest.fixture
def course_here(tmp_path, monkeypatch):
    """Run the `course` command in that folder and in this process, which has imported torch already."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def course(tmp_path):
    """Run the `course` command in a folder and a process of its own, as its users do."""

    def run(*arguments: object, **how: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "course.cli", *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COURSE_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, **how
        )

    return run
