"""`course explore` at its end: somebody presses Ctrl-C, or closes the terminal, while a page is open."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
import uvicorn
from click.testing import Result
from typer.testing import CliRunner

from course.cli import app
from course.curriculum import ROOT
from explorer import explore_command, page_server
from tests.browser import chromium, sync_api, visit
from tests.explorer.conftest import DRAWN

__all__ = ["chromium"]

# It may be started with Ctrl-C ignored, as by a shell in the background.
HEARD = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
HEARD += "runpy.run_module('course.cli', run_name='__main__')"


@pytest.fixture
def explored(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command up to where it would serve; its browser is never opened."""

    class Ended(SystemExit):
        pass

    def end(_: int) -> None:
        raise Ended(0)

    opened: list[str] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    monkeypatch.setattr(page_server, "application", lambda: None)
    monkeypatch.setattr(explore_command.os, "_exit", end)
    monkeypatch.setattr(explore_command.webbrowser, "open", opened.append)
    monkeypatch.setattr(explore_command.socket, "gethostname", lambda: "container")

    def invoke(*arguments: str) -> Result:
        done = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["explore", *arguments])
        assert len(opened) <= 1
        done.opened = bool(opened)  # type: ignore[attr-defined]
        return done

    return invoke


def test_by_default_it_listens_to_this_machine_alone(explored: Callable[..., Result]) -> None:
    done = explored()
    assert re.search(r"http://127\.0\.0\.1:\d+/\n", done.stdout)
    assert done.stderr == ""


def test_another_host_is_warned_of(explored: Callable[..., Result]) -> None:
    """The address is one that another machine can use, and no browser is opened here."""
    done = explored("softmax", "--host", "0.0.0.0")
    assert re.search(r"http://container:\d+/softmax/", done.stdout)
    assert "Everyone who can reach this address can open the pages" in done.stderr
    assert not done.opened  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["no such host", "203.0.113.7"])
def test_a_host_that_is_not_this_machine_s_is_refused(
    explored: Callable[..., Result], host: str
) -> None:
    done = explored("--host", host)
    assert done.exit_code == 2
    assert host in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_ends_while_a_page_is_open(chromium: sync_api.Browser, name: str) -> None:
    command = [sys.executable, "-c", HEARD, "explore", "softmax", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        match = re.search(r"http://\S+", server.stdout.readline())
        assert match
        with visit(chromium, match[0]) as (page, _):
            page.wait_for_selector(DRAWN)
            server.send_signal(getattr(signal, name))
            output, _ = server.communicate()
    assert "Traceback" not in output
    assert server.returncode in (0, -getattr(signal, name))


def test_on_windows_no_port_is_shared(monkeypatch):
    """There, `SO_REUSEADDR` lets a second explorer take the same port."""
    monkeypatch.setattr(explore_command.sys, "platform", "win32")
    with explore_command._listening("127.0.0.1", 0) as listening:
        assert not listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
