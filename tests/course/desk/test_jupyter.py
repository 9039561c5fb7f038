"""`course lesson` in a terminal: Jupyter starts, shows the copy, and is ended by Ctrl-C, without a word."""

import json
import sys
import urllib.request

import pytest

pexpect = pytest.importorskip("pexpect")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")


@pytest.fixture
def lesson(project):
    """The command in a terminal, with a browser that opens nothing."""
    child = pexpect.spawn(
        project.command[0],
        [*project.command[1:], "lesson", "2"],
        cwd=str(project.root),
        env=project.environment(BROWSER="true", TERM="xterm", COLUMNS="80"),
        encoding="utf-8",
        timeout=300,
        dimensions=(24, 80),
    )
    yield child
    child.close(force=True)


def end(child) -> str:
    """Press Ctrl-C, and return what is printed after that."""
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    return child.before


@pytest.mark.slow
def test_it_shows_the_copy_and_ends(lesson):
    """Its root is the repository, so that the copy, the notes and the stub are all to be had."""
    lesson.expect("Starting Jupyter")
    lesson.expect(r"Its address: http://127.0.0.1:(\d+)/lab/tree/(\S+)\?token=(\S+)")
    port, page, token = lesson.match.groups()
    assert page == "my/lessons/day02_attention.ipynb"
    for path in (page, "exercises/day02_attention.py"):
        address = f"http://127.0.0.1:{port}/api/contents/{path}?token={token}&content=0"
        with urllib.request.urlopen(address) as answer:
            assert json.load(answer)["path"] == path
    assert end(lesson).strip() == "^C\r\nJupyter has ended. What you saved is kept."


@pytest.mark.slow
def test_it_ends_while_it_starts(lesson):
    """Ctrl-C before Jupyter listens leaves neither a traceback nor a question."""
    lesson.expect("Ctrl-C here ends it")
    assert end(lesson).strip().endswith("^C\r\nJupyter has ended. What you saved is kept.")
