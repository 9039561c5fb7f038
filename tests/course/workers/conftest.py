"""A day's file checked in a worker of this process: what `course check` does, without a command for each."""

import functools

import pytest

from course.curriculum import BY_NUMBER
from course.judging.judge import Judge
from course.workers import forking
from course.workers.checking import day_steps
from course.workers.forking import CAN_FORK, close_servers
from course.workers.pool import WorkerPool
from course.workers.worker import run_to_end


@functools.cache
def judge(number):
    return Judge(BY_NUMBER[number])


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(1) as pool:
        yield pool


def checks_in(folder, pool):
    """A function that checks an answer to a day, given its text or bytes, and returns the verdict."""

    def check(number, answer):
        data = answer if isinstance(answer, bytes) else answer.encode()
        (folder / f"{BY_NUMBER[number].stem}.py").write_bytes(data)
        return run_to_end(day_steps(judge(number), folder, pool)).finish()

    return check


@pytest.fixture
def check(tmp_path, pool):
    return checks_in(tmp_path, pool)


@pytest.fixture
def impatient_check(tmp_path, monkeypatch):
    """The same with half a CPU second for each check, and not five."""
    if not CAN_FORK:
        pytest.skip("workers are new interpreters here, with the real limits")
    limit = "import course.workers.limits as limits; limits.PATIENCE = 0.5; from course"
    monkeypatch.setattr(forking, "PROGRAM", forking.PROGRAM.replace("from course", limit))
    monkeypatch.setattr("course.workers.worker.PATIENCE", 0.5)
    close_servers()
    with WorkerPool(0) as pool:
        yield checks_in(tmp_path, pool)
    close_servers()
