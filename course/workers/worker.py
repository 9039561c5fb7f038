"""A worker seen from outside: started, asked, and heard out, whatever it does.

Portable on purpose: threads read the pipes, the clock is ours, memory is watched from outside.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import psutil

from course.checks.frames import BadFrame, from_bytes, read_frame, to_bytes, write_frame
from course.checks.observation import Observation
from course.curriculum import ROOT
from course.workers.limits import (
    CRASHED,
    GIBBERISH,
    IDLE,
    MOST_MEMORY,
    MOST_PRINTED,
    PATIENCE,
    STARTING,
    TOO_MUCH,
)

LOOK = 0.02  # seconds between two looks at the memory


class WorkerStopped(Exception):
    """No more is to be heard of this worker. Its text says why, in the learner's words."""

    status = "error"


class NotStarted(Exception):
    """A worker never was ready. No answer is to blame."""


class TimedOut(WorkerStopped):
    """It took too long and was ended."""

    status = "timed_out"


class OutOfMemory(WorkerStopped):
    """It took too much memory and was ended."""

    status = "out_of_memory"


def program(root: str, serving: str = "") -> str:
    """The Python program of a worker.

    Args:
        root: the folder of this package's parent, as the worker sees it.
        serving: the module whose `serve` answers requests that ask for no checks.
    """
    main = f"from {serving} import serve; main(serve)" if serving else "main()"
    return (
        f"import sys; sys.path.insert(0, {root!r}); from course.workers.process import main; {main}"
    )


def command(serving: str = "") -> list[str]:
    """What starts a worker without walls, on this machine."""
    # -P keeps the current folder off the path, where a learner's `random.py` could shadow a library.
    return [sys.executable, "-P", "-c", program(str(ROOT), serving)]


class Worker:
    """One process that runs the code of one answer."""

    def __init__(
        self,
        torch_on: str | None = None,
        start: Sequence[str] = (),
        inherits: Sequence[int] = (),
    ) -> None:
        """Start it.

        Args:
            torch_on: the device that is made ready, where torch will be needed.
            start: what starts it, behind whatever walls; without any, the plain command.
            inherits: open files that it is handed.
        """
        self._process = subprocess.Popen(
            [*(start or command()), *([torch_on] if torch_on else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle (ignored on Windows)
            pass_fds=inherits,
        )
        self._ready = False
        self._spent = 0.0
        self.ended = False
        self._frames: queue.Queue[bytes | Exception | None] = queue.Queue(maxsize=8)
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        self._printed: list[str] = []
        self._printing = threading.Thread(target=self._read_prints, daemon=True)
        self._printing.start()
        threading.Thread(target=self._read_frames, daemon=True).start()
        threading.Thread(target=self._write_requests, daemon=True).start()

    @property
    def printed(self) -> str:
        """What the learner's code printed, cut to a length that can be shown."""
        self._printing.join(timeout=0.2 if self.ended else LOOK)  # what it has said is on its way
        return "".join(self._printed)

    def ask(self, request: dict[str, Any], files: Observation | None = None) -> None:
        """Send a request, once the worker is ready.

        Raises:
            NotStarted: it did not start.
        """
        if not self._ready:
            try:
                self.hear(STARTING)
            except WorkerStopped as stop:
                words = "The process that runs your code did not start: try `course doctor`."
                raise NotStarted(f"{words}\n{self.printed[-1000:]}") from stop
            self._ready = True
        self._requests.put(to_bytes(request, files))

    def hear(self, patience: float = PATIENCE) -> tuple[dict[str, Any], Observation]:
        """The next thing it says.

        Args:
            patience: seconds that it may compute first. Other programs may keep it from computing, so
                the clock on the wall is given more.

        Raises:
            WorkerStopped: it died, spoke gibberish, or (`TimedOut`, `OutOfMemory`) had to be ended.
        """
        computed, deadline = self.computed, time.monotonic() + IDLE * patience
        while True:
            try:
                frame = self._frames.get(timeout=LOOK)
            except queue.Empty:
                self._look_at_memory()
                if self.computed - computed > patience or time.monotonic() > deadline:
                    self.end()
                    raise TimedOut(
                        f"Your code was still running after {patience:g} seconds: is there an endless loop?"
                    ) from None
                continue
            try:
                if isinstance(frame, bytes):
                    return from_bytes(frame)
            except BadFrame:
                frame = BadFrame()
            self.end()
            if isinstance(frame, Exception):
                raise WorkerStopped(GIBBERISH)
            raise self._last_words()

    def end(self) -> None:
        """End the process and those it started."""
        if self.ended:
            return
        self._spent = self.computed
        self.ended = True
        self._requests.put(None)
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        self._process.kill()
        self._process.wait()

    @property
    def computed(self) -> float:
        """Seconds of CPU time that it has had."""
        return self._spent if self.ended else self._computing()

    def _computing(self) -> float:
        """Seconds of CPU time that it has had so far; 0 where that cannot be seen any more."""
        return seconds(self._process.pid)

    def _look_at_memory(self) -> None:
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self._process.pid).memory_info().rss
            if used > MOST_MEMORY:
                self.end()
                raise OutOfMemory(TOO_MUCH)

    def _last_words(self) -> WorkerStopped:
        code = self._process.wait()
        if code < 0:
            return WorkerStopped(CRASHED.format(-code))
        return WorkerStopped(f"Your code ended the whole Python process (exit code {code}).")

    def _read_frames(self) -> None:
        assert self._process.stdout is not None
        frame: bytes | Exception | None = b""
        while isinstance(frame, bytes) and not self.ended:
            try:
                frame = read_frame(self._process.stdout)
            except (ValueError, OSError) as error:
                frame = error
            self._hand_on(frame)

    def _write_requests(self) -> None:
        """Beside everything else: who reads nothing must not keep us from hearing that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (request := self._requests.get()) is not None:
                write_frame(self._process.stdin, request)

    def _hand_on(self, frame: bytes | Exception | None) -> None:
        """Wait until there is room for it: who floods the channel fills no memory of ours."""
        while not self.ended:
            with contextlib.suppress(queue.Full):
                return self._frames.put(frame, timeout=LOOK)
        return None

    def _read_prints(self) -> None:
        assert self._process.stderr is not None
        room = MOST_PRINTED
        while data := self._process.stderr.read1(65536):  # type: ignore[attr-defined]
            if room > 0:
                text = data.decode("utf-8", "replace")[:room]
                room -= len(text)
                self._printed.append(text if room > 0 else text + "\n… and more\n")


def seconds(process: int) -> float:
    """CPU time that a process has had; 0 where it is there no more."""
    try:
        times = psutil.Process(process).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
