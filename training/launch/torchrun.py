"""Start a program in many processes by `torchrun`, so that one Ctrl-C lets all of them save."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from training.cores import cores

RESTARTS = 3  # restarts of all processes after one has died


def launch(
    module: str,
    arguments: Sequence[str],
    processes: int,
    environment: dict[str, str],
    began: Path,
) -> int:
    """Start a program in many processes, and restart all of them when one dies.

    The processes have their own session, so a Ctrl-C reaches them only through this function:
    `torchrun` itself does not receive it, and prints no error.

    Args:
        module: the program's module, for `python -m`.
        arguments: the program's arguments.
        processes: the number of processes.
        environment: variables to add. Each process gets its share of the cores as threads, unless
            OMP_NUM_THREADS is set.
        began: the file to which the main process writes its id once it can be interrupted.

    Returns:
        The exit status.

    Raises:
        KeyboardInterrupt: Ctrl-C before training, or a second one; the processes have ended.
    """
    threads = max(1, cores() // processes)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        f"--nproc-per-node={processes}",
        f"--max-restarts={RESTARTS}",
        *("-m", module, *arguments),
    ]
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ, **environment}
    with (
        _as_ctrl_c("SIGTERM", "SIGHUP"),
        subprocess.Popen(command, env=environment, start_new_session=True) as running,
    ):
        return _waited_for(running, began)


@contextlib.contextmanager
def _as_ctrl_c(*names: str) -> Iterator[None]:
    """Treat these signals like Ctrl-C, where they exist and are not ignored."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _waited_for(running: subprocess.Popen[bytes], began: Path) -> int:
    interrupted = False
    while True:
        try:
            return running.wait()
        except KeyboardInterrupt:
            if interrupted or not _interrupted(running, began):
                _end(running)
                raise
            interrupted = True


def _interrupted(running: subprocess.Popen[bytes], began: Path) -> bool:
    """Ask all processes to finish their step and save; return False if they do not train yet."""
    with contextlib.suppress(psutil.NoSuchProcess, OSError, ValueError):
        workers = psutil.Process(running.pid).children()
        if int(began.read_text()) in [worker.pid for worker in workers]:
            for worker in workers:
                worker.send_signal(signal.SIGINT)
            return True
    return running.poll() is not None


def _end(running: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [*psutil.Process(running.pid).children(recursive=True), running]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
