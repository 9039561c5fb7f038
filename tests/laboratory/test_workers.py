"""Cells side by side: whatever happens to a process, every job has an end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from laboratory.running import workers
from laboratory.running.workers import Job, perform_all
from laboratory.study.description import Cell


def jobs(number: int) -> list[Job]:
    cell: Cell = None  # type: ignore[assignment] # none of these is ever run
    return [Job(cell, Path(str(index))) for index in range(number)]


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for ever."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(workers.SPAWN.Process, "start", refuse)
    waiting = jobs(3)
    done = list(perform_all(waiting, ["cpu", "cpu"], 1))
    assert sorted(str(result.job.folder) for result in done) == ["0", "1", "2"]
    for result in done:
        assert result.result is None
        assert "could not be started (Resource temporarily unavailable): try fewer" in result.error


def test_whatever_else_goes_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an answer that cannot be unpickled."""

    def broken(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'gone'")

    monkeypatch.setattr(workers._Worker, "perform", broken)
    [done] = perform_all(jobs(1), ["cpu"], 1)
    assert done.error == "ModuleNotFoundError: No module named 'gone'"
