"""The state that the tool keeps between runs: verdicts, hints already given, and when a lesson is recalled.

It is stored in `.course/`, which git ignores. It may be deleted at any time. If the folder is not writable,
nothing is stored.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.curriculum import DAYS, ROOT, Day
from course.judging.results import RUNNING, CheckResult, DayResult

FOLDER = ROOT / ".course"
KEPT = ("name", "exercise", "status", "message", "misconception", "device", "tier")  # of a check
MAX_WAIT_SECONDS = 5.0  # seconds for another command, which needs a few milliseconds


def recall(name: str) -> dict[str, Any]:
    """Return the stored table of this name; empty if there is none that can be read."""
    try:
        table = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


@contextlib.contextmanager
def changing(name: str) -> Iterator[dict[str, Any]]:
    """Yield the stored table of this name, to be changed, and store it afterwards.

    A second command that changes it has to wait, so `course watch` and `course check` can run at
    the same time.
    """
    from filelock import FileLock  # takes a twelfth of a second

    with contextlib.ExitStack() as alone:
        # A lock that cannot be had leaves the tool forgetful, and no command without an answer.
        with contextlib.suppress(OSError, NotImplementedError):
            FOLDER.mkdir(exist_ok=True)
            alone.enter_context(FileLock(FOLDER / f"{name}.lock", timeout=MAX_WAIT_SECONDS))
        table = recall(name)
        yield table
        with contextlib.suppress(OSError):
            _write(FOLDER / f"{name}.json", table)


def _write(target: Path, table: dict[str, Any]) -> None:
    draft = target.with_suffix(f".{os.getpid()}")
    try:
        draft.write_text(json.dumps(table, indent=1), encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def belongs_on_board(answers: Path, seed: int, device: str = "cpu") -> bool:
    """Return whether the board shows a verdict: only on the learner's own exercises, with the usual
    inputs."""
    return answers.resolve() == ROOT / "exercises" and seed == 0 and device == "cpu"


def keep_result(result: DayResult, mark: str) -> None:
    """Store a day's verdict, with the digest of what it depends on."""
    if any(check.status == RUNNING for check in result.checks):
        return  # it is not the whole verdict
    with changing("results") as table:
        table[result.day.stem] = result.as_json() | {"fingerprint": mark, "begun": result.begun}


def kept_result(day: Day, mark: str | None = None) -> DayResult | None:
    """Return the stored verdict if it is about the file with this digest; without a digest, about any
    file."""
    entry = recall("results").get(day.stem)
    if not isinstance(entry, dict) or mark not in (None, entry.get("fingerprint")):
        return None
    try:
        checks = [{name: check[name] for name in KEPT} for check in entry["checks"]]
        return DayResult(day, tuple(CheckResult(**check) for check in checks), begun=entry["begun"])
    except (KeyError, TypeError):
        return None


def passed_days() -> list[Day]:
    """Return the days whose stored verdict is a pass, whether or not their files have changed."""
    table = recall("results")
    verdicts = {day: table.get(day.stem) for day in DAYS}
    return [
        day
        for day, verdict in verdicts.items()
        if isinstance(verdict, dict) and verdict.get("status") == "passed"
    ]
