"""Which notebooks are run and compared with what they printed (nbval), and the record of those that passed.

    python -m tests.notebooks.compare      every notebook that has not passed as it is

A notebook that passed is not run again as long as its code cells with their outputs, the code that it
imports, Python, torch and the CPU's model are the same: `tests/record.py` remembers that. Prose, comments
and docstrings do not count.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from course.curriculum import DAYS, ROOT, Day
from tests.affected import Plan, name_of
from tests.changes import base, changed_since, git
from tests.imports import code_cells, needed_by
from tests.record import digest_of, note, passed
from training.cores import cores

NBVAL = ("-p", "tests.notebooks.kernels", "--nbval")
QUICK = (
    "COURSE_QUICK"  # fewer seeds in cells of which nothing is compared, in the gate's kernels alone
)
SECONDS = Path(__file__).with_name("seconds.json")  # CPU seconds of each notebook in the gate
AT_A_TURN = 60.0  # CPU seconds of notebooks that are run although no change affects them


def inputs(day: Day, notebook: Path) -> frozenset[Path]:
    """Return the files on which a notebook's outputs depend. A solution also runs the day's checks."""
    return needed_by(notebook) | ({day.checks} if notebook == day.solution else set())


def digest(day: Day, notebook: Path) -> str:
    """Return a digest of all that a notebook's outputs depend on."""
    files = [f"{name_of(file)} {_meaning(file)}" for file in sorted(inputs(day, notebook))]
    return digest_of([os.environ.get(QUICK, ""), *files])


@functools.cache
def _meaning(file: Path) -> str:
    return meaning(file.name, file.read_text(encoding="utf-8"))


def meaning(name: str, text: str) -> str:
    """Return what can change an output: of a notebook its code and outputs, of Python its syntax tree."""
    if name.endswith(".ipynb"):
        cells = code_cells(text)
        return repr(
            [(one["source"], one["outputs"], one["metadata"].get("quick")) for one in cells]
        )
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""  # a docstring
    return ast.dump(tree)


def differing(commit: str | None) -> set[str] | None:
    """Return the files of which the meaning differs from a commit's; None where that cannot be known."""
    changed = changed_since(commit)
    if changed is None:
        return None
    return {name for name in changed if name.endswith((".py", ".ipynb")) and _differs(name, commit)}


def _differs(name: str, commit: str | None) -> bool:
    old = git("show", f"{commit}:{name}")
    return old is None or not (ROOT / name).is_file() or meaning(name, old) != _meaning(ROOT / name)


def notebooks(days: Collection[Day] = DAYS) -> Iterator[tuple[Day, Path]]:
    """Find the lessons and solutions of days, and what they belong to."""
    for day in days:
        yield from ((day, file) for file in (day.lesson, day.solution) if file.exists())


def chosen(plan: Plan, turn: int | None) -> dict[Path, str]:
    """Return the notebooks that are run, with their digests: of those that have not passed as they are, the
    ones that a change affects and the ones of which it is the turn.

    Args:
        plan: what the change affects.
        turn: the turn; None if only what is affected is run.
    """
    meant = differing(base()) or set()
    at_turn = set() if turn is None else set(batches()[turn % len(batches())])
    found = {}
    for day, notebook in notebooks():
        own = {name_of(notebook), *day.references, name_of(day.checks)}
        affected = name_of(notebook) in meant or (day in plan.days and not meant.isdisjoint(own))
        if affected or notebook in at_turn:
            now = digest(day, notebook)
            if passed(record_of(notebook)) != now:
                found[notebook] = now
    return found


@functools.cache
def batches() -> list[list[Path]]:
    """Return all notebooks in groups of about `AT_A_TURN` CPU seconds, lessons before solutions."""
    seconds = json.loads(SECONDS.read_text(encoding="utf-8"))
    made: list[list[Path]] = [[]]
    spent = 0.0
    for _, notebook in sorted(notebooks(), key=lambda one: one[1].parent.name):
        cost = seconds.get(name_of(notebook), AT_A_TURN)
        if made[-1] and spent + cost > AT_A_TURN:
            made.append([])
            spent = 0.0
        made[-1].append(notebook)
        spent += cost
    return made


def record_of(notebook: Path) -> str:
    """Return the name by which it is recorded that a notebook passed."""
    return f"{notebook.parent.name}-{notebook.stem}"


class Recorder:
    """A plugin of pytest that records each notebook of a complete run of which no cell failed."""

    def __init__(self, wanted: Mapping[Path, str]) -> None:
        self.wanted = wanted
        self.outcomes: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[0]
        self.outcomes[name] = self.outcomes.get(name, True) and not report.failed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            for notebook, now in self.wanted.items():
                if self.outcomes.get(name_of(notebook)):
                    note(record_of(notebook), now)


def main() -> int:
    """Run every notebook that has not passed as it is. Returns the exit status."""
    wanted = {file: digest(day, file) for day, file in notebooks()}
    left = {file: now for file, now in wanted.items() if passed(record_of(file)) != now}
    print(f"{len(left)} of {len(wanted)} notebooks are run.", flush=True)
    if not left:
        return 0
    options = ["-n", str(cores() + 1), "--dist", "loadfile", *NBVAL, "-q"]
    return int(pytest.main([*options, *map(str, left)], plugins=[Recorder(left)]))


if __name__ == "__main__":
    sys.exit(main())
