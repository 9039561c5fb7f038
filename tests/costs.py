"""A plugin of pytest: what the tests of each folder cost in CPU seconds, children included, beside a budget.

CPU and not wall seconds, so that a busy machine changes little. What is still running is counted when a
process goes on to another folder. `--budget` measures each test as well, and fails where one or a folder
costs too much.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import Counter

import psutil
import pytest

# CPU seconds of `make test` with empty caches, on a machine that needs one for `import torch`.
BUDGET = {
    "collection": 50,
}
# Tests over a CPU second that `make test` runs all the same, and what each would be the only one to catch.
REPRESENTATIVES = {}
MAX_REPRESENTATIVES = 60
ROOM = 1.5  # `--budget` fails where something costs so many times what it may: clocks of CPUs vary
FOLDERS: Counter[str] = Counter()  # of this process and, in the controller, of its workers
TESTS: Counter[str] = Counter()  # with --budget


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


def scale() -> float:
    """Return the CPU seconds that this machine takes to import torch: those of the budget are for one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Costs:
    """Counts in each process, and adds up in the controller."""

    def __init__(self, each_test: bool) -> None:
        self.each_test = each_test
        self.before = 0.0

    def note(self, name: str) -> None:
        """Count what was spent since the last call for a folder."""
        now = spent()
        FOLDERS[name] += max(0.0, now - self.before)
        self.before = now

    def pytest_collection_finish(self) -> None:
        self.note("collection")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        before = spent() if self.each_test else 0.0
        result = yield
        if self.each_test:
            TESTS[item.nodeid] = spent() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        result = yield
        if nextitem is None or folder_of(nextitem.nodeid) != folder_of(item.nodeid):
            self.note(folder_of(item.nodeid))
        return result

    def pytest_sessionfinish(self, session) -> None:
        if hasattr(session.config, "workeroutput"):
            self.note("the end")
            session.config.workeroutput["costs"] = (dict(FOLDERS), dict(TESTS))
        elif self.each_test and (faults := over(scale())):
            print("\nOver their budget:", *faults, sep="\n    ")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        folders, tests = getattr(node, "workeroutput", {}).get("costs", ({}, {}))
        FOLDERS.update(folders)
        TESTS.update(tests)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.section("CPU seconds, and the budget with empty caches")
        for name, seconds in FOLDERS.most_common():
            terminalreporter.write_line(f"{seconds:8.0f} {BUDGET.get(name, ''):8}  {name}")
        terminalreporter.write_line(
            f"{sum(FOLDERS.values()):8.0f} {sum(BUDGET.values()):8}  in all"
        )


def over(second: float) -> list[str]:
    """Name the folders and tests that cost more than they may, and representatives that are none.

    Args:
        second: what stands for a CPU second of the budget on this machine.
    """
    most = ROOM * second
    listed = {nodeid.partition("[")[0] for nodeid in REPRESENTATIVES}
    folders = [
        f"{name}: {FOLDERS[name]:.0f} s"
        for name, line in BUDGET.items()
        if FOLDERS[name] > most * line
    ]
    tests = [
        f"{nodeid}: {seconds:.1f} s, and is neither slow nor a representative"
        for nodeid, seconds in TESTS.most_common()
        if seconds > most and nodeid.partition("[")[0] not in listed
    ]
    absent = [f"{nodeid}: not run" for nodeid in REPRESENTATIVES if nodeid not in TESTS]
    return [*folders, *tests, *absent]


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--budget", action="store_true", help="fail where a folder or a test costs too much"
    )


def pytest_configure(config) -> None:
    config.pluginmanager.register(Costs(config.getoption("--budget")), "costs-of-folders")
