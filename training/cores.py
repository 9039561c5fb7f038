"""The cores that a program may use, which a container or a scheduler may limit, and who started it."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container (cgroup v2): microseconds, and of how many


def cores() -> int:
    """The cores that this process may use, at least 1."""
    is_linux = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        quota, period = map(int, QUOTA.read_text().split())
        allowed = min(allowed, math.ceil(quota / period))
    return max(1, allowed)


def under_torchrun() -> bool:
    """Whether `torchrun` has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def end_with_parent() -> None:
    """End this process as soon as the one that started it with `multiprocessing` has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
