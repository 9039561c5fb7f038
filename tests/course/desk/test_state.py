"""What the tool remembers: several commands at once, and folders that cannot be written to."""

import threading

import pytest

from course.curriculum import DAYS
from course.desk import progress, state
from course.judging.results import DayResult


def test_two_commands_at_once_lose_nothing(tmp_path, monkeypatch):
    """A verdict that comes while another is being kept waits for its turn."""
    monkeypatch.setattr(state, "FOLDER", tmp_path)
    first, second = DAYS[:2]
    recall = state.recall
    other = threading.Thread(target=lambda: state.keep_result(DayResult(second, ()), "mark"))

    def recall_with_the_other_beside(name):
        table = recall(name)
        if not other.ident:
            other.start()
            other.join(timeout=0.5)
        return table

    monkeypatch.setattr(state, "recall", recall_with_the_other_beside)
    state.keep_result(DayResult(first, ()), "mark")
    other.join()
    assert set(recall("results")) == {first.stem, second.stem}


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


def test_the_next_day_is_found_without_checking_what_passed(monkeypatch):
    """After a new version of the course every verdict is stale: the next day does not wait for them all."""
    first, second, third = DAYS[:3]
    monkeypatch.setattr(progress, "passed_days", lambda: [first, second])
    monkeypatch.setattr(progress, "is_untouched", lambda day, path: day in (second, third))
    monkeypatch.setattr(progress, "check_days", lambda days, *rest, **how: iter(days and [1 / 0]))
    assert progress.next_day() == second  # its stub is back
    monkeypatch.setattr(progress, "is_untouched", lambda day, path: day == third)
    assert progress.next_day() == third
