"""What the tool remembers between two runs: the last verdict on each file, and the hints already
given.

It lies in `.course/`, which git ignores. It may be deleted at any time, and a folder that cannot be
written to only makes the tool forgetful.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from course.curriculum import ROOT, Day
from course.judging.results import CheckResult, DayResult

FOLDER = ROOT / ".course"


def recall(name: str) -> dict[str, Any]:
    """The remembered table of this name; empty if there is none that can be read."""
    try:
        table = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def remember(name: str, table: dict[str, Any]) -> None:
    """Keep a table under this name, if the folder can be written to."""
    with contextlib.suppress(OSError):
        FOLDER.mkdir(exist_ok=True)
        target = FOLDER / f"{name}.json"
        draft = target.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(table, indent=1), encoding="utf-8")
        draft.replace(target)


def fingerprint(day: Day, answer: Path | None) -> str:
    """What a verdict depends on: the answer, the checks and the reference, as one digest."""
    files = [answer, day.checks, day.misconceptions, *(ROOT / file for file in day.references)]
    parts = [path.read_bytes() if path and path.exists() else b"" for path in files]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def belongs_on_board(answers: Path, seed: int, device: str = "cpu") -> bool:
    """Only verdicts on one's own exercises, on the usual inputs, are kept for the board."""
    return answers.resolve() == ROOT / "exercises" and seed == 0 and device == "cpu"


def keep_result(result: DayResult, mark: str) -> None:
    """Remember a day's verdict for the file that has this fingerprint."""
    table = recall("results")
    table[result.day.stem] = result.as_json() | {"fingerprint": mark, "begun": result.begun}
    remember("results", table)


def kept_result(day: Day, mark: str) -> DayResult | None:
    """The remembered verdict, if it is about this very file."""
    entry = recall("results").get(day.stem)
    if not isinstance(entry, dict) or entry.get("fingerprint") != mark:
        return None
    try:
        checks = tuple(
            CheckResult(
                c["name"],
                c["exercise"],
                c["status"],
                c["message"],
                misconception=c["misconception"],
                tier=c["tier"],
            )
            for c in entry["checks"]
        )
        return DayResult(day, checks, begun=entry["begun"])
    except (KeyError, TypeError):
        return None
