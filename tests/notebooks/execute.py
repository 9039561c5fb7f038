"""Execute notebooks in place, so that executing them again changes nothing: `make notebooks`.

A cell with nbval's marker prints something else each time, and the prose beside it quotes what it printed
once. That is kept as long as the code up to there is the same.
"""

from __future__ import annotations

import copy
import hashlib
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.notebooks.kernels import PortlessKernelManager

MARKER = "# NBVAL_IGNORE_OUTPUT"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(path: Path) -> None:
    """Run a notebook from its own folder and keep its outputs, without times or machine's details."""
    notebook = nbformat.read(path, as_version=4)
    recorded = {
        cell.id: copy.deepcopy(cell.outputs)
        for cell in marked(notebook)
        if cell.metadata.get("code") == code_until(notebook, cell)
    }
    NotebookClient(
        notebook,
        timeout=300,
        startup_timeout=600,  # on a busy machine
        kernel_name="python3",
        kernel_manager_class=PortlessKernelManager,
        record_timing=False,
        coalesce_streams=True,  # how prints are cut into pieces is an accident
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for cell in marked(notebook):
        cell.metadata["code"] = code_until(notebook, cell)
        cell.outputs = recorded.get(cell.id, cell.outputs)
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


def marked(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells whose outputs differ from run to run."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.startswith(MARKER)
    ]


def code_until(notebook: nbformat.NotebookNode, last: nbformat.NotebookNode) -> str:
    """A digest of a cell's code and of all code before it."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources = [cell.source for cell in code[: code.index(last) + 1]]
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name)
        execute(Path(name))
