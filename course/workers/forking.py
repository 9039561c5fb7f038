"""The client of the fork server, which is started when the first worker is needed."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import psutil

from course.curriculum import ROOT

NUMPY, TORCH, COMPILER = "numpy", "torch", "torch and its compiler"
"""What a server has imported. The compiler takes three seconds, and few workers need it: the first ones come
from a server without it."""
READY = b"ready"  # what a server sends once it has imported all of that
NUMBER = 8  # bytes of a number that the server sends
ENDING = 5.0  # seconds in which a killed process is gone, unless the machine stands still

CAN_FORK = sys.platform == "linux"  # on macOS a fork with torch loaded may crash; Windows has none

PROGRAM = "import sys; sys.path.insert(0, {!r}); from course.workers.server import main; main()"


class NoServer(Exception):
    """There is no fork server, so a worker is a new interpreter."""


class Forked:
    """A process that the server has forked, with the interface of `subprocess.Popen`."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], report: int) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        """Its exit code, once it has ended and the server has said so."""
        self._report = os.fdopen(report, "rb", buffering=0)
        self._process: psutil.Process | None = None
        self._was_announced = False

    @property
    def process(self) -> psutil.Process | None:
        """The process: None before the fork, or if the fork failed."""
        if not self._was_announced and self._number_comes(0.0):
            number, self._was_announced = self._number(), True
            with contextlib.suppress(psutil.Error):  # it may be gone already
                self._process = psutil.Process(number) if number is not None else None
        return self._process

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.process is not None:
            end_family(self.process)

    def wait(self) -> int | None:
        """Return the exit code; None if the server ended before it could report the code."""
        if self._number_comes(ENDING):
            _ = self.process  # its number comes first, if it has not been read yet
            if self.returncode is None and self._number_comes(ENDING):
                self.returncode = self._number()
        return self.returncode

    def close(self) -> None:
        """Release the process. If it is forked only later, it reads the end of its requests, and ends."""
        self._report.close()

    def _number_comes(self, seconds: float) -> bool:
        if self._report.closed:
            return False
        poll = select.poll()  # `select` takes no descriptor above 1023
        poll.register(self._report, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _number(self) -> int | None:
        data = self._report.read(NUMBER)
        return int.from_bytes(data, "little", signed=True) if data else None


class ServerClient:
    """A fork server, with one kind of imports, that serves this process."""

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        self._owner = os.getpid()
        self._code = _signature()
        self._is_ready = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM.format(str(ROOT)), str(theirs.fileno()), kind],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at the terminal is not meant for it
                pass_fds=[theirs.fileno()],
                # A thread of OpenBLAS's would be missing in each fork.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )

    @property
    def is_current(self) -> bool:
        """Return whether the server is alive, belongs to this process, and has the current code of the
        course."""
        return (
            self._owner == os.getpid()
            and self._process.poll() is None
            and self._code == _signature()
        )

    def fork(self, torch_on: str | None, serving: str) -> Forked:
        """Request a worker, which is ready within milliseconds, or when the server has started.

        Raises:
            NoServer: the server has ended.
        """
        stdin, requests = os.pipe()
        replies, stdout = os.pipe()
        prints, stderr = os.pipe()
        report, reporting = os.pipe()
        request = json.dumps({"torch_on": torch_on, "serving": serving}).encode()
        forked = Forked(
            os.fdopen(requests, "wb"), os.fdopen(replies, "rb"), os.fdopen(prints, "rb"), report
        )
        try:
            socket.send_fds(self._channel, [request], [stdin, stdout, stderr, reporting])
        except OSError as error:
            forked.close()
            raise NoServer from error
        finally:
            for file in (stdin, stdout, stderr, reporting):
                os.close(file)
        return forked

    @property
    def is_ready(self) -> bool:
        """Return whether it has finished its imports: a fork comes at once."""
        with contextlib.suppress(OSError):
            self._is_ready = self._is_ready or bool(
                self._channel.recv(len(READY), socket.MSG_DONTWAIT)
            )
        return self._is_ready

    @property
    def has_failed(self) -> bool:
        """Return whether the server ended unexpectedly, so that a new one would, too."""
        return (self._process.poll() or 0) > 0

    def close(self) -> None:
        """End the server and its workers."""
        self._channel.close()


_servers: dict[str, ServerClient] = {}
_retired: list[ServerClient] = []  # they live as long as workers of theirs may be in use
_turn = threading.Lock()


def fork(torch_on: str | None, serving: str) -> Forked:
    """Return a worker, forked from a server that is started if there is none yet.

    Raises:
        NoServer: there is no fork server.
    """
    with _turn:
        if torch_on is None:
            return _server(NUMPY).fork(torch_on, serving)
        again = TORCH in _servers  # who asks again will go on asking: `watch` does at every save
        server = _server(TORCH)
        if again:
            with contextlib.suppress(NoServer):
                compiler = _server(COMPILER)
                server = compiler if compiler.is_ready else server
        return server.fork(torch_on, serving)


def _server(kind: str) -> ServerClient:
    """The server of a kind, as the course's code is now.

    Raises:
        NoServer: it ended unexpectedly.
    """
    server = _servers.get(kind)
    if server is not None and server.has_failed:
        raise NoServer
    if server is None or not server.is_current:
        if server is not None:
            _retired.append(server)
        server = _servers[kind] = ServerClient(kind)
    return server


@atexit.register
def close_servers() -> None:
    """End the servers of this process; the next worker starts a new server."""
    for server in (*_servers.values(), *_retired):
        server.close()
    _servers.clear()
    _retired.clear()


def end_family(process: psutil.Process) -> None:
    """Kill a process and its children."""
    with contextlib.suppress(psutil.Error):
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    with contextlib.suppress(psutil.Error):
        process.kill()


def _signature() -> tuple[tuple[str, int, int], ...]:
    """The course's own files as they are now: a server that has imported others is out of date."""
    signature = []
    for path in _code():
        with contextlib.suppress(OSError):
            status = path.stat()
            signature.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(signature)


@functools.cache
def _code() -> list[Path]:
    rooms = ("", "references", "checks", "workers", "assembly")
    return [path for room in rooms for path in sorted((ROOT / "course" / room).glob("*.py"))]
