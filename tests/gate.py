"""`make test`: what a change affects, wholly, and of the rest a share by turn; `make quick`: the first alone.

    python -m tests.gate [--affected]

Types, imports between rooms, stubs and solutions are checked beside the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from course.curriculum import ROOT
from tests import affected
from tests.affected import DAY_TESTS, PAGE_TESTS, Plan
from tests.notebooks import compare
from tests.selection import turn

BESIDE = ("make", "--no-print-directory", "-s", "consistency", "types")


def main(only_affected: bool) -> int:
    """Run it. Returns the exit status."""
    os.environ[compare.QUICK] = "1"
    plan = affected.now()
    tell(plan)
    wanted = compare.chosen(plan, None if only_affected else turn())
    tests = arguments(plan) if only_affected else ["tests"]
    print(f"{len(wanted)} of {len(list(compare.notebooks()))} notebooks are run.", flush=True)
    with tempfile.TemporaryFile("w+") as said:
        beside = subprocess.Popen(BESIDE, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
        status = run([*map(str, wanted), *tests], only_affected, compare.Recorder(wanted))
        failed = beside.wait()
        said.seek(0)
        print(said.read(), end="")
    return int(bool(status or failed))


def run(what: list[str], only_affected: bool, recorder: compare.Recorder) -> int:
    """Run notebooks and tests in one pool of processes."""
    if not what:
        return 0
    options = ["-n", "auto", "--maxfail", "3", "-q", "-p", "tests.costs", *compare.NBVAL]
    options += ["--affected"] if only_affected else []
    return int(pytest.main([*options, *what], plugins=[recorder]))


def arguments(plan: Plan) -> list[str]:
    """Return the files of tests to be named: what a change affects."""
    chosen = {*(DAY_TESTS if plan.days else ()), *(PAGE_TESTS if plan.pages else ())}
    return sorted(plan.tests | chosen)


def tell(plan: Plan) -> None:
    """Print what is run wholly, and of what it is not known what it affects."""
    if plan.changed is None:
        print("HEAD has no parent here, so no change is known: tests are chosen by turn alone.")
    if plan.unknown:
        print(
            f"What these affect is not known: {', '.join(sorted(plan.unknown))}. Run make thorough."
        )
    if plan.tests or plan.days:
        days = ", ".join(str(day.number) for day in sorted(plan.days, key=lambda day: day.number))
        print(
            f"The change affects {len(plan.tests)} files of tests and the days {days or '(none)'}."
        )


if __name__ == "__main__":
    sys.exit(main("--affected" in sys.argv))
