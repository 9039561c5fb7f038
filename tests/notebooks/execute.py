"""Execute notebooks in place, so that executing them again changes nothing: `make notebooks`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(path: Path) -> None:
    """Run a notebook from its own folder and keep its outputs, without times or machine's details."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # how prints are cut into pieces is an accident
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name)
        execute(Path(name))
