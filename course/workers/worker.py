"""Start a worker, send it requests, and receive its messages, whatever it does.

This is portable on purpose: threads read the pipes, and this process measures the worker's time and
memory.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from course.checks.frames import (
    MAX_HEADER_BYTES,
    BadFrame,
    from_bytes,
    read_frame,
    to_bytes,
    write_frame,
)
from course.checks.observation import Observation
from course.curriculum import ROOT
from course.workers.forking import CAN_FORK, Forked, NoServer, end_family, fork
from course.workers.limits import (
    CRASHED,
    GIBBERISH,
    LOST,
    MAX_MEMORY,
    MAX_PRINTED,
    PATIENCE,
    STARTING,
    TOO_LONG,
    TOO_MUCH,
    WAITING,
)

POLL_SECONDS = 0.02  # seconds between two looks at the memory

Result = TypeVar("Result")
Wait = Generator[None, None, Result]
"""A wait that yields every `POLL_SECONDS` seconds, so that the caller can do other work."""

Reply = tuple[dict[str, Any], Observation]


def run_to_end(wait: Generator[Any, None, Result]) -> Result:
    """Run a generator to its end."""
    while True:
        try:
            next(wait)
        except StopIteration as done:
            result: Result = done.value
            return result


class WorkerStopped(Exception):
    """The worker sends no more messages. The text says why, in the learner's words."""

    status = "error"


class NotStarted(Exception):
    """The worker never became ready. This is not the answer's fault."""


class TimedOut(WorkerStopped):
    """The worker took too long and was stopped."""

    status = "timed_out"


class Overran(TimedOut):
    """By the learner's own clock, which the rest of the machine cannot make run faster."""


class OutOfMemory(WorkerStopped):
    """The worker used too much memory and was stopped."""

    status = "out_of_memory"


class WorkerLost(WorkerStopped):
    """The worker has ended, and the reason is unknown."""


def program(root: str, torch_on: str | None, serving: str = "") -> str:
    """Return the Python program of a worker that is a new interpreter.

    Args:
        root: the parent folder of this package, in the worker's file system.
        torch_on: the device to prepare, if torch will be needed.
        serving: the module whose `serve` answers requests that ask for no checks.
    """
    return (
        f"import sys; sys.path.insert(0, {root!r}); from course.workers.process import main; "
        f"main({torch_on!r}, {serving!r})"
    )


class Spawned(subprocess.Popen[bytes]):
    """A process of a new interpreter."""

    def __init__(self, command: Sequence[str], inherits: Sequence[int] = ()) -> None:
        super().__init__(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle (ignored on Windows)
            pass_fds=inherits,
        )

    @property
    def process(self) -> psutil.Process | None:
        """The process, while it exists."""
        try:
            return psutil.Process(self.pid)
        except psutil.Error:
            return None

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.process is not None:
            end_family(self.process)
        self.wait()


class Worker:
    """One process that runs the code of one answer."""

    def __init__(self, torch_on: str | None = None, serving: str = "") -> None:
        """Start the worker.

        Args:
            torch_on: the device to prepare, if torch will be needed.
            serving: the module whose `serve` answers requests that ask for no checks.
        """
        self._process = self._started(torch_on, serving)
        self._ready = False
        self._spent = 0.0
        self.slept = 0.0
        """Seconds in which it was waited for, and none of its threads had anything to compute."""
        self.ended = False
        self._frames: queue.Queue[bytes | Exception | None] = queue.Queue(maxsize=8)
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        self._printed: list[str] = []
        self._printing = threading.Thread(target=self._read_prints, daemon=True)
        self._printing.start()
        threading.Thread(target=self._read_frames, daemon=True).start()
        threading.Thread(target=self._write_requests, daemon=True).start()

    def _started(self, torch_on: str | None, serving: str) -> Spawned | Forked:
        """A process without a sandbox: a fork where there can be one, or else a new interpreter."""
        if CAN_FORK:
            with contextlib.suppress(NoServer):
                return fork(torch_on, serving)
        # -P keeps the current folder off the path, where a learner's `random.py` could shadow a library.
        return Spawned([sys.executable, "-P", "-c", program(str(ROOT), torch_on, serving)])

    @property
    def printed(self) -> str:
        """Return what the learner's code printed, cut to a length that can be shown."""
        self._printing.join(
            timeout=0.2 if self.ended else POLL_SECONDS
        )  # what it has said is on its way
        return "".join(self._printed)

    def send(self, request: dict[str, Any], files: Observation | None = None) -> None:
        """Send a request, once the worker is ready.

        Raises:
            NotStarted: the worker did not start.
        """
        run_to_end(self.sending(request, files))

    def sending(self, request: dict[str, Any], files: Observation | None = None) -> Wait[None]:
        """Do the same, yielding during the wait."""
        if not self._ready:
            try:
                yield from self.receiving(STARTING, STARTING)
            except WorkerLost:
                raise
            except WorkerStopped as stop:
                words = "The process that runs your code did not start: try `course doctor`."
                raise NotStarted(f"{words}\n{self.printed[-1000:]}") from stop
            self._ready = True
            self.slept = 0.0  # a cold disk is nobody's sleep
        self._requests.put(to_bytes(request, files))

    def receive(
        self, computing: float = PATIENCE, waiting: float = WAITING, sleeping: float = WAITING
    ) -> Reply:
        """Return the next message, with its observation.

        Args:
            computing: the maximum CPU seconds until the message.
            waiting: the maximum wall seconds.
            sleeping: those of them in which it may sleep, however busy the machine is.

        Raises:
            WorkerStopped: the worker died, sent an invalid message, or (`TimedOut`, `OutOfMemory`)
                had to be stopped.
        """
        return run_to_end(self.receiving(computing, waiting, sleeping))

    def receiving(
        self, computing: float = PATIENCE, waiting: float = WAITING, sleeping: float = WAITING
    ) -> Wait[Reply]:
        """Do the same, yielding during the wait."""
        computed, slept, since = self.computed, self.slept, time.monotonic()
        polled = since
        while True:
            try:
                frame = self._frames.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._check_memory()
                before, polled = polled, time.monotonic()
                if is_asleep(self._threads()):
                    # No more than was looked at: a computer that stood still made nobody sleep.
                    self.slept += min(polled - before, 2 * POLL_SECONDS)
                spent, waited = self.computed - computed, polled - since
                if spent > computing or waited > waiting or self.slept - slept > sleeping:
                    self.end()
                    limit = computing if spent > computing else round(waited)
                    raise TimedOut(TOO_LONG.format(limit)) from None
                yield
                continue
            try:
                if isinstance(frame, bytes):
                    message, observation = from_bytes(frame, MAX_HEADER_BYTES)
                    if message.get("overran"):
                        self.end()
                        raise Overran(TOO_LONG.format(PATIENCE))
                    return message, observation
            except BadFrame:
                frame = BadFrame()
            self.end()
            if isinstance(frame, Exception):
                raise WorkerStopped(GIBBERISH)
            raise self._last_words()

    def end(self) -> None:
        """End the process and its children."""
        if self.ended:
            return
        self._spent = self.computed
        self.ended = True
        self._requests.put(None)
        self._process.kill()

    @property
    def computed(self) -> float:
        """Return the CPU seconds that the process has used."""
        return self._spent if self.ended else self._computing()

    def _computing(self) -> float:
        """Seconds of CPU time that it has had so far; 0 where that cannot be seen any more."""
        return seconds(self._process.process)

    def _threads(self) -> Iterator[str]:
        """The states of its threads and those of its child processes, as Linux writes them."""
        process = self._process.process
        if process is not None and CAN_FORK:
            yield from thread_states(process.pid)
            with contextlib.suppress(psutil.Error):
                for child in process.children(recursive=True):
                    yield from thread_states(child.pid)

    def _check_memory(self) -> None:
        with contextlib.suppress(psutil.Error):
            process = self._process.process
            if process is not None and process.memory_info().rss > MAX_MEMORY:
                self.end()
                raise OutOfMemory(TOO_MUCH)

    def _last_words(self) -> WorkerStopped:
        code = self._process.wait()
        return WorkerLost(LOST) if code is None else self._ended_by(code)

    def _ended_by(self, code: int) -> WorkerStopped:
        """What an exit code means."""
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
                return self._frames.put(frame, timeout=POLL_SECONDS)
        return None

    def _read_prints(self) -> None:
        assert self._process.stderr is not None
        room = MAX_PRINTED
        while data := self._process.stderr.read1(65536):  # type: ignore[attr-defined]
            if room > 0:
                text = data.decode("utf-8", "replace")[:room]
                room -= len(text)
                self._printed.append(text if room > 0 else text + "\n… and more\n")


def thread_states(process: int) -> Iterator[str]:
    """Each thread's state: R runs or waits for a processor, T was stopped, all others wait for something."""
    for stat in Path("/proc", str(process), "task").glob("*/stat"):
        with contextlib.suppress(OSError):
            yield chr(stat.read_bytes().rpartition(b") ")[2][0])


def is_asleep(states: Iterable[str]) -> bool:
    """Whether no thread has anything to compute, or was kept from it; never so where nothing is known."""
    is_known = False
    for state in states:
        if state in "RT":
            return False
        is_known = True
    return is_known


def seconds(process: psutil.Process | None) -> float:
    """Return the CPU time that a process has used; 0 if it has ended."""
    with contextlib.suppress(psutil.Error):
        if process is not None:
            times = process.cpu_times()
            return float(times.user + times.system)
    return 0.0
