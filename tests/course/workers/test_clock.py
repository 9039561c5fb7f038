"""A learner's code is given five seconds of CPU: of its own, however busy the machine is."""

import os
import queue
import subprocess
import sys
import textwrap
import time

import pytest

from course.checks import clock
from course.checks.clock import Clock
from course.curriculum import ROOT
from course.workers import process
from course.workers.forking import CAN_FORK
from course.workers.preparing import DAYS_WITH_COMPILER
from course.workers.worker import is_asleep, thread_states

RIGHT = """
import numpy as np

def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)

def log_softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
"""


def compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_clock_counts_while_it_is_started_and_not_stopped():
    """CPU time of this thread: neither what comes before and after, nor pauses, nor sleep."""
    mine = Clock()
    compute(0.05)
    with mine.started():
        compute(0.1)
        with mine.stopped():
            compute(0.3)
        time.sleep(0.3)
        assert mine.runs
    compute(0.05)
    assert not mine.runs
    assert 0.1 <= mine.seconds < 0.2
    with mine.started():
        assert mine.seconds < 0.05  # it begins anew


def test_imports_are_off_the_clock(monkeypatch, tmp_path):
    """A module that takes long to import is not the learner's computing."""
    (tmp_path / "takes_long.py").write_text(
        "import time\nuntil = time.thread_time() + 0.3\nwhile time.thread_time() < until: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.__import__", __import__)  # put back after the test
    clock.leave_imports_out()
    with clock.CLOCK.started():
        import takes_long  # noqa: F401
    assert clock.CLOCK.seconds < 0.2


def test_a_timeout_is_confirmed_in_a_fresh_worker(check, monkeypatch, tmp_path):
    """A check that slept too long once, and not when it was asked again alone, is as right as any."""
    monkeypatch.setattr("course.workers.answer_run.NAP", 0.5)
    once = f"    if not os.path.exists({str(tmp_path / 'met')!r}):\n"
    once += f"        open({str(tmp_path / 'met')!r}, 'w').close()\n        time.sleep(99)\n"
    result = check(1, "import os, time" + RIGHT.replace("    powers =", once + "    powers =", 1))
    assert (tmp_path / "met").exists()
    assert result.status == "passed"


@pytest.mark.skipif(not CAN_FORK, reason="workers are new interpreters here, with the real limits")
def test_after_an_endless_loop_nothing_else_is_run(impatient_check):
    """By the learner's own clock one run is enough, and the verdict does not wait for other exercises."""
    loop = "    while True: pass\n"
    result = impatient_check(1, RIGHT.replace("    powers =", loop + "    powers =", 1))
    first, *rest = [check for check in result.checks if check.status != "passed"]
    assert "still running after 0.5 seconds" in first.message
    assert {check.message for check in rest} == {f"Not run: `{first.name}` does not end."}
    assert {check.exercise for check in rest} == {"softmax", "log_softmax"}


def test_a_system_may_allow_less_memory(monkeypatch):
    """A login node of a cluster does: the limit is the lower of the two."""
    resource = pytest.importorskip("resource")
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**31, 2**31))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit))
    monkeypatch.setattr(sys, "platform", "linux")
    process._limit_memory()
    assert limits == [(2**31, 2**31)]


@pytest.mark.slow
def test_a_file_that_never_ends_loading_is_one_thing_wrong(impatient_check):
    """Every check says the same, and nothing is tried for each of them."""
    result = impatient_check(1, RIGHT + "while True: pass")
    assert {check.status for check in result.checks} == {"timed_out"}
    [message] = {check.message for check in result.checks}
    assert "cannot be loaded" in message
    assert "still running after 0.5 seconds" in message


@pytest.mark.slow
def test_what_only_waits_is_ended_too(check, monkeypatch):
    """It computes nothing, and is given little time for that, however busy the machine is."""
    monkeypatch.setattr("course.workers.answer_run.NAP", 0.5)
    source = "import time" + RIGHT.replace("    powers =", "    time.sleep(99)\n    powers =", 1)
    checks = check(1, source).checks
    assert {row.status for row in checks if row.exercise == "softmax"} == {"timed_out"}


@pytest.mark.parametrize(
    ("states", "sleeps"), [("SSS", True), ("SD", True), ("SRS", False), ("ST", False), ("", False)]
)
def test_who_is_kept_waiting_does_not_sleep(states, sleeps):
    """A thread that waits for a processor, or was stopped, would compute: a busy machine costs nothing."""
    assert is_asleep(states) == sleeps


def test_a_thread_that_runs_is_seen():
    """This one is, as Linux writes it."""
    assert "R" in list(thread_states(os.getpid()))


def test_prints_are_not_computation(check):
    """Twenty thousand lines in each call are cut, and that they were is said."""
    loop = "    for line in range(20_000): print('line', line)\n"
    result = check(1, RIGHT.replace("    powers =", loop + "    powers =", 1))
    assert result.status == "passed"
    assert result.printed.startswith("line 0\nline 1\n")
    assert result.printed.endswith("… and more\n")


def test_a_day_is_given_as_much_room_for_prints_as_the_first(tmp_path):
    """One worker serves several requests."""
    printed = process._Printed(1)
    printed.room = 0
    channel = process.Channel.__new__(process.Channel)
    channel._printed = [printed]
    channel.make_room()
    assert printed.room == process._Printed.MAX_BYTES


def test_a_request_goes_before_what_is_imported_ahead():
    """As soon as there is one, nothing more is imported."""
    requests, imported = queue.Queue(), []

    def ahead():
        for number in range(9):
            imported.append(number)
            if number == 2:
                requests.put(b"a request")
            yield "a module"

    assert process._first(requests, ahead()) == b"a request"
    assert imported == [0, 1, 2]


DAYS_THAT_IMPORT = """
import os, sys
import pytest, torch
import course.checks.tensors
from course.checks.loading import load_checks
from course.checks.seeing import see
from course.curriculum import DAYS
from course.references.patched import reference_module

for day in (day for day in DAYS if day.uses_torch):
    if os.fork() == 0:
        reference = reference_module(day)
        for check in load_checks(day):
            see(check, reference, 0)
            if "torch._dynamo" in sys.modules:
                print(day.number, flush=True)
                break
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(not CAN_FORK, reason="it forks a process for each day")
def test_the_days_that_need_the_compiler_are_known():
    """Their workers import it before the first check; other days do not wait for it."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DAYS_THAT_IMPORT)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert {int(number) for number in done.stdout.split()} == DAYS_WITH_COMPILER


@pytest.mark.slow
def test_a_walled_in_clock_cannot_be_asked_to_wait_for_ever(check, monkeypatch):
    """An answer that stops its own clock meets the limits of the other side."""
    monkeypatch.setattr("course.workers.answer_run.BACKSTOP", 1.0)
    stop = "import course.checks.clock as c\n"
    loop = "    c.CLOCK.stopped().__enter__()\n    while True: pass\n"
    verdict = check(1, stop + RIGHT.replace("    powers =", loop + "    powers =", 1))
    assert {row.status for row in verdict.checks if row.exercise == "softmax"} == {"timed_out"}
