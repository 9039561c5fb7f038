"""`course assemble`: whose parts are put together, what they can do, and what is said where they fail."""

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from typer.testing import CliRunner

import implementation
from course.assembly import assemble_llama, graduation
from course.assembly.answer_parts import part_days, put_together
from course.assembly.copy_task import HELD_OUT
from course.cli import app
from course.curriculum import ROOT
from tests.training.conftest import POETRY
from training.data import tasks
from training.data.downloads import File
from training.models import onnx_models

LAYER_NORM = """
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        {body}
"""
RIGHT = "return torch.nn.functional.layer_norm(x, x.shape[-1:], self.gain, self.bias, self.eps)"


@pytest.fixture
def answers(tmp_path):
    """A folder in which day 11's LayerNorm is the learner's, and nothing else is begun."""

    def write(body):
        source = LAYER_NORM.format(body=body)
        (tmp_path / "day11_norm_and_residual.py").write_text(source, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def reference_restored(monkeypatch):
    """What is put together takes the reference's place among the modules, until the test ends."""
    monkeypatch.setitem(sys.modules, "implementation", implementation)


def exercises():
    return [name for day in part_days() for name in day.exercises]


def test_every_part_is_the_learners_or_is_named(answers, reference_restored):
    """What the learner has begun is theirs, the rest is the reference's, and all of it is listed."""
    folder = answers(RIGHT)
    stem = "day11_norm_and_residual"
    parts, own, filled = put_together({stem: folder / f"{stem}.py"})
    assert own == ["LayerNorm"]
    assert set(own) | {name for names in filled.values() for name in names} == set(exercises())
    assert {"SublayerConnection", "clones"} <= set(filled["not begun"])
    assert "attention" in filled["no file"]
    model = parts.make_model(5, 5, n=1, d_model=8, d_ff=8, h=2)
    norms = [module for module in model.modules() if type(module).__name__ == "LayerNorm"]
    assert len(norms) == 5
    assert all(type(norm) is parts.LayerNorm for norm in norms)
    assert "day11" in parts.LayerNorm.__init__.__code__.co_filename


def test_a_later_file_finds_the_learners_earlier_parts(answers, reference_restored):
    """`from implementation import LayerNorm` gives the learner's own LayerNorm."""
    folder = answers(RIGHT)
    later = "from implementation import LayerNorm\n\n\nclass Encoder(LayerNorm):\n    pass\n"
    (folder / "day12_encoder.py").write_text(later, encoding="utf-8")
    files = {path.stem: path for path in folder.glob("day*.py")}
    parts, own, _ = put_together(files)
    assert own == ["LayerNorm", "Encoder"]
    assert parts.Encoder.__mro__[1] is parts.LayerNorm


def test_what_is_imported_is_not_the_learners(answers, reference_restored):
    """Every name of the reference is there after a star; none of them is claimed."""
    folder = answers(RIGHT)
    path = folder / "day11_norm_and_residual.py"
    path.write_text(f"from implementation import *\n{path.read_text()}")
    _, own, filled = put_together({path.stem: path})
    assert own == ["LayerNorm"]
    assert {"SublayerConnection", "clones"} <= set(filled["imported from it"])


def test_a_file_that_cannot_be_loaded_is_named(answers, reference_restored):
    """Its exercises are the reference's, and the reason is said."""
    folder = answers(RIGHT)
    path = folder / "day11_norm_and_residual.py"
    path.write_text(path.read_text() + "\nthis_is_no_name\n", encoding="utf-8")
    _, own, filled = put_together({path.stem: path})
    assert own == []
    reason = next(reason for reason, names in filled.items() if "LayerNorm" in names)
    assert path.name in reason
    assert "this_is_no_name" in reason


@pytest.mark.slow
def test_the_copy_task_is_learned(project, answers):
    """A right part of the learner's among the reference's: all is copied, exit 0, the last line says so."""
    done = project.course("assemble", "--answers", str(answers(RIGHT)))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"copy task: 100.0% of {HELD_OUT} held-out sequences exact"
    assert lines[0].startswith("✘ Day 11 · Norm and residual: ")  # of which only a part is begun
    assert any(line.startswith("step 20: loss ") for line in lines)
    assert re.search(r"^Yours \(1\): LayerNorm$", done.stdout, re.M)
    assert (project.root / "my" / "assembled.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_part_that_raises_is_told_of(project, answers):
    """The learner's own line is shown, nothing is learned, exit 1."""
    done = project.course("assemble", "--answers", str(answers("return x + self.gian")))
    assert done.returncode == 1
    assert done.stdout.startswith("✘ Day 11 · Norm and residual: ")
    assert "`course check 11` tells more" in done.stdout
    assert "self.gian" in done.stdout
    assert "AttributeError" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("copy task: 0.0% of")


@pytest.mark.slow
def test_a_part_that_ends_the_process_is_told_of(project, answers):
    """So is one that takes the whole process with it."""
    done = project.course("assemble", "--answers", str(answers("import os; os._exit(3)")))
    assert done.returncode == 1
    assert "exit code 3" in done.stderr


def test_all_exercises_of_the_second_part_are_parts():
    """Days 8 to 22 are what is put together."""
    assert [day.number for day in part_days()] == list(range(8, 23))
    assert (ROOT / "implementation.py").exists()


def test_positions_in_the_picture_are_whole(tmp_path, monkeypatch):
    """No token is at 2.5."""
    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    graduation.draw([np.full((1, 9, 9), 1 / 9)], tmp_path / "picture.png")
    plot = figures[0].axes[0]
    assert all(float(tick).is_integer() for tick in [*plot.get_xticks(), *plot.get_yticks()])


# --- LLaMA ----------------------------------------------------------------------------------------


RMS_NORM = """
import torch

class RMSNorm(torch.nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.gain, self.eps = torch.nn.Parameter(torch.ones(features)), eps

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.gain, self.eps)
"""


@pytest.fixture
def norms(tmp_path):
    """A folder in which day 28's RMSNorm is the learner's, and nothing else is begun."""
    (tmp_path / "day28_norms_and_activations.py").write_text(RMS_NORM, encoding="utf-8")
    return tmp_path


@pytest.fixture
def shakespeare(tmp_path, monkeypatch):
    """A folder with a text in Shakespeare's place, and a working folder of its own."""
    body = POETRY.encode()
    file = File("poem.txt", "http://nowhere.invalid/poem.txt", hashlib.sha256(body).hexdigest())
    monkeypatch.setattr(tasks, "TINY_SHAKESPEARE", file)
    monkeypatch.setattr(assemble_llama, "PROMPT", "7 green")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "poem.txt").write_bytes(body)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def assembled(*arguments):
    return CliRunner().invoke(app, ["assemble", *map(str, arguments)])


@pytest.mark.slow
def test_a_llama_is_trained_quantized_exported_and_heard(norms, shakespeare):
    """The learner's part is in it, what of it fails is told first, and what they leave can be used."""
    done = assembled("llama", "--answers", norms, "--data-dir", shakespeare, "--steps", 3)
    assert done.exit_code == 0, done.output
    stations = (
        "Day 28 · Norms and activations",
        "reads Shakespeare",
        "a byte each",
        "ONNX",
        "It speaks",
        "7 green",
        "course chat --pretrained smollm2-135m --answers",
    )
    places = [done.output.index(station) for station in stations]
    assert places == sorted(places)
    assert "Yours (1): RMSNorm" in done.output
    run, small = sorted(Path("runs").iterdir())
    assert small.name == f"{run.name}-int8" and (run / "llama.onnx").stat().st_size > 1_000_000
    how = ["--prompt", "7 green", "--tokens", "8", "--temperature", "0"]
    results = [CliRunner().invoke(app, ["generate", str(model), *how]) for model in (run, small)]
    assert all(result.exit_code == 0 and result.output.startswith("7 green") for result in results)


@pytest.mark.slow
def test_a_llama_goes_without_onnx_where_it_is_not_installed(norms, shakespeare, monkeypatch):
    monkeypatch.setattr(onnx_models, "installed", lambda: False)
    done = assembled("llama", "--answers", norms, "--data-dir", shakespeare, "--steps", 2)
    assert done.exit_code == 0, done.output
    assert "pip install onnx onnxscript onnxruntime" in done.output.replace("\n", " ")
    assert not list(Path("runs").glob("*/*.onnx")) and "7 green" in done.output


def test_a_llama_of_nobody_s_parts_is_none(shakespeare, tmp_path):
    (tmp_path / "empty").mkdir()
    done = assembled("llama", "--answers", tmp_path / "empty", "--data-dir", shakespeare)
    assert done.exit_code == 2 and "No part of this model is yours" in done.output
    assert not list(tmp_path.glob("runs/*"))


def test_what_is_for_the_llama_alone_is_refused_elsewhere(shakespeare):
    done = assembled("--steps", 3)
    assert done.exit_code == 2 and "--steps are for llama" in done.output.replace("\n", " ")
    assert assembled("alpaca").exit_code == 2
