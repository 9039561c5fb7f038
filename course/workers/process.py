"""The process in which a learner's code runs: started ahead of time, used by one learner alone.

It imports what takes long, says that it is ready, and waits for requests on standard input. For each
it loads the answer and runs the checks, and sends what each of them saw, a frame each. It knows no
expected value and gives no verdict. Standard output is the channel of frames, so whatever the
learner prints goes to standard error, which the other side reads as mere text.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np  # noqa: F401  imported ahead of the request, as everything here is
import pytest  # noqa: F401

from course.checks.answers import Unreadable, begun, build_answer, read_answer
from course.checks.frames import from_bytes, read_frame, to_bytes, write_frame
from course.checks.loading import load_checks
from course.checks.observation import Observation
from course.checks.own import OwnParts
from course.checks.raising import raised
from course.checks.seeing import see
from course.curriculum import DAYS, ROOT, Day
from course.references.imports import references_cut
from course.workers.limits import MOST_MEMORY
from course.workers.listening import listening
from course.workers.traces import State

IDLE = 0.5  # seconds without a request, after which a worker is a spare one

Send = Callable[..., None]
"""Sends a message, and an observation if there is one."""

Serve = Callable[[dict[str, Any], Send], None]
"""Answers a request."""


def main(serve_others: Serve | None = None) -> None:
    """Wait for requests, and answer them.

    Args:
        serve_others: answers those that ask for no checks, as whoever starts this process wants it.
    """
    channel, replies = _private_channels()
    device = sys.argv[1] if len(sys.argv) > 1 else None
    if device is not None:
        _warm_up_torch(device)
    write_frame(replies, to_bytes({"ready": True}))
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(channel, requests), daemon=True).start()
    try:
        request = requests.get(timeout=IDLE)
    except queue.Empty:
        if device is not None:
            _warm_up_optimisers()
        request = requests.get()
    if device in (None, "cpu"):  # a GPU's driver reserves far more than it uses
        _limit_memory()
    sys.path[:] = [entry for entry in sys.path if entry not in ("", str(ROOT))]
    before = State()
    while True:
        _serve(*from_bytes(request), before, replies, serve_others)
        request = requests.get()


def _warm_up_torch(device: str) -> None:
    """Do once what takes long the first time: importing torch, its autograd; waking a GPU."""
    import torch  # not before it is asked for: it takes a second

    from course.checks.tensors import missing_device

    weight = torch.ones(2, 2, device="cpu" if missing_device(device) else device)
    weight.requires_grad_()
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]


def _warm_up_optimisers() -> None:
    """They import as much again, and few days need them: only a worker with time to kill does it."""
    import torch

    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()


def _private_channels() -> tuple[IO[bytes], IO[bytes]]:
    """Keep standard input and output for the frames; give the learner's code an empty and a noisy one."""
    requests = os.fdopen(os.dup(0), "rb")  # unbuffered, a long request would come in pieces
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)
    return requests, replies


def _listen(channel: IO[bytes], requests: queue.Queue[bytes]) -> None:
    """Take in requests. When the other side is gone, nobody waits for an endless loop any more."""
    while (request := read_frame(channel)) is not None:
        requests.put(request)
    os._exit(1)  # threads and exit handlers that the learner's code left behind have no say


def _limit_memory() -> None:
    """Have the system refuse what is too much, where it can: then Python names the line.

    Elsewhere the other side watches, and ends the process.
    """
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, hard))


def _serve(
    request: dict[str, Any],
    files: Observation,
    before: State,
    replies: IO[bytes],
    serve_others: Serve | None,
) -> None:
    def send(message: dict[str, Any], observation: Observation | None = None) -> None:
        sys.stdout.flush()
        write_frame(replies, to_bytes(message, observation))

    for path, leaf in files.items():  # behind walls the answer cannot be read where it lies
        Path(path).write_bytes(leaf.value.tobytes())
    if "day" in request:
        _observe(request, before, send)
    elif serve_others is not None:
        serve_others(request, send)


def _observe(request: dict[str, Any], before: State, send: Send) -> None:
    """Run the checks that were asked for, and send what each of them saw."""
    day = DAYS[request["day"] - 1]
    as_new = before.still_holds()
    stubs = request["stubs"]
    own = OwnParts(Path(request["answer"]).parent, lambda earlier: stubs[earlier.stem])
    with references_cut(request["cut"], day.number, own.part):
        checks = load_checks(day)
        answer, message = _load_answer(request, day, stubs[day.stem])
        send(message | {"as_new": as_new})
        if answer is None:
            return
        wanted = set(request["names"])
        with listening(request["listen"]) as called:
            for check in checks:
                if check.name in wanted and all(hasattr(answer, name) for name in check.uses):
                    seen = see(
                        check, answer, request["seed"], request["device"], file=request["shown"]
                    )
                    told = {
                        "check": check.name,
                        "raised": asdict(seen.raised) if seen.raised else None,
                        "damaged": seen.damaged,
                        "called": sorted(called),
                    }
                    send(told, seen.observation)


def _load_answer(
    request: dict[str, Any], day: Day, stub: str
) -> tuple[ModuleType | None, dict[str, Any]]:
    """The answer's module, and what to say of it: what is begun, what is missing, why it cannot be used."""
    shown = request["shown"]
    try:
        source = read_answer(Path(request["answer"]))
        answer = build_answer(shown, source)
        started = begun(source, stub, day.exercises)
    except Unreadable as error:
        return None, {"unreadable": str(error)}
    except (Exception, SystemExit) as error:
        return None, {"raised": asdict(raised(error, shown))}
    missing = [name for name in day.exercises if not hasattr(answer, name)]
    return answer, {"begun": started, "missing": missing}
