"""Kernels that listen on sockets in files. As a plugin of pytest, it gives them to nbval.

Jupyter looks for free TCP ports, closes them, and tells the kernel to open them again. Where others start at
the same time, one in some hundred kernels finds a port taken by then, and dies.
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

import nbval.kernel
from jupyter_client.manager import KernelManager


class PortlessKernelManager(KernelManager):
    """Start a kernel that opens no port."""

    def __init__(self, **options: Any) -> None:
        # Short, since the path of a socket has at most 104 characters on macOS, 108 on Linux.
        file = Path(tempfile.gettempdir()) / f"kernel-{uuid.uuid4().hex[:12]}.json"
        super().__init__(transport="ipc", connection_file=str(file), **options)


def pytest_configure() -> None:
    nbval.kernel.KernelManager = PortlessKernelManager
