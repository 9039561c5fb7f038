"""Where submissions are graded: in processes beside this one, or on other machines.

Either takes a task as JSON (`submit`) and gives a future, whose `result` is JSON or raises `WorkerDied`.
It works on `width` tasks at once.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import psutil

from course.grading.job import grade_as_json
from course.workers.limits import MAX_MEMORY
from training.cores import cores, end_with_parent


class WorkerDied(Exception):
    """The process that worked on a task has died, or was lost."""


class ProcessPool:
    """Processes of this machine."""

    def __init__(self, width: int) -> None:
        """Start them, as many as are to work at once."""
        self.width = width
        self._pool = self._start()

    def submit(self, task: str) -> Future[str]:
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)  # for a new process to inherit
        try:
            return self._pool.submit(grade_as_json, task)
        except BrokenProcessPool:  # one that died takes the others with it
            self._pool = self._start()
            return self._pool.submit(grade_as_json, task)
        finally:
            signal.signal(signal.SIGINT, ours)

    def result(self, future: Future[str]) -> str:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerDied("the process that graded it has died") from error

    def close(self) -> None:
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:  # a second Ctrl-C: whoever presses it does not wait
            for process in multiprocessing.active_children():
                process.kill()
            raise

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # no fork after torch has run
        return ProcessPoolExecutor(self.width, context, initializer=end_with_parent)


class DaskPool:
    """Machines of a Dask cluster, reached by the address of its scheduler.

    The files of the submissions must be found at the same paths there.
    """

    def __init__(self, address: str, device: str) -> None:
        """Connect.

        Raises:
            ImportError: Dask is not installed.
            OSError: no server answers at that address.
        """
        from distributed import Client  # an extra, which few install

        self._client: Any = Client(address, timeout="20s", set_as_default=False)
        # A worker that has GPUs says so: `dask worker --resources GPU=1`.
        self._resources = {"GPU": 1} if device == "cuda" else {}

    @property
    def width(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def submit(self, task: str) -> Future[str]:
        future: Any = self._client.submit(
            grade_as_json, task, pure=False, resources=self._resources, retries=0
        )
        done: Future[str] = Future()
        future.add_done_callback(
            lambda finished: done.set_result(finished)
        )  # hands on which, not what
        return done

    def result(self, future: Future[str]) -> str:
        from distributed import CancelledError, KilledWorker

        remote: Any = future.result()
        try:
            return str(remote.result())
        except (KilledWorker, CancelledError) as error:
            raise WorkerDied(
                f"the machine that graded it was lost ({type(error).__name__})"
            ) from error

    def close(self) -> None:
        self._client.close()


def processes_that_fit() -> int:
    """How many submissions this machine can grade at once, in cores and in memory."""
    return max(1, min(cores(), int(psutil.virtual_memory().total // (1.2 * MAX_MEMORY))))


Pool = ProcessPool | DaskPool
