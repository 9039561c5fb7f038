"""Grades the one submission that Gradescope has put into the autograder's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from course.grading.sandbox import NoSandbox, open_sandbox

NAME = "submission"


def main(autograder: Path) -> None:
    """Grade it, and write results.json, unless there are no walls and none is to be graded without."""
    no_sandbox = _why_no_sandbox()
    unsafe = no_sandbox is not None and os.environ["ALLOW_UNSAFE"] == "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "class").mkdir()
        subprocess.run(["cp", "-a", autograder / NAME, folder / "class"], check=True)
        grade = ["grade", str(folder / "class"), "--out", str(folder / "out"), "--jobs", "1"]
        grade += ["--days", os.environ["DAYS"], *(["--unsafe"] if unsafe else [])]
        done = subprocess.run([sys.executable, "-m", "course.cli", *grade], check=False)
        if done.returncode:
            sys.exit(
                done.returncode
            )  # without the file, Gradescope tells that the autograder failed
        results = json.loads((folder / "out" / "gradescope" / f"{NAME}.json").read_bytes())
    if unsafe:
        results = _with_warning(results, str(no_sandbox))
    target = autograder / "results" / "results.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=1), encoding="utf-8")


def _why_no_sandbox() -> str | None:
    """Why bubblewrap does not start here; nothing where it does."""
    try:
        with open_sandbox():
            return None
    except NoSandbox as error:
        return str(error)


def _with_warning(results: dict[str, Any], why: str) -> dict[str, Any]:
    """The same results, which tell the instructor alone that nothing was around the submission."""
    notice = {
        "name": "Graded without walls",
        "output": f"{why} As ALLOW_UNSAFE is 1, the submission ran beside the reference, as whoever runs "
        "the autograder: what it earned may have been looked up, or written by itself.",
        "output_format": "text",
        "visibility": "hidden",
    }
    return {
        **results,
        "tests": [notice, *results["tests"]],
        "extra_data": {"without_walls": why},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
