"""`course explore` at its end: somebody presses Ctrl-C, or closes the terminal, while a page is open."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from course.curriculum import ROOT
from tests.browser import chromium, sync_api, visit
from tests.explorer.conftest import DRAWN

__all__ = ["chromium"]

# It may be started with Ctrl-C ignored, as by a shell in the background.
HEARD = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
HEARD += "runpy.run_module('course.cli', run_name='__main__')"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_ends_while_a_page_is_open(chromium: sync_api.Browser, name: str) -> None:
    command = [sys.executable, "-c", HEARD, "explore", "softmax", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        with visit(chromium, found[0]) as (page, _):
            page.wait_for_selector(DRAWN)
            server.send_signal(getattr(signal, name))
            said, _ = server.communicate()
    assert "Traceback" not in said
    assert server.returncode in (0, -getattr(signal, name))
