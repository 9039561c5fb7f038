"""`course study` as somebody types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from course.cli import app
from course.curriculum import ROOT
from laboratory.study import description


def course(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "course.cli", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def refused(*words: str) -> Result:
    """In this process, which has imported torch already."""
    return CliRunner().invoke(app, words)


@pytest.mark.slow
def test_the_list_says_what_each_asks_and_takes() -> None:
    done = course("study")
    assert done.returncode == 0, done.stderr
    for name in description.names():
        assert name in done.stdout
    assert " min" in done.stdout


def test_a_name_that_is_nearly_right() -> None:
    done = refused("study", "norm")
    assert done.exit_code == 2
    assert "did you mean 'norms'?" in done.stderr.replace("\n", " ")


def test_a_report_needs_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description.Study, "folder", tmp_path)
    done = refused("study", "norms", "--report")
    assert done.exit_code == 2
    assert "the study has no results yet" in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_a_report_is_written_again_as_it_was() -> None:
    shipped = description.STUDIES / "positions" / "report.md"
    before = shipped.read_bytes()
    done = course("study", "positions", "--report")
    assert done.returncode == 0, done.stderr
    assert str(shipped) in done.stdout
    assert shipped.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"), [(["--jobs", "0"], "jobs"), (["--device", "tpu"], "got 'tpu'")]
)
def test_bad_words(words: list[str], message: str, tmp_path: Path) -> None:
    done = refused("study", "norms", *words)
    assert done.exit_code == 2
    assert message in done.stderr
