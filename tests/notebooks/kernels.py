"""Kernels that listen on sockets in files. As a plugin of pytest, it gives them to nbval.

Where the environment sets COURSE_QUICK, expensive cells run with fewer seeds or steps: such a cell's metadata
say what is replaced in its code, `"quick": {"range(5)": "range(1)"}`. Only cells of which the output is not
compared depend on it; an assert that needs all seeds becomes an expression there, `{"assert ": ""}`.

Jupyter looks for free TCP ports, closes them, and tells the kernel to open them again. Where others start at
the same time, one in some hundred kernels finds a port taken by then, and dies.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

import nbformat
import nbval.kernel
import nbval.plugin
import pytest
from jupyter_client.manager import KernelManager

from course.curriculum import REFERENCE, ROOT, YOURS


class PortlessKernelManager(KernelManager):
    """Start a kernel that opens no port."""

    def __init__(self, **options: Any) -> None:
        # Short, since the path of a socket has at most 104 characters on macOS, 108 on Linux.
        file = Path(tempfile.gettempdir()) / f"kernel-{uuid.uuid4().hex[:12]}.json"
        super().__init__(transport="ipc", connection_file=str(file), **options)

    async def _async_pre_start_kernel(self, **options: Any) -> tuple[list[str], dict[str, Any]]:
        """Give it this clone's packages, installed or not, and the reference for `yours`.

        Not by this process's environment, which other tests hand on.
        """
        here = {"PYTHONPATH": str(ROOT), YOURS: REFERENCE}
        options["env"] = here | (options.get("env") or dict(os.environ))
        command: tuple[list[str], dict[str, Any]] = await super()._async_pre_start_kernel(**options)
        return command


def pytest_configure() -> None:
    nbval.kernel.KernelManager = PortlessKernelManager


def pytest_itemcollected(item: pytest.Item) -> None:
    if os.environ.get("COURSE_QUICK") and isinstance(item, nbval.plugin.IPyNbCell):
        item.cell.source = quick(item.cell)


def quick(cell: nbformat.NotebookNode) -> str:
    """Return a cell's code with fewer seeds or steps, as its metadata say."""
    code = cell.source
    for old, new in cell.metadata.get("quick", {}).items():
        code = code.replace(old, new)
    return code
