"""A study is run to its report: killed in the middle it goes on, and what comes of it is the same."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from filelock import FileLock
from rich.console import Console

from course.curriculum import ROOT
from laboratory import digests, running, study
from laboratory.cell import perform
from laboratory.results import Results
from laboratory.study import Study
from training.errors import Refused
from training.run import Run

SILENT = Console(quiet=True)
STUDY = {
    "question": "Does width help?",
    "task": "text",
    "settings": {
        **{
            "data": str(ROOT / "implementation.py"),
            "layers": 1,
            "d_model": 8,
            "heads": 2,
            "d_ff": 16,
        },
        **{"smoothing": 0.0, "dropout": 0.1, "context": 16, "batch": 4, "steps": 40, "warmup": 5},
        **{"validate_every": 10, "validate_tokens": 500, "save_every": 10},
    },
    "baseline": "narrow",
    "variants": {"narrow": {}, "wide": {"d_ff": 32}},
    "seeds": [0, 1, 2],
    "equal": "tokens",
    "held": "Both read the same batches.",
    "figures": {"loss": {"words": "loss per character"}},
}


@pytest.fixture
def small(tmp_path: Path) -> Study:
    return study.of(STUDY, "width", tmp_path / "study.yaml")


def run(small: Study, tmp_path: Path, runs: str = "runs") -> Results:
    return running.run(small, "cpu", 2, None, SILENT, tmp_path / runs)


def seen(results: Results) -> list[object]:
    """All but what the clock says."""
    return [dataclasses.replace(cell, timed={}) for cell in results.cells]


def test_what_is_finished_is_not_run_again(small: Study, tmp_path: Path) -> None:
    first = run(small, tmp_path)
    assert [cell.key for cell in first.cells] == sorted({cell.key for cell in first.cells})
    assert len(first.cells) == 6
    for cell in first.cells:
        assert 1 < cell.figures["loss"] < 5
        assert [step for step, _ in cell.curve] == [10, 20, 30, 40]
        assert cell.timed["core_seconds"] > 0 < cell.timed["seconds"]
    folders = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/width/*/seen.json")}
    assert len(folders) == 6
    again = run(small, tmp_path)
    assert again.cells == first.cells
    assert {path: path.stat().st_mtime_ns for path in folders} == folders


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_an_end_in_the_middle_changes_nothing(small: Study, tmp_path: Path, name: str) -> None:
    whole = run(small, tmp_path, "whole")
    folder = tmp_path / "study.yaml"
    folder.write_text(yaml.safe_dump(STUDY))
    script = (
        "import sys, yaml; from pathlib import Path; from rich.console import Console\n"
        "from laboratory import running, study\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "if __name__ == '__main__':\n"
        "    path = Path(sys.argv[1])\n"
        "    one = study.of(yaml.safe_load(path.read_text()), 'width', path)\n"
        "    running.run(one, 'cpu', 1, None, Console(), path.parent / 'runs')\n"
    )
    program = tmp_path / "program.py"
    program.write_text(script)
    started = subprocess.Popen([sys.executable, str(program), str(folder)], cwd=ROOT, env=_found())
    states = lambda: list(tmp_path.glob("runs/width/*/last.state"))  # noqa: E731
    while not states():
        assert started.poll() is None, "no cell was begun"
        time.sleep(0.005)
    started.send_signal(getattr(signal, name))
    started.wait()
    begun = len(list(tmp_path.glob("runs/width/*/config.yaml")))
    done = len(list(tmp_path.glob("runs/width/*/seen.json")))
    assert done < begun or done < 6
    assert seen(run(small, tmp_path)) == seen(whole)


def _found() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_kill_while_a_cell_was_begun_is_no_obstacle(small: Study, tmp_path: Path) -> None:
    """A draft of its config is left, and nothing else: the cell begins again."""
    cell = small.cells[0]
    folder = tmp_path / "cell"
    folder.mkdir()
    (folder / "config.yaml.part").write_bytes(b"task: te")
    perform(cell, folder, "cpu")
    assert Run(folder).settings() == cell.settings
    assert not list(folder.glob("*.part"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(Refused, match="is there already, and holds something else"):
        perform(cell, other, "cpu")


def test_two_at_once_are_one_too_many(small: Study, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "width"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"), pytest.raises(Refused, match="Another `course study width`"):
        run(small, tmp_path)


def test_a_cell_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    variants = {"narrow": {}, "odd": {"d_model": 6, "normalised_by": "group"}}
    settings = {**STUDY["settings"], "steps": 2}
    broken = study.of(
        {**STUDY, "settings": settings, "variants": variants}, "width", tmp_path / "study.yaml"
    )
    with pytest.raises(Refused, match="3 of 6 cells failed; the others are kept") as refused:
        run(broken, tmp_path)
    assert str(refused.value).count("must divide d_model = 6") == 3
    assert len(list(tmp_path.glob("runs/width/narrow*/seen.json"))) == 3


def test_a_digest_is_of_all_that_figures_depend_on(small: Study) -> None:
    cell, cpu = small.cells[0], torch.device("cpu")
    same = digests.digest_of(cell, "data", cpu, "AVX2")
    assert same == digests.digest_of(cell, "data", cpu, "AVX2")
    elsewhere = dataclasses.replace(cell, settings=cell.settings.but({"data_dir": "elsewhere"}))
    assert same == digests.digest_of(elsewhere, "data", cpu, "AVX2")
    others = [
        dataclasses.replace(cell, settings=cell.settings.but({"factor": 2.0})),
        dataclasses.replace(cell, recipe=cell.recipe.but({"positions": "none"})),
        dataclasses.replace(cell, measures=("cache",)),
    ]
    found = {digests.digest_of(other, "data", cpu, "AVX2") for other in others}
    found |= {digests.digest_of(cell, "other data", cpu, "AVX2")}
    found |= {digests.digest_of(cell, "data", cpu, "AVX512")}
    found |= {digests.digest_of(cell, "data", torch.device("cuda"), "AVX2")}
    assert len(found - {same}) == 6


def test_where_it_was_made_is_written_down(small: Study, tmp_path: Path) -> None:
    made = run(small, tmp_path).made
    assert set(made) == {
        *("torch", "machine", "device", "threads", "commit", "data", "yardstick"),
    }
    assert (made["torch"], made["threads"]) == (torch.__version__, 1)
    json.dumps(made)
