"""Compare what notebooks print with what they printed (nbval): those that a change concerns, and a sample.

    python -m tests.notebooks.compare            what `make test` does
    python -m tests.notebooks.compare --all      every notebook that has not passed as it is

A notebook that passed is not run again as long as its code cells with their outputs, the code that it
imports, Python, torch and the CPU's model are the same: `tests/record.py` remembers that. Prose, comments
and docstrings do not count.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from course.curriculum import DAYS, ROOT, Day
from tests.changes import changed_since, git, parent, seed
from tests.conftest import processes
from tests.imports import code_cells, needed_by
from tests.record import digest_of, note, passed

NBVAL = ("-p", "tests.notebooks.kernels", "--nbval")
SHARE = 3  # every third lesson is run although none of its inputs has changed


def inputs(day: Day, notebook: Path) -> frozenset[Path]:
    """Return the files on which a notebook's outputs depend. A solution also runs the day's checks."""
    return needed_by(notebook) | ({day.checks} if notebook == day.solution else set())


def digest(day: Day, notebook: Path) -> str:
    """Return a digest of all that a notebook's outputs depend on."""
    return digest_of(
        [f"{name_of(file)} {_meaning(file)}" for file in sorted(inputs(day, notebook))]
    )


@functools.cache
def _meaning(file: Path) -> str:
    return meaning(file.name, file.read_text(encoding="utf-8"))


def meaning(name: str, text: str) -> str:
    """Return what can change an output: of a notebook its code and outputs, of Python its syntax tree."""
    if name.endswith(".ipynb"):
        return repr([(cell["source"], cell["outputs"]) for cell in code_cells(text)])
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


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def notebooks(days: Collection[Day] = DAYS) -> Iterator[tuple[Day, Path]]:
    """Find the lessons and solutions of days, and what they belong to."""
    for day in days:
        yield from ((day, file) for file in (day.lesson, day.solution) if file.exists())


def chosen(changed: set[str] | None, number: int) -> dict[Path, str]:
    """Return the notebooks that `make test` runs, with their digests.

    These are the ones that are not recorded as they are now, and either were recorded with other
    inputs, or have an input among the changed files, or are lessons of the sample.

    Args:
        changed: the files that mean something else; None, which runs everything, where unknown.
        number: draws the sample.
    """
    found = {}
    for day, notebook in notebooks():
        now, known = digest(day, notebook), passed(record_of(notebook))
        sampled = notebook == day.lesson and (day.number + number) % SHARE == 0
        differs = changed is None or not changed.isdisjoint(map(name_of, inputs(day, notebook)))
        if known != now and (known or sampled or differs):
            found[notebook] = now
    return found


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


def compare(wanted: Mapping[Path, str]) -> int:
    """Run notebooks and compare their outputs. Returns the exit status."""
    print(f"{len(wanted)} of {len(list(notebooks()))} notebooks are run.", flush=True)
    if not wanted:
        return 0
    options = ["-n", str(processes()), "--dist", "loadfile", *NBVAL, "-q"]
    return int(pytest.main([*options, *map(str, wanted)], plugins=[Recorder(wanted)]))


if __name__ == "__main__":
    changed = None if "--all" in sys.argv else differing(parent())
    sys.exit(compare(chosen(changed, seed())))
