"""A plugin of pytest: what the tests of each folder cost in CPU seconds, children included.

CPU and not wall seconds, so that a busy machine changes nothing. What is still running is counted when a
process goes on to another folder.
"""

from __future__ import annotations

import os
from collections import Counter

import psutil
import pytest

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

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        ENDED.update(getattr(node, "workeroutput", {}).get("costs", {}))

    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.section("CPU seconds")
        for name, seconds in ENDED.most_common():
            terminalreporter.write_line(f"{seconds:8.0f}  {name}")
        terminalreporter.write_line(f"{sum(ENDED.values()):8.0f}  in all")


def pytest_configure(config) -> None:
    config.pluginmanager.register(Costs(), "costs-of-folders")
