"""The explorer as its user starts it, and its pages open in a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from course.curriculum import ROOT
from tests.browser import LAPTOP, chromium, sync_api, visit

__all__ = ["chromium"]

DRAWN = ".drawn, .failed"


def pytest_itemcollected(item: pytest.Function) -> None:
    """To open a page takes four seconds of computing: `make test` does it for every third test."""
    if "opened" in item.fixturenames:
        item.add_marker(pytest.mark.by_turn)


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the learner's files."""
    folder = tmp_path_factory.mktemp("explorer") / "answers"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def explorer(answers: Path) -> Iterator[str]:
    """The address of `course explore`."""
    log = answers.parent / "log"
    command = [sys.executable, "-m", "course.cli", "explore", "--no-browser"]
    command += ["--answers", str(answers)]
    with (
        log.open("w") as said,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True, env=os.environ
        ) as server,
    ):
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, log.read_text()
        yield found[0].rstrip("/")
        server.terminate()


@pytest.fixture
def opened(explorer: str, chromium: sync_api.Browser) -> Iterator[Callable[..., sync_api.Page]]:
    """Opens a page of the explorer, ready; whatever goes wrong on it fails the test at its end."""
    with ExitStack() as stack:
        seen: list[list[str]] = []

        def open_page(path: str, width: int = LAPTOP, dark: bool = False) -> sync_api.Page:
            page, faults = stack.enter_context(visit(chromium, f"{explorer}/{path}", width, dark))
            seen.append(faults)
            page.wait_for_selector(DRAWN)
            return page

        yield open_page
        assert [fault for faults in seen for fault in faults] == []
