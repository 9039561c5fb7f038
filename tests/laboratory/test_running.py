"""A study is run to its report: killed in the middle it goes on, and what comes of it is the same."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from filelock import FileLock
from rich.console import Console

from course.curriculum import ROOT
from laboratory.running import digests, runner, workers
from laboratory.running.cell import load, perform
from laboratory.study import description
from laboratory.study.description import Study
from laboratory.study.results import Results
from training.data.tasks import Text
from training.errors import Refused
from training.loop.run_folder import Run

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
    return description.of(STUDY, "width", tmp_path / "study.yaml")


def run(small: Study, tmp_path: Path, runs: str = "runs") -> Results:
    return runner.run(small, "cpu", 2, None, SILENT, tmp_path / runs)


def seen(results: Results) -> list[object]:
    """All but what the clock says."""
    return [dataclasses.replace(cell, timed={}) for cell in results.cells]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_an_end_in_the_middle_changes_nothing(small: Study, tmp_path: Path, name: str) -> None:
    full = run(small, tmp_path, "whole")
    folder = tmp_path / "study.yaml"
    folder.write_text(yaml.safe_dump(STUDY))
    script = (
        "import sys, yaml; from pathlib import Path; from rich.console import Console\n"
        "from laboratory.running import runner\nfrom laboratory.study import description\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "if __name__ == '__main__':\n"
        "    path = Path(sys.argv[1])\n"
        "    one = description.of(yaml.safe_load(path.read_text()), 'width', path)\n"
        "    runner.run(one, 'cpu', 1, None, Console(), path.parent / 'runs')\n"
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
    assert seen(run(small, tmp_path)) == seen(full)


@pytest.mark.slow
def test_more_seeds_are_run_and_what_is_there_is_not(small: Study, tmp_path: Path) -> None:
    """Not even where the results come from a different machine, and no run is left of them."""
    full = run(small, tmp_path / "here")
    elsewhere = dataclasses.replace(full, provenance={**full.provenance, "machine": "elsewhere"})
    more = description.of(STUDY, "width", tmp_path / "study.yaml", seeds=4)
    runs = tmp_path / "more"
    extended = runner.run(more, "cpu", 1, None, SILENT, runs, earlier=elsewhere)
    assert [path.name.partition(",seed=")[2][0] for path in runs.glob("width/*=*")] == ["3", "3"]
    assert {cell.key for cell in extended.cells} > {cell.key for cell in full.cells}
    assert extended.cells[: len(full.cells)] == full.cells
    assert extended.provenance["machine"] == "elsewhere"
    assert str(extended.provenance["extended"]).startswith("seeds 3 with commit ")
    again = runner.run(more, "cpu", 1, None, SILENT, tmp_path / "again", earlier=extended)
    assert again == extended
    assert not list((tmp_path / "again").glob("width/*=*"))


@pytest.mark.slow
def test_a_variant_that_was_added_is_run_and_chosen_for_alone(tmp_path: Path) -> None:
    definition = {
        **STUDY,
        "learning_rates": [0.5, 1],
        "settings": {**STUDY["settings"], "steps": 4},
    }
    full = run(description.of(definition, "width", tmp_path / "study.yaml"), tmp_path / "here")
    variants = {**STUDY["variants"], "wider": {"d_ff": 64}}
    more = description.of({**definition, "variants": variants}, "width", tmp_path / "study.yaml")
    assert more.asked != full.provenance["asked"] == more.asked_of(["narrow", "wide"])
    runs = tmp_path / "more"
    extended = runner.run(more, "cpu", 1, None, SILENT, runs, earlier=full)
    assert {path.name.partition(",")[0] for path in runs.glob("width/*=*")} == {"wider"}
    assert set(extended.rates) == {"narrow", "wide", "wider"} == set(extended.trials)
    assert extended.trials["wide"] == full.trials["wide"]
    assert extended.provenance["asked"] == more.asked
    assert str(extended.provenance["extended"]).startswith("wider, seeds 0, 1, 2 with commit ")


def test_results_of_different_settings_are_not_extended(small: Study, tmp_path: Path) -> None:
    settings = {**STUDY["settings"], "steps": 2}
    other = description.of({**STUDY, "settings": settings}, "width", tmp_path / "study.yaml")
    assert other.asked != small.asked
    earlier = Results("width", {"asked": small.asked}, [])
    with pytest.raises(Refused, match="made with different settings"):
        runner.run(other, "cpu", 1, None, SILENT, tmp_path, earlier=earlier)


@pytest.mark.slow
def test_a_learning_rate_is_chosen_on_a_split_of_its_own(tmp_path: Path) -> None:
    definition = {
        **STUDY,
        "learning_rates": [0.01, 1],
        "settings": {**STUDY["settings"], "warmup": 1},
    }
    tuned = description.of(definition, "width", tmp_path / "study.yaml")
    assert len(tuned.trials) == 2 * 2 * 2
    assert not {cell.seed for cell in tuned.trials} & set(tuned.seeds)
    tuned_results = run(tuned, tmp_path)
    assert set(tuned_results.rates) == {"narrow", "wide"}
    for cell in tuned.at(tuned_results.rates).cells:
        assert (
            cell.settings.factor
            == tuned_results.rates[cell.variant] * tuned.cells[0].settings.factor
        )
    for name, rate in tuned_results.rates.items():
        tried = tuned_results.trials[name]
        assert set(tried) == {0.01, 1.0} and {len(losses) for losses in tried.values()} == {2}
        assert sum(tried[rate]) == min(map(sum, tried.values()))
    # A hundredth of the rate learns next to nothing in 40 steps.
    assert set(tuned_results.rates.values()) == {1.0}
    assert {result.seed for result in tuned_results.cells} == set(tuned.seeds)
    trial, reported = load(tuned.trials[0]), load(tuned.cells[0])
    assert isinstance(trial, Text) and isinstance(reported, Text)
    assert len(trial.learned) < len(reported.learned)
    held_out = torch.cat([rows.target.flatten() for rows in trial.held_out("validation")])
    assert held_out[0] == reported.learned[len(trial.learned)]
    assert len(trial.languages.target) == len(reported.languages.target)


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
    with pytest.raises(Refused, match="already exists, and contains something else"):
        perform(cell, other, "cpu")


def test_two_at_once_are_one_too_many(small: Study, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "width"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"), pytest.raises(Refused, match="Another `course study width`"):
        run(small, tmp_path)


@pytest.mark.slow
def test_a_cell_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    variants = {"narrow": {}, "odd": {"d_model": 6, "normalized_by": "group"}}
    settings = {**STUDY["settings"], "steps": 2}
    broken = description.of(
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
    elsewhere = dataclasses.replace(cell, settings=cell.settings.replace({"data_dir": "elsewhere"}))
    assert same == digests.digest_of(elsewhere, "data", cpu, "AVX2")
    variations = [
        dataclasses.replace(cell, settings=cell.settings.replace({"factor": 2.0})),
        dataclasses.replace(cell, recipe=dataclasses.replace(cell.recipe, positions="none")),
        dataclasses.replace(cell, measures=("cache",)),
    ]
    found_digests = {digests.digest_of(other, "data", cpu, "AVX2") for other in variations}
    found_digests |= {digests.digest_of(cell, "other data", cpu, "AVX2")}
    found_digests |= {digests.digest_of(cell, "data", cpu, "AVX512")}
    found_digests |= {digests.digest_of(cell, "data", torch.device("cuda"), "AVX2")}
    assert len(found_digests - {same}) == 6


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The digest of the code after a change to a copy of it."""
    root = tmp_path / "copy"
    for name in ("laboratory", "training", "variants"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "implementation.py", root)
    monkeypatch.setattr(digests, "ROOT", root)
    monkeypatch.setattr(digests, "CELL", root / "laboratory" / "running" / "cell.py")

    def changed(file: str = "implementation.py", *edit: str) -> str:
        text = (root / file).read_text(encoding="utf-8")
        assert not edit or edit[0] in text
        (root / file).write_text(text.replace(*edit) if edit else text, encoding="utf-8")
        return digests._code.__wrapped__()

    return changed


@pytest.mark.slow
def test_words_may_change_without_a_new_run(code: Callable[..., str]) -> None:
    same = code()
    for edit in (
        ("training/loop/monitor.py", "could not be written", "were not written"),
        ("training/data/downloads.py", "import hashlib", "import hashlib, math"),
        ("training/settings.py", "There is no setting", "No setting is called"),
        ("training/data/tasks.py", "The text is too short", "This text is too short"),
        ("variants/llama.py", "does not divide", "is no divisor of"),
        ("variants/llama.py", "# 1. ", "# 1. First: "),
    ):
        assert code(*edit) == same, edit


@pytest.mark.parametrize(
    "edit",
    [
        ("implementation.py", "math.sqrt(query.size(-1))", "query.size(-1)"),
        (
            "training/loop/training_loop.py",
            "share = world / max(tokens, 1)",
            "share = world / tokens",
        ),
        ("training/loop/optimizer.py", "eps=1e-9", "eps=1e-8"),
        ("training/data/tasks.py", "(len(tokens) - 1) // context", "len(tokens) // context"),
        ("laboratory/study/measures.py", "return {", "return {} or {"),
        ("variants/llama.py", "std=0.02", "std=0.01"),
    ],
    ids=lambda edit: edit[0],
)
def test_what_computes_may_not(code: Callable[..., str], edit: tuple[str, str, str]) -> None:
    assert code() != code(*edit)


def test_what_computes_nothing_is_imported_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list holds no file that is gone, and none that a cell does without."""
    monkeypatch.setattr(digests, "COMPUTES_NOTHING", ())
    needed = {str(path.relative_to(ROOT)) for path in digests._needed(digests.CELL)}
    monkeypatch.undo()
    assert set(digests.COMPUTES_NOTHING) < needed


@pytest.mark.slow
def test_where_it_was_made_is_written_down(small: Study, tmp_path: Path) -> None:
    provenance = run(small, tmp_path).provenance
    assert set(provenance) == {
        *("torch", "machine", "device", "threads", "commit", "data", "asked"),
    }
    assert (provenance["torch"], provenance["threads"]) == (torch.__version__, 1)
    json.dumps(provenance)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a file of code and two studies, of which results are to tell the commit."""
    root = tmp_path / "clone"
    for name in (
        "code.py",
        "laboratory/studies/width/study.yaml",
        "laboratory/studies/norms/study.yaml",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("old")
    monkeypatch.setattr(runner, "ROOT", root)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    save(root)
    return root


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    command = ["git", *who, *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def save(root: Path) -> None:
    git(root, "commit", "--quiet", "--all", "--message", "Save", "--allow-empty")


def test_a_changed_study_is_no_clean_commit(clone: Path) -> None:
    head = git(clone, "rev-parse", "--short=12", "HEAD").strip()
    assert runner.commit("width") == head
    (clone / "laboratory" / "studies" / "norms" / "study.yaml").write_text("new")
    assert runner.commit("width") == head
    (clone / "laboratory" / "studies" / "width" / "study.yaml").write_text("new")
    assert runner.commit("width") == f"{head}, changed since"
    save(clone)
    (clone / "code.py").write_text("new")
    assert runner.commit("width").endswith(", changed since")


def test_the_commit_is_that_of_the_beginning(
    clone: Path, small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study may run for hours, in which others commit."""
    before = runner.commit("width")

    def performed(*_: object) -> list[object]:
        save(clone)
        return []

    monkeypatch.setattr(runner, "_planned", lambda *_: ([], "data"))
    monkeypatch.setattr(runner, "_performed", performed)
    provenance = run(small, tmp_path).provenance
    assert provenance["commit"] == before != runner.commit("width")


def test_no_process_is_started_after_the_end(monkeypatch):
    """A thread that has taken a job when a study is stopped may come too late."""
    worker = workers._Worker("cpu", 1)
    monkeypatch.setattr(worker, "_started", lambda: pytest.fail("started after the end"))
    worker.end()
    assert "stopped" in worker.perform(None).error
