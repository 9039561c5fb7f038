"""Cells in processes side by side, each of which takes one cell after the other.

A worker process ends with its parent, however that ends, so that none trains for a study that is gone.
"""

from __future__ import annotations

import json
import multiprocessing
import queue
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from laboratory.study.description import Cell
from laboratory.study.results import CellResult
from training.checkpoints import previous, write_atomically
from training.cores import end_with_parent
from training.errors import Refused
from training.loop.run_folder import Run

SEEN = "seen.json"
SPAWN = multiprocessing.get_context("spawn")  # no fork after torch has run


@dataclass(frozen=True)
class Job:
    """A cell to run, and its folder."""

    cell: Cell
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the cell was run to its end."""
        return (self.folder / SEEN).exists()

    def read(self) -> CellResult:
        """Read the result of a finished cell."""
        entry = json.loads((self.folder / SEEN).read_text(encoding="utf-8"))
        return CellResult(**{**entry, "curve": [(step, loss) for step, loss in entry["curve"]]})

    def keep(self, result: CellResult) -> None:
        """Write the result, and delete what only resuming needs: it is most of a run's bytes."""
        write_atomically(self.folder / SEEN, json.dumps(vars(result)).encode())
        run = Run(self.folder)
        for path in (run.state, previous(run.state), run.best):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class JobResult:
    """How a job ended: its result, or the reason that it has none."""

    job: Job
    result: CellResult | None
    error: str = ""


def perform_all(jobs: Sequence[Job], devices: Sequence[str], threads: int) -> Iterator[JobResult]:
    """Run cells, as many side by side as there are devices, and give each as it is done.

    Args:
        jobs: in the order in which they are begun.
        devices: one for each process; a device may be named more than once.
        threads: of each process, on the CPU.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    ended: queue.SimpleQueue[JobResult] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    workers = [_Worker(device, threads) for device in devices[: len(jobs)]]
    for worker in workers:
        threading.Thread(target=_keep_busy, args=(worker, waiting, ended), daemon=True).start()
    try:
        for _ in jobs:
            yield ended.get()
    finally:
        for worker in workers:
            worker.end()


def _keep_busy(
    worker: _Worker, waiting: queue.SimpleQueue[Job], ended: queue.SimpleQueue[JobResult]
) -> None:
    while not worker.ended:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            done = worker.perform(job)
        except Exception as error:  # whatever it is, as the parent waits for every job
            done = JobResult(job, None, f"{type(error).__name__}: {error}")
        ended.put(done)


class _Worker:
    """A process, started again where it has died.

    Attributes:
        ended: whether nothing more is wanted of it.
    """

    def __init__(self, device: str, threads: int):
        self._device, self._threads = device, threads
        self.ended = False
        self._turn = threading.Lock()
        """Held while a process is started, or ended: none is started after the end."""
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def perform(self, job: Job) -> JobResult:
        if self._process is None or self._pipe is None:
            try:
                with self._turn:
                    if self.ended:
                        return JobResult(job, None, "stopped before its process was started")
                    self._process, self._pipe = self._started()
            except OSError as error:
                return JobResult(
                    job,
                    None,
                    f"its process could not be started ({error.strerror}): try fewer --jobs",
                )
        try:
            self._pipe.send(job)
            return self._pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            self._process.join()
            how = self._process.exitcode
            self._process = self._pipe = None
            return JobResult(job, None, f"its process ended with {how}: perhaps memory ran out")

    def _started(self) -> tuple[BaseProcess, Connection]:
        """A new process, and our end of its pipe."""
        ours, theirs = SPAWN.Pipe()
        with theirs:
            arguments = (theirs, self._device, self._threads)
            process = SPAWN.Process(target=_serve, args=arguments, daemon=True)
            process.start()
        return process, ours

    def end(self) -> None:
        """Kill the process, whatever it is doing; a cell resumes from its last checkpoint."""
        with self._turn:
            self.ended = True
            if self._process is not None:
                self._process.kill()


def _serve(pipe: Connection, device: str, threads: int) -> None:
    """Perform one cell after the other until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with_parent()
    import torch  # here: the process that starts others needs none

    from laboratory.running.cell import perform

    torch.set_num_threads(threads)
    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        try:
            result = perform(job.cell, job.folder, device)
            job.keep(result)
            done = JobResult(job, result)
        except Refused as error:
            done = JobResult(job, None, str(error))
        except Exception as error:  # of a recipe or of the machine: the other cells are performed
            done = JobResult(job, None, f"{type(error).__name__}: {error}")
        pipe.send(done)
