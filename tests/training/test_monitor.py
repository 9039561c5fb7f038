"""What a run shows while it goes."""

import errno
import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.training.conftest import QUIET
from training import checkpoints
from training.loop import monitor as monitor_
from training.loop.monitor import Monitor, Row, read_metrics, short
from training.loop.run_folder import Run
from training.progress import waiting


def row(step, validated=None):
    return Row(step, step, 2.0, 7.389, validated, validated and 9.0, 1e-3, 0.5, 1000, None, None)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(monitor_, "time", clock)
    return clock


def test_the_best_validation_outlives_a_stop(tmp_path):
    first = Monitor(Run(tmp_path), 100, 0, QUIET)
    with first.showing():
        for step_row in (row(10, 2.5), row(20, 1.5), row(30, 1.7), row(40, 0.1)):
            first.show(step_row)
            first.keep(step_row)
    second = Monitor(Run(tmp_path), 100, 30, QUIET)  # killed after a checkpoint at step 30
    with second.showing():
        assert second._best == (1.5, 20)


def test_rows_that_are_there_are_never_at_risk(tmp_path, monkeypatch):
    """A run that goes on replaces the file at once: while it is written anew, the old one is there."""
    run = Run(tmp_path)
    first = Monitor(run, 20, 0, QUIET)
    for step in (10, 20):
        first.keep(row(step))
    with first.showing():
        pass
    before = run.metrics.read_bytes()

    def full(number):
        assert run.metrics.read_bytes() == before
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            Monitor(run, 20, 10, QUIET)
    assert run.metrics.read_bytes() == before
    with Monitor(run, 20, 10, QUIET).showing():
        assert [recorded["step"] for recorded in read_metrics(run)] == [10]
    assert run.metrics.read_bytes() == b"".join(before.splitlines(keepends=True)[:2])


def test_what_is_left_is_told_by_the_last_steps_alone(tmp_path, clock):
    monitor = Monitor(Run(tmp_path), 1000, 0, QUIET)
    with monitor.showing():
        clock.now = 60.0  # the first step takes a minute
        monitor.show(row(1))
        assert monitor._left(row(1)) == "–"
        for step in range(2, 401):
            clock.now += 1.0 if step <= 200 else 0.1
            monitor.show(row(step))
        assert monitor._left(row(400)) == "0:01:00"


def test_a_terminal_keeps_a_line_for_each_validation(tmp_path):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monitor = Monitor(Run(tmp_path), 1000, 0, console)
    with monitor.showing():
        monitor.show(row(10))
        monitor.show(row(20, 1.25))
    assert "step   20  loss 2.0000  validation 1.2500  (perplexity 9.000)" in screen.getvalue()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1.5, "1.500"),
        (99.9, "99.900"),
        (2810.4, "2,810"),
        (12e6, "12,000,000"),
        (float("inf"), "over 1,000,000,000"),
    ],
)
def test_a_perplexity_is_never_written_with_an_exponent(number, words):
    assert short(number) == words
    shown = monitor_._validation(replace(row(1, 1.0), validation_perplexity=number))
    assert words in shown


def test_off_a_terminal_waiting_is_a_line():
    screen = io.StringIO()
    with waiting(Console(file=screen), "Measuring") as tell:
        tell("loss", 1, 2)
    assert screen.getvalue() == "Measuring …\n"
