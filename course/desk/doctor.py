"""`course doctor`: what this machine has, and what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil
from rich.table import Table
from rich.text import Text

from course.checks.arrays import PRACTICE
from course.curriculum import DAYS, ROOT
from course.desk.state import FOLDER
from course.references.editions import graders_python
from course.terminal import display
from course.workers.limits import STARTING
from course.workers.worker import Worker, WorkerStopped

OLDEST_PYTHON = (3, 11)
NEEDED = (
    "numpy",
    "torch",
    "jaxtyping",
    "safetensors",
    "pytest",
    "jupyter",
    "matplotlib",
    "watchfiles",
    "tokenizers",
    "sacrebleu",
)
ENOUGH_MEMORY = 2 * 2**30
MARKS_OF = {True: Text("✔", "passed"), False: Text("✘", "failed"), None: Text("·", "quiet")}


@dataclass(frozen=True)
class Finding:
    """The result of one check of the installation. `fine` is None for information only."""

    what: str
    value: str
    fine: bool | None = True


def examine(sandbox: Iterable[str]) -> bool:
    """Check everything that the course needs, and show the results.

    Args:
        sandbox: the result for the sandbox, if this installation can grade.

    Returns:
        Whether everything needed is installed.
    """
    table = Table.grid(padding=(0, 2))
    missing = 0
    for finding in _findings(sandbox):
        missing += finding.fine is False
        table.add_row(MARKS_OF[finding.fine], finding.what, display.safe(finding.value))
    console = display.console()
    console.print(table)
    conclusion = "Nothing is missing." if not missing else f"{missing} missing, marked ✘."
    console.print(Text(conclusion, "bold"))
    return not missing


def _findings(sandbox: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for everything that the course needs."""
    version = platform.python_version()
    fine = sys.version_info >= OLDEST_PYTHON
    yield Finding("Python", version if fine else f"{version}; 3.11 or newer is needed", fine)
    if newer := graders_python():
        yield Finding("The grader's Python", newer, None)
    yield Finding(
        "System", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores", None
    )
    memory = psutil.virtual_memory()
    free = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GB free"
    yield Finding("Memory", free, memory.available > ENOUGH_MEMORY)
    for package in NEEDED:
        yield _package(package)
    yield _worker()
    ready = [day for day in DAYS if day.ready]
    missing = [day.stub.name for day in ready if not day.stub.exists()]
    stubs = f"{len(ready)} days ready" + (f"; missing: {', '.join(missing)}" if missing else "")
    yield Finding("Exercises", stubs, not missing)
    writable = os.access(FOLDER if FOLDER.exists() else ROOT, os.W_OK)
    words = (
        "kept in .course/"
        if writable
        else "this folder is read-only: the board cannot keep results; all else works"
    )
    yield Finding("Memory of the board", words, writable or None)
    yield _accelerator()
    yield _practice_gpu()
    yield from (Finding("Sandbox", line, None) for line in sandbox)


def _package(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing: run `make start`, or `pip install -e .`", False)


def _worker() -> Finding:
    started = time.monotonic()
    worker = Worker()
    try:
        worker.receive(STARTING)
    except WorkerStopped as stop:
        return Finding("Worker", f"does not start: {stop} {worker.printed}", False)
    finally:
        worker.end()
    return Finding("Worker", f"starts in {time.monotonic() - started:.1f} s")


def _practice_gpu() -> Finding:
    try:
        from course.checks.tensors import missing_device  # torch takes a second, and may be missing
    except ImportError:
        return Finding("Practice GPU", "torch is missing", None)
    if lacking := missing_device(PRACTICE):
        return Finding("Practice GPU", f"none: {lacking}", None)
    only = "only a real GPU shows speed, memory and half-precision kernels"
    return Finding("Practice GPU", f"PyTorch days are checked by a GPU's rules; {only}", None)


def _accelerator() -> Finding:
    try:
        import torch  # takes a second, and may be missing
    except ImportError:
        return Finding("Accelerator", "torch is missing", None)
    if torch.cuda.is_available():
        return Finding("Accelerator", torch.cuda.get_device_name(), None)
    if torch.backends.mps.is_available():
        return Finding("Accelerator", "Apple GPU (mps)", None)
    return Finding("Accelerator", "none: every day runs on the CPU", None)
