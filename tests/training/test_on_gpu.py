"""`benchmarks/on_gpu.py`: every section at toy size on the CPU; what is done survives a kill."""

import importlib
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from course.curriculum import ROOT
from training.devices import ProcessContext

NANOGPT = """
import torch
from torch import nn

class GPTConfig:
    def __init__(self, **sizes):
        vars(self).update(sizes)

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        return torch.optim.AdamW(self.parameters(), learning_rate, betas, weight_decay=weight_decay)

    def forward(self, tokens, targets):
        logits = self.table(tokens)
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""
KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import torch, sections
here = sections.BenchContext(torch.device("cpu"), True, Path())
each = [sections.Section("first", lambda here: [{"what": "", "ms": 1.0}], 1)]
each += [sections.Section("second", lambda here: time.sleep(600), 1)]
sections.run(each, here, Path(sys.argv[3]), 60)
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def sections():
    return importlib.import_module("sections")


@pytest.fixture
def here(sections, tmp_path):
    return sections.BenchContext(torch.device("cpu"), True, tmp_path)


def kept(file):
    """Return the status and the rows of each section in the file."""
    records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {record["part"]: (record["status"], record["rows"]) for record in records}


def stop(here):
    raise KeyboardInterrupt


def fail(here):
    raise ValueError("no such\nkernel")


@pytest.mark.slow
def test_every_part_runs_at_toy_size(tmp_path):
    on_gpu = importlib.import_module("on_gpu")
    (tmp_path / "model.py").write_text(NANOGPT)
    with pytest.raises(SystemExit) as exited:
        on_gpu.main(["--dry", "--out", str(tmp_path), "--nanogpt", str(tmp_path)])
    by_part = kept(tmp_path / "on_gpu.jsonl")
    assert exited.value.code == 0, by_part
    assert list(by_part) == [section.name for section in on_gpu.SECTIONS]
    assert {status for status, _ in by_part.values()} == {"done"}
    assert all(len(row) > 1 for _, rows in by_part.values() for row in rows)
    [checks] = by_part["Checks on CUDA"][1]
    assert checks["note"].startswith("0 passed, 0 failed, ") and " 0 skipped" not in checks["note"]
    assert [row["what"] for row in by_part["GPT-2 124M, training"][1]] == ["ours", "nanoGPT"]
    if importlib.util.find_spec("transformers"):
        assert by_part["SmolLM2-135M, decoding, batch 64"][1][1]["same"] == 1
    table = (tmp_path / "on_gpu.md").read_text(encoding="utf-8")
    assert all(f"\n| {name} | " in table for name in by_part)


def test_what_was_done_before_a_kill_is_not_repeated(sections, here, tmp_path, monkeypatch):
    done, file = [], tmp_path / "kept.jsonl"

    def section(name, measure=None):
        return sections.Section(name, measure or (lambda _: [{"what": done.append(name) or ""}]), 1)

    with pytest.raises(KeyboardInterrupt):
        sections.run([section("a"), section("b", stop), section("c")], here, file, 60)
    assert list(kept(file)) == done == ["a"]
    assert sections.run([section("a"), section("b"), section("c")], here, file, 60)
    assert list(kept(file)) == done == ["a", "b", "c"]
    monkeypatch.setattr(sections, "code", lambda: "changed")
    assert sections.run([section("a")], here, file, 60)
    assert done == ["a", "b", "c", "a"] and file.with_suffix(".md").read_text().count("**") == 4


@pytest.mark.slow
def test_a_killed_process_leaves_what_was_done(sections, here, tmp_path):
    file = tmp_path / "kept.jsonl"
    folders = str(ROOT), str(ROOT / "benchmarks")
    child = subprocess.Popen([sys.executable, "-c", KILLED, *folders, str(file)])
    while not file.with_suffix(".md").exists() and child.poll() is None:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    second = [sections.Section("first", stop, 1), sections.Section("second", lambda _: [], 1)]
    assert sections.run(second, here, file, 60)
    assert {name: status for name, (status, _) in kept(file).items()} == {
        "first": "done",
        "second": "done",
    }


def test_an_exception_becomes_a_row_and_its_part_runs_again_at_the_end(sections, here, tmp_path):
    done, file = [], tmp_path / "kept.jsonl"

    def missing(here):
        import no_such_package  # noqa: F401

    bad = [sections.Section("bad", fail, 1), sections.Section("missing", missing, 1)]
    good = [sections.Section("good", lambda _: done.append("good") or [], 1)]
    assert not sections.run([*bad, *good], here, file, 60)
    assert done == ["good"]
    assert kept(file)["bad"] == ("failed", [{"what": "", "note": "ValueError: no such kernel"}])
    status, [row] = kept(file)["missing"]
    assert status == "skipped" and "'no_such_package'" in row["note"]
    bad = [
        sections.Section(name, lambda _: done.append("bad") or [], 1) for name in ("bad", "missing")
    ]
    new = sections.Section("new", lambda _: done.append("new") or [], 1)
    assert sections.run([*bad, new], here, file, 60)
    assert done == ["good", "new", "bad", "bad"]


def test_parts_share_the_time_that_is_left(sections, tmp_path, capsys):
    shares, file = [], tmp_path / "kept.jsonl"
    here = sections.BenchContext(torch.device("cpu"), False, tmp_path)

    def section(name, weight, least=0.0):
        return sections.Section(
            name, lambda here: shares.append(here.seconds) or [], weight, "", least
        )

    sections.run(
        [section("long", 1, least=1001), section("a", 1), section("b", 2)], here, file, 1000
    )
    assert list(kept(file)) == ["a", "b"] and "long: no time left" in capsys.readouterr().out
    assert 300 < shares[0] < 1000 / 3 and 900 < shares[1] < 1000  # `a` took nothing of its third
    stopped = importlib.import_module("on_gpu").correctness(
        sections.BenchContext(torch.device("cpu"), True, tmp_path, seconds=0.01)
    )
    assert stopped[0]["note"] == "0 passed, 0 failed, 0 skipped; stopped: no time left"


def test_mfu_is_the_share_of_the_cards_peak(here, monkeypatch):
    """GPT-2 124M with 50,304 tokens has 124,475,904 parameters, and 786,432 of them are positions."""
    on_gpu = importlib.import_module("on_gpu")
    sizes = {"batch": 2, "context": 1024, "layers": 12, "d_model": 768, "model": "gpt"}
    trainer = SimpleNamespace(settings=SimpleNamespace(**sizes), size=124_475_904)

    def full():
        raise torch.OutOfMemoryError

    def pace(acts):
        return on_gpu.paces(trainer, acts, here)

    assert "MFU" not in pace({"ours": lambda: None})[0]
    monkeypatch.setattr(ProcessContext, "peak_flops", 1e15)
    first, second = pace({"full": full, "ours": lambda: time.sleep(0.01)})
    assert first == {"what": "full", "note": "out of memory", "parameters": 124_475_904}
    assert second["MFU"] == pytest.approx(second["tokens/s"] * 855_383_040 / 1e15)
    assert second["tokens/s"] == pytest.approx(2048 / second["ms"] * 1e3)
