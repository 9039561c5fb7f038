"""The process in which a learner's code runs, started in advance and used for only one learner.

It reports that it is ready, and waits for requests on standard input. For each request, it loads
the answer, runs the checks, and sends a frame with the observation of each check. It knows no
expected values and makes no verdicts. Standard output is the channel of frames, so the learner's
prints go to standard error, which the parent process reads as plain text.

It measures the CPU time of the learner's own code, and stops if that exceeds the limit. The parent
process does not rely on this: it has limits of its own, which are generous enough for a busy
machine.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np  # noqa: F401  imported ahead of the request, as everything here is
import pytest  # noqa: F401

from course.checks.answer_files import Unreadable, begun, build_answer, read_answer
from course.checks.clock import CLOCK, leave_imports_out
from course.checks.earlier_parts import EarlierParts, NotDone
from course.checks.frames import from_bytes, read_frame, to_bytes, write_frame
from course.checks.loading import Check, load_checks
from course.checks.observation import Observation
from course.checks.raising import has_lost_gpu, raised
from course.checks.seeing import see
from course.curriculum import BY_NUMBER, ROOT, Day
from course.references.imports import redacted_imports
from course.workers.limits import MAX_MEMORY, MAX_PRINTED, PATIENCE
from course.workers.preparing import IDLE, imports_ahead, prepare, run_uncompiled, uncompiled
from course.workers.snapshot import ProcessSnapshot
from course.workers.tracing import tracing_calls

POLL_SECONDS = 0.05  # seconds between two looks at the learner's clock

Send = Callable[..., None]
"""Sends a message, and an observation if there is one."""

Serve = Callable[[dict[str, Any], Send], None]
"""Answers a request."""


def main(device: str | None = None, serving: str = "", forked: bool = False) -> None:
    """Wait for requests, and answer them.

    Args:
        device: the device on which torch will compute, if torch is needed.
        serving: the module whose `serve` answers requests that ask for no checks.
        forked: whether a server imports ahead for its workers: none of them has to.
    """
    channel = Channel()
    run_uncompiled()
    if device is not None:
        _warm_up_torch(device)
    serve_others = importlib.import_module(serving).serve if serving else None
    CLOCK.follow_this_thread()
    leave_imports_out()
    channel.send({"ready": True})
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(channel, requests), daemon=True).start()
    threading.Thread(target=_watch_the_clock, args=(channel,), daemon=True).start()
    request = _first(requests, iter(()) if device is None or forked else imports_ahead())
    if device in (None, "cpu"):  # a GPU's driver reserves far more than it uses
        _limit_memory()
    sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT))]
    before = ProcessSnapshot()
    while True:
        channel.make_room()
        _serve(*from_bytes(request, trusted=True), before, channel.send, serve_others)
        request = requests.get()


def _warm_up_torch(device: str) -> None:
    """Do once what takes long the first time: importing torch, its autograd; waking a GPU."""
    import torch  # not before it is asked for: it takes a second

    from course.checks.tensors import missing_device

    torch.compile = uncompiled  # type: ignore[assignment]
    weight = torch.ones(2, 2, device="cpu" if missing_device(device) else device)
    weight.requires_grad_()
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]


def _first(requests: queue.Queue[bytes], ahead: Iterator[str]) -> bytes:
    """The first request; while there is none, something more is imported at each step."""
    patience = IDLE
    while True:
        try:
            return requests.get(timeout=patience)
        except queue.Empty:
            if next(ahead, None) is None:
                return requests.get()
            patience = 0.001


class Channel:
    """Standard input and output, reserved for frames; the learner's code gets an empty input, and
    standard error as output."""

    def __init__(self) -> None:
        # Unbuffered, a long request would come in pieces.
        self.requests = os.fdopen(os.dup(0), "rb")
        self._replies = os.fdopen(os.dup(1), "wb", buffering=0)
        self._turn = threading.Lock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        self._printed = [_Printed(1), _Printed(2)]
        sys.stdout, sys.stderr = map(_as_text, self._printed)

    def send(self, message: dict[str, Any], observation: Observation | None = None) -> None:
        """Send one frame."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed by the learner's code
                stream.flush()
        data = to_bytes(message, observation)
        with self._turn:
            write_frame(self._replies, data)

    def make_room(self) -> None:
        """Reset the limit of printed text for the next request."""
        for stream in self._printed:
            stream.room = _Printed.MAX_BYTES

    def stop_if_overran(self) -> None:
        """Report that the learner's code took too long, and end, unless it has just finished."""
        with self._turn:
            if CLOCK.runs and CLOCK.seconds > PATIENCE:
                write_frame(self._replies, to_bytes({"overran": True}))
                os._exit(1)


class _Printed(io.RawIOBase):
    """What is printed: passed on, off the learner's clock, until it is more than anybody reads."""

    MAX_BYTES = 4 * MAX_PRINTED  # bytes: a character has four at most

    def __init__(self, file: int) -> None:
        super().__init__()
        self.room = self.MAX_BYTES
        self._file = file

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file

    def write(self, data: Any) -> int:
        size = len(data)
        if self.room > 0:
            with CLOCK.stopped():
                remaining = memoryview(data)[: self.room]
                self.room -= len(remaining)
                while remaining:
                    remaining = remaining[os.write(self._file, remaining) :]
        return size


def _as_text(stream: _Printed) -> IO[str]:
    return io.TextIOWrapper(
        io.BufferedWriter(stream), encoding="utf-8", errors="replace", line_buffering=True
    )


def _watch_the_clock(channel: Channel) -> None:
    """Beside the learner's code: end it when it has computed too long."""
    while True:
        time.sleep(POLL_SECONDS)
        if CLOCK.runs and CLOCK.seconds > PATIENCE:
            channel.stop_if_overran()


def _listen(channel: Channel, requests: queue.Queue[bytes]) -> None:
    """Take in requests. When the other side is gone, an endless loop ends as well."""
    while (request := read_frame(channel.requests)) is not None:
        requests.put(request)
    os._exit(1)  # threads and exit handlers that the learner's code left behind have no say


def _limit_memory() -> None:
    """Have the system refuse what is too much, where it can: then Python names the line.

    Elsewhere the other side watches, and ends the process.
    """
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        unlimited = hard == resource.RLIM_INFINITY  # login nodes of clusters allow less than we do
        allowed = MAX_MEMORY if unlimited else min(MAX_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def _serve(
    request: dict[str, Any],
    files: Observation,
    before: ProcessSnapshot,
    send: Send,
    serve_others: Serve | None,
) -> None:
    for path, leaf in files.items():  # in the sandbox the answer cannot be read where it lies
        Path(path).write_bytes(leaf.value.tobytes())
    if "day" in request:
        _observe(request, before, send)
    elif serve_others is not None:
        serve_others(request, send)


def _observe(request: dict[str, Any], before: ProcessSnapshot, send: Send) -> None:
    """Run the checks that were asked for, and send what each of them saw."""
    day = BY_NUMBER[request["day"]]
    as_new = before.is_clean()
    stubs = request["stubs"]
    own = EarlierParts(Path(request["answer"]).parent, lambda earlier: stubs[earlier.stem])
    with redacted_imports(request["references"], day.number, own.part):
        prepare(day.number, request["thoroughly"])
        lacking: dict[str, str] = {}
        checks: list[Check] = []
        try:
            checks = load_checks(day)
        except NotDone as error:  # in an edition the checks, too, use the learner's earlier parts
            lacking = {"lacking": str(error)}
        with tracing_calls(request["listen"]) as trace:
            answer, message = _load_answer(request, day, stubs[day.stem])
            send(message | lacking | {"as_new": as_new})
            if answer is None or lacking:
                return
            names = set(request["names"])
            for check in checks:
                if check.name in names and all(hasattr(answer, name) for name in check.uses):
                    run = see(
                        check, answer, request["seed"], request["device"], file=request["shown"]
                    )
                    reply = {
                        "check": check.name,
                        "raised": asdict(run.raised) if run.raised else None,
                        "damaged": run.damaged,
                        "lost_gpu": has_lost_gpu(run.exception),
                        "called": trace.so_far(),
                        "seconds": CLOCK.seconds,
                    }
                    send(reply, run.observation)
                    if reply["lost_gpu"]:
                        return


def _load_answer(
    request: dict[str, Any], day: Day, stub: str
) -> tuple[ModuleType | None, dict[str, Any]]:
    """The answer's module, and what to say of it: what is begun, what is missing, why it cannot be used."""
    shown = request["shown"]
    try:
        source = read_answer(Path(request["answer"]))
        with CLOCK.started():
            answer = build_answer(shown, source)
        started = begun(source, stub, day.exercises)
    except NotDone as error:
        return None, {"begun": begun(source, stub, day.exercises), "lacking": str(error)}
    except Unreadable as error:
        return None, {"unreadable": str(error)}
    except (Exception, SystemExit) as error:
        return None, {"raised": asdict(raised(error, shown))}
    missing = [name for name in day.exercises if not hasattr(answer, name)]
    return answer, {"begun": started, "missing": missing}
