"""Grading on a Dask cluster: the same results as here, though a machine dies on the way."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT

LEARNERS = [f"learner{number}" for number in range(6)]


@pytest.fixture
def started():
    """Starts processes, and ends them afterwards."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def class_(tmp_path):
    """Six learners who have done day 1, half of them wrong."""
    day = DAYS[0]
    right = read_answer(day.solution)
    for number, learner in enumerate(LEARNERS):
        folder = tmp_path / "class" / learner
        folder.mkdir(parents=True)
        text = right if number % 2 else right.replace("np.exp", "np.exp2")
        (folder / f"{day.stem}.py").write_text(text, encoding="utf-8")
    return tmp_path / "class"


@pytest.mark.slow
def test_a_machine_dies(real_sandbox, class_, tmp_path, started):
    """Of three machines one is killed in the middle: everybody is graded, and rightly."""
    where = tmp_path / "scheduler.json"
    started(
        "distributed.cli.dask_scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", where
    )
    wait_for(where.exists)
    address = json.loads(where.read_text())["address"]
    machines = [
        started(
            "distributed.cli.dask_worker",
            *(address, "--nthreads", 1, "--no-nanny", "--no-dashboard"),
            *("--local-directory", tmp_path / f"machine{number}"),
        )
        for number in range(3)
    ]
    out = tmp_path / "out"
    grading = started(
        "course.cli", "grade", class_, "--out", out, "--days", 1, "--seed", 4, "--cluster", address
    )
    wait_for(lambda: any((out / "results").glob("*.json")))
    machines[0].send_signal(signal.SIGKILL)
    assert grading.wait() == 0
    with (out / "grades.csv").open(encoding="utf-8", newline="") as file:
        points = {row["learner"]: row["points"] for row in csv.DictReader(file)}
    assert points == {
        learner: "1" if number % 2 else "0" for number, learner in enumerate(LEARNERS)
    }


@pytest.mark.slow
def test_nobody_answers(real_sandbox, class_, tmp_path):
    """Where there is no scheduler, that is said: exit 2."""
    address = ("--cluster", "tcp://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "course.cli", "grade", class_, "--out", tmp_path / "out", *address],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in " ".join(
        done.stderr.replace("│", " ").split()
    )


def wait_for(true):
    while not true():
        time.sleep(0.02)
