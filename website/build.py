"""Build the site: `make site`, or `python -m website.build FOLDER`. Nothing is fetched.

A page is built again if it has changed; all are, after a change in this folder.
"""

from __future__ import annotations

import argparse
import gc
import shutil
from pathlib import Path

from sphinx.cmd.build import build_main

from website.assemble import assemble

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent / ".site"


def build(folder: Path) -> None:
    """Write the site into `folder/html`, by way of its source in `folder/source`. A warning is an error.

    Raises:
        SystemExit: Sphinx found something wrong, and has said what.
    """
    source, pages, doctrees = folder / "source", folder / "html", folder / "doctrees"
    built = doctrees / "environment.pickle"
    gone = assemble(source)
    changed = max(path.stat().st_mtime for path in HERE.rglob("*") if path.suffix != ".pyc")
    if gone or not built.exists() or changed > built.stat().st_mtime:
        for old in (pages, doctrees):
            shutil.rmtree(old, ignore_errors=True)
    settings = ["-c", HERE, "-d", doctrees, "-j", "2", "--fail-on-warning"]
    gc.disable()  # millions of nodes are made, and hardly any are freed: to look for them takes longer
    try:
        failed = build_main([str(word) for word in (*settings, source, pages)])
    finally:
        gc.enable()
    if failed:
        shutil.rmtree(doctrees)  # a page that was read with a warning would not be read again
        raise SystemExit(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m website.build", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT, help="default: .site")
    target = parser.parse_args().folder
    build(target)
    print(f"The site is in {target / 'html'}: open {target / 'html' / 'index.html'} in a browser.")
