"""The server that forks workers, on Linux: it has finished the slow imports, and computed nothing.

A fork of it is a worker within milliseconds, whereas a new interpreter needs seconds of CPU to
import torch. It runs none of the learner's code, has one thread, and never calls CUDA: a fork would
lose other threads, and cannot use CUDA if its parent has initialized it.

It gets requests through a socket (`course/workers/forking.py`): each message is a JSON object and
four open files. Three become the worker's standard input, output and error. To the fourth the
server writes the worker's process id and, once it has ended, its exit code. When the other end of
the socket is closed, the server ends its workers and itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

from course.workers import process
from course.workers.forking import COMPILER, NUMPY, READY
from course.workers.preparing import imports_ahead, run_uncompiled

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
MAX_MESSAGE_BYTES = 4096
NUMBER = 8  # bytes of a number that is sent


def main() -> None:
    """Fork a worker for each message on the socket whose descriptor the command line names."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    kind = sys.argv[2]
    run_uncompiled()
    if kind != NUMPY:
        importlib.import_module("course.checks.tensors")
    if kind == COMPILER:
        for _ in imports_ahead():
            pass
    if threading.active_count() > 1 or len([*Path("/proc/self/task").iterdir()]) > 1:
        sys.exit("A library started a thread when it was imported: forks would lack it.")
    channel.send(READY)
    ForkServer(channel).serve()


class ForkServer:
    """Forks workers, and reports how they end."""

    def __init__(self, channel: socket.socket) -> None:
        """Create a server of the requests on a socket, without forking anything."""
        self._channel = channel
        self._reports: dict[int, int] = {}  # the file to report to, by the worker's process id
        self._ended, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page it looks at

    def serve(self) -> NoReturn:
        """Serve until the other end of the socket is closed."""
        while True:
            channel = self._channel.fileno()
            ready, _, _ = select.select([channel, self._ended], [], [])
            if self._ended in ready:
                self._report()
            if channel in ready:
                data, files = self._request()
                if not data:
                    self._end_all()
                self._fork(data, files)

    def _request(self) -> tuple[bytes, list[int]]:
        """The next message, and its files; nothing if the other end is closed."""
        try:
            data, files, _, _ = socket.recv_fds(self._channel, MAX_MESSAGE_BYTES, 4)
        except ConnectionError:  # it was closed before it had read that the server is ready
            return b"", []
        return data, files

    def _fork(self, data: bytes, files: list[int]) -> None:
        *standard, report = files
        server = os.getpid()
        worker = os.fork()
        if worker == 0:
            self._become_worker(data, files, server)
        for file in standard:
            os.close(file)
        self._reports[worker] = report
        _send(report, worker)

    def _become_worker(self, data: bytes, files: list[int], server: int) -> NoReturn:
        code = 1
        try:
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != server:  # it died before that was asked for
                os._exit(1)
            os.setsid()  # its group ends with it, and so does whatever it started
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in range(3):
                os.dup2(files[number], number)
            self._channel.close()
            for file in (*files, *self._reports.values(), self._ended, self._wake):
                os.close(file)
            request = json.loads(data)
            process.main(request["torch_on"], request["serving"], forked=True)
            code = 0
        except BaseException:  # whatever it is, it must not get into the server's loop
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _report(self) -> None:
        """Report the workers that have ended, and end what they started."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 4096)
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, look):
                worker = ended.si_pid
                _end_group(worker)  # before its number can be another's
                _, status = os.waitpid(worker, 0)
                report = self._reports.pop(worker)
                _send(report, os.waitstatus_to_exitcode(status))
                os.close(report)

    def _end_all(self) -> NoReturn:
        for worker in self._reports:
            _end_group(worker)
        os._exit(0)  # taking torch down in order would take a while


def _end_group(worker: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)


def _send(file: int, number: int) -> None:
    with contextlib.suppress(OSError):  # the client is gone
        os.write(file, number.to_bytes(NUMBER, "little", signed=True))


if __name__ == "__main__":
    main()
