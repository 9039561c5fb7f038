"""The time of a call, as lessons measure it."""

from __future__ import annotations

import ctypes
import platform
import statistics
import time
from collections.abc import Callable
from functools import cache


def cpu_milliseconds(function: Callable[..., object], *arguments: object, times: int = 5) -> float:
    """Return the median CPU time of a function's call, in milliseconds, after a call that is not measured."""
    _keep_freed_memory()
    function(*arguments)
    durations = []
    for _ in range(times):
        started = time.process_time()
        function(*arguments)
        durations.append(1e3 * (time.process_time() - started))
    return statistics.median(durations)


@cache
def _keep_freed_memory() -> None:
    """Let the C library reuse freed memory, so that no time is spent on requesting pages from the system."""
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(-4, 0)  # M_MMAP_MAX: large tensors come from the heap
        library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap is not cut back
