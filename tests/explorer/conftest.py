"""The explorer as its user starts it, its pages open in a browser, and what they draw without one."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import marimo
import pytest
from bs4 import BeautifulSoup

from course.curriculum import ROOT
from tests.browser import LAPTOP, chromium, sync_api, visit

__all__ = ["chromium"]

DRAWN = ".drawn, .failed"
OPENED_AT_ONCE = "test_a_page_fits_and_keeps_nobody_out[attention]"


class View(NamedTuple):
    """What a page makes of an address."""

    html: BeautifulSoup
    """What all of its cells show; of widgets only the tag."""
    names: Mapping[str, Any]
    """What its cells define, its controls among them."""

    def texts(self, selector: str) -> list[str]:
        return [" ".join(element.get_text().split()) for element in self.html.select(selector)]

    def text(self, selector: str = DRAWN) -> str:
        return " ".join(self.texts(selector))


def pytest_itemcollected(item: pytest.Function) -> None:
    """To open a page takes five seconds of computing: what does so is slow, but for one."""
    if "opened" in item.fixturenames and item.name != OPENED_AT_ONCE:
        item.add_marker(pytest.mark.slow)


@pytest.fixture
def viewed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], View]:
    """Runs a page's cells in this process, which takes a hundredth of what a browser does.

    The folder of the learner's files is the test's own.
    """
    monkeypatch.setenv("COURSE_ANSWERS", str(tmp_path))

    def view(path: str) -> View:
        name, _, query = path.partition("/?")
        query_params = dict(parse_qsl(query, keep_blank_values=True))
        monkeypatch.setattr(marimo, "query_params", lambda: query_params)
        page = importlib.import_module(f"explorer.{name.strip('/')}")
        outputs, names = page.app.run()
        shown = "".join(output.text for output in outputs if isinstance(output, marimo.Html))
        return View(BeautifulSoup(shown, "html.parser"), names)

    return view


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
        log.open("w") as log_file,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log_file, text=True, env=os.environ
        ) as server,
    ):
        assert server.stdout is not None
        match = re.search(r"http://\S+", server.stdout.readline())
        assert match, log.read_text()
        yield match[0].rstrip("/")
        server.terminate()


@pytest.fixture
def opened(explorer: str, chromium: sync_api.Browser) -> Iterator[Callable[..., sync_api.Page]]:
    """Opens a page of the explorer, ready; whatever goes wrong on it fails the test at its end."""
    with ExitStack() as stack:
        all_faults: list[list[str]] = []

        def open_page(path: str, width: int = LAPTOP, dark: bool = False) -> sync_api.Page:
            page, faults = stack.enter_context(visit(chromium, f"{explorer}/{path}", width, dark))
            all_faults.append(faults)
            page.wait_for_selector(DRAWN)
            return page

        yield open_page
        assert [fault for faults in all_faults for fault in faults] == []
