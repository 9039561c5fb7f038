"""What the tool remembers: several commands at once, and folders that cannot be written to."""

import json
import subprocess
import sys

import pytest

from course.desk import state

KEEP = """
import sys
from pathlib import Path
from course.curriculum import DAYS
from course.desk import state
from course.judging.results import DayResult

state.FOLDER = Path(sys.argv[1])
for day in DAYS[int(sys.argv[2]) :: 2]:
    state.keep_result(DayResult(day, ()), "mark")
"""


def test_two_commands_at_once_lose_nothing(tmp_path):
    """One keeps verdicts on odd days while the other keeps those on even days."""
    both = [subprocess.Popen([sys.executable, "-c", KEEP, str(tmp_path), first]) for first in "01"]
    assert [process.wait() for process in both] == [0, 0]
    assert len(json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))) == 40


def test_nothing_is_left_beside_the_table(tmp_path, monkeypatch):
    """Nor where the table cannot be replaced, as on Windows while somebody reads it."""
    monkeypatch.setattr(state, "FOLDER", tmp_path)
    with state.changing("hints") as table:
        table["day"] = 1
    monkeypatch.setattr(type(tmp_path), "replace", _refuse)
    with state.changing("hints") as table:
        table["day"] = 2
    assert state.recall("hints") == {"day": 1}
    assert {path.name for path in tmp_path.iterdir()} <= {"hints.json", "hints.lock"}


@pytest.mark.parametrize("error", [PermissionError(), NotImplementedError()])
def test_without_a_lock_the_table_is_changed_all_the_same(tmp_path, monkeypatch, error):
    """Some shared folders have no locks."""
    monkeypatch.setattr(state, "FOLDER", tmp_path)
    monkeypatch.setattr("filelock.FileLock.acquire", lambda *_, **__: _refuse(error))
    with state.changing("hints") as table:
        table["day"] = 1
    assert state.recall("hints") == {"day": 1}


def _refuse(*arguments):
    raise arguments[0] if isinstance(arguments[0], Exception) else PermissionError()
