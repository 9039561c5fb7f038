"""How many cores may be used, which in a container are fewer than there are."""

import os
from pathlib import Path

import pytest

from course.grading import pools
from laboratory.running import runner
from training import cores as module
from training.cores import cores
from training.launch import torchrun

LAUNCHED = "OMP_NUM_THREADS"


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine of 64 cores, 8 of which this process may use."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(module, "QUOTA", tmp_path / "cpu.max")
    return tmp_path / "cpu.max"


@pytest.mark.parametrize(
    ("quota", "expected"),
    [(None, 8), ("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("5000 100000", 1)],
)
def test_the_least_of_what_is_allowed(machine: Path, quota, expected):
    if quota is not None:
        machine.write_text(f"{quota}\n")
    assert cores() == expected


def test_without_affinity_all_there_are(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


def test_a_study_a_launch_and_a_class_take_no_more(machine, monkeypatch, tmp_path):
    machine.write_text("400000 100000\n")
    assert runner.places_of("cpu", None) == ["cpu"] * 4
    assert pools.processes_that_fit() <= 4
    started = {}

    class Popen:
        def __init__(self, command, env, **how):
            started.update(env)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def wait(self):
            return 0

    monkeypatch.setattr(torchrun.subprocess, "Popen", Popen)
    monkeypatch.delenv(LAUNCHED, raising=False)
    assert torchrun.launch("module", [], 2, {}, tmp_path / "began") == 0
    assert started[LAUNCHED] == "2"
