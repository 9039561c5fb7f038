"""A plugin of pytest: what the tests of each folder cost in CPU seconds, children included, beside a budget.

CPU and not wall seconds, so that a busy machine changes nothing. What is still running is counted when a
process goes on to another folder.
"""

from __future__ import annotations

import os
from collections import Counter

import psutil
import pytest

# CPU seconds of `make test` on two cores of a shared virtual machine, where no change affects anything.
BUDGET = {
    "collection": 60,
    "lessons": 60,
    "solutions": 30,
    "tests/course/assembly": 30,
    "tests/course/checks": 60,
    "tests/course/desk": 80,
    "tests/course/edition": 60,
    "tests/course/grading": 70,
    "tests/course/hostile": 70,
    "tests/course/judging": 40,
    "tests/course/test_days.py": 120,
    "tests/course/workers": 90,
    "tests/explorer": 90,
    "tests/laboratory": 80,
    "tests/reference": 40,
    "tests/training": 200,
    "tests/variants": 80,
    "tests/website": 70,
}
ROOM = 1.5  # `--budget` fails where a folder costs so many times its line
ENDED: Counter[str] = Counter()  # of this process and, in the controller, of its workers


def folder_of(nodeid: str) -> str:
    """Return the line of the table that a test counts for: its folder, or its file in `tests/course`."""
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[:3] if parts[:2] == ["tests", "course"] else parts[:-1][:2])


def spent() -> float:
    """Return the CPU seconds of this process, its descendants included."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:  # it ended meanwhile
            continue
    return total


class Costs:
    """Counts in each process, and adds up in the controller."""

    def __init__(self) -> None:
        self.before = 0.0

    def note(self, name: str) -> None:
        """Count what was spent since the last call for a name."""
        now = spent()
        ENDED[name] += max(0.0, now - self.before)
        self.before = now

    def pytest_collection_finish(self) -> None:
        self.note("collection")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        done = yield
        if nextitem is None or folder_of(nextitem.nodeid) != folder_of(item.nodeid):
            self.note(folder_of(item.nodeid))
        return done

    def pytest_sessionfinish(self, session) -> None:
        if hasattr(session.config, "workeroutput"):
            self.note("the end")
            session.config.workeroutput["costs"] = dict(ENDED)
        elif session.config.getoption("--budget") and over():
            print("\nOver their budget:", *over())
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        ENDED.update(getattr(node, "workeroutput", {}).get("costs", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.section("CPU seconds, and their budget where nothing is affected")
        for name, seconds in ENDED.most_common():
            terminalreporter.write_line(f"{seconds:8.0f} {BUDGET.get(name, ''):8}  {name}")
        terminalreporter.write_line(f"{sum(ENDED.values()):8.0f} {sum(BUDGET.values()):8}  in all")


def over() -> list[str]:
    """Name the folders that cost more than their line allows."""
    return [name for name, line in BUDGET.items() if ENDED[name] > ROOM * line]


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--budget",
        action="store_true",
        help="run what has its turn alone, and fail where it costs too much",
    )


def pytest_configure(config) -> None:
    config.pluginmanager.register(Costs(), "costs-of-folders")
