"""`kill -9` at any moment, and resumed: the same weights, bit for bit."""

import os
import random
import re
import signal
import subprocess
import sys
import time

from training.loop.run_folder import Run

LONG = ["--set", "save_every=3", "--set", "validate_every=20", "--set", "batch=16", "--steps", "90"]
KILLS = 4


def command(*arguments):
    return [sys.executable, "-m", "course.cli", "train", "copy", *map(str, arguments)]


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1"}


def test_a_run_that_was_killed_again_and_again_ends_the_same(tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "env": environment(), "check": True}
    subprocess.run(command("--out", tmp_path / "whole", *LONG), **quiet)
    draw = random.Random(4)
    arguments = ["--out", tmp_path / "killed", *LONG]
    reached = []
    for _ in range(KILLS):
        running = subprocess.Popen(
            command(*arguments), stdout=subprocess.DEVNULL, env=environment()
        )
        arguments = ["--resume", tmp_path / "killed"]
        _wait_for_steps(running, Run(tmp_path / "killed"), draw.randrange(1, 20))
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        reached.append(_step(Run(tmp_path / "killed")))
    assert (
        reached == sorted(reached) and 0 < reached[-1] < 90
    )  # it was killed in the middle, each time
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
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
