"""Run Jupyter on a learner's copy of a notebook: in the repository's root, without its log, until
Ctrl-C."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from course.curriculum import ROOT

PATIENCE = 10  # seconds that Jupyter may take to end its kernels
MAX_LINES = 12  # of its log, where it cannot start


class JupyterFailed(RuntimeError):
    """Jupyter has ended unexpectedly. The message is the end of its log."""


def serve(notebook: Path, say: Callable[[str], None]) -> None:
    """Show a notebook in Jupyter until Ctrl-C.

    Args:
        notebook: a file of the repository.

    Raises:
        JupyterFailed: Jupyter has ended with an error before Ctrl-C.
    """
    port, token = _free_port(), secrets.token_urlsafe(16)
    with tempfile.TemporaryFile() as log, _ending_well():
        jupyter = _started(command(notebook, port), os.environ | {"JUPYTER_TOKEN": token}, log)
        try:
            with _uninterrupted():  # Ctrl-C within a print would print the line twice
                say(
                    "Starting Jupyter. It opens in your browser in a few seconds; Ctrl-C here ends it."
                )
            if _listens(jupyter, port):
                page = quote(notebook.relative_to(ROOT).as_posix())
                say(f"Its address: http://127.0.0.1:{port}/lab/tree/{page}?token={token}")
            jupyter.wait()
        except KeyboardInterrupt:
            say("\nJupyter has ended. What you saved is kept.")
            return
        finally:
            _end(jupyter)
        if jupyter.returncode:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            raise JupyterFailed("\n".join(lines[-MAX_LINES:]))


def command(notebook: Path, port: int) -> list[str]:
    """Return the command that opens a notebook such that links to any file of the repository work.

    Jupyter refuses root, the user of most containers, without `--allow-root`; `course check` runs
    the same code as root already.
    """
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Windows has no such function
    return [
        *(sys.executable, "-m", "jupyter", "lab", str(notebook)),
        *(f"--ServerApp.root_dir={ROOT}", "--ip=127.0.0.1", f"--port={port}"),
        "--ServerApp.port_retries=0",  # at another port, the address that is printed would be wrong
        *(["--allow-root"] if is_root else []),
    ]


def _started(
    command: list[str], environment: dict[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A process that does not hear Ctrl-C, even while it starts, and has no terminal to ask in."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows: the same
    )


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the block, where the system can do that (not on Windows)."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _ending_well() -> Iterator[None]:
    """Within it, closing the terminal and `kill` are as Ctrl-C: Jupyter does not outlive this process."""
    names = ("SIGHUP", "SIGTERM")  # Windows has no SIGHUP
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (getattr(signal, name) for name in names if hasattr(signal, name))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listens(jupyter: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it takes connections. False if it ends before that."""
    while jupyter.poll() is None:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


def _end(jupyter: subprocess.Popen[bytes]) -> None:
    """End Jupyter with its kernels, immediately if Ctrl-C is pressed again."""
    jupyter.terminate()
    try:
        jupyter.wait(PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        jupyter.kill()
        jupyter.wait()


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
