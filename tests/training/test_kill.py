"""`kill -9` at any moment, and resumed: the same weights, bit for bit."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from training.loop.run_folder import Run

LONG = ["--set", "save_every=3", "--set", "validate_every=20", "--set", "batch=16", "--steps", "60"]
KILLS = 2


@pytest.fixture
def one_thread():
    """As many as the process that is killed has: sums are rounded alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def killed(arguments, run, more):
    """Train in a process of its own, which is killed when it is so many steps further."""
    running = subprocess.Popen(
        [sys.executable, "-m", "course.cli", "train", "copy", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    _wait_for_steps(running, run, more)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    return _step(run)


@pytest.mark.slow
def test_a_run_that_was_killed_again_and_again_ends_the_same(tmp_path, course_here, one_thread):
    full = course_here("train", "copy", "--out", tmp_path / "whole", *LONG)
    assert full.exit_code == 0, full.output
    draw, run = random.Random(4), Run(tmp_path / "killed")
    arguments, reached = ["--out", run.folder, *LONG], []
    for _ in range(KILLS):
        reached.append(killed(arguments, run, draw.randrange(5, 20)))
        arguments = ["--resume", run.folder]
    assert 0 < reached[0] <= reached[1] < 60  # it was killed in the middle, each time
    done = course_here("train", "copy", *arguments)
    assert done.exit_code == 0, done.output
    assert int(re.search(r"Resuming from step (\d+)", done.stdout)[1]) > 0
    for name in ("last.safetensors", "best.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    losses = [
        [
            line.split(",")[:3:2]
            for line in (tmp_path / run / "metrics.csv").read_text().splitlines()
        ]
        for run in ("whole", "killed")
    ]
    assert losses[0] == losses[1]


def _step(run):
    lines = run.metrics.read_text().splitlines() if run.metrics.exists() else []
    return int(lines[-1].split(",")[0]) if len(lines) > 1 and lines[-1].count(",") == 10 else 0


def _wait_for_steps(running, run, more):
    """Until the run is so many steps further, by its own metrics."""
    first = _step(run)
    while _step(run) < first + more:
        assert running.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
