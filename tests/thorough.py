"""Run what `make test` leaves out, in parts that can be stopped: `make thorough PART=mutants`.

    python -m tests.thorough               every part
    python -m tests.thorough days pages    these parts

A part is a list of commands. One that passed is not repeated as long as no file of the project has changed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from course.curriculum import DAYS, ROOT
from tests.notebooks.compare import NBVAL, notebooks

# A file for each command that passed: the tree on which it did.
PASSED = ROOT / ".course" / "thorough"
PYTEST = ("-m", "pytest", "-q", "-n", "auto")
SLOW = (*PYTEST, "-m", "slow")
READY = [day for day in DAYS if day.ready]
GROUPS = [READY[start : start + 5] for start in range(0, len(READY), 5)]

Commands = dict[str, tuple[str, ...]]
"""What follows the name of the Python interpreter, by a name of its own."""


def slow_tests(*folders: str) -> Commands:
    """Return a command for each folder of tests."""
    return {folder.replace("/", "-"): (*SLOW, f"tests/{folder}") for folder in folders}


def of_days(name: str, *command: str) -> Commands:
    """Return a command for every five days."""
    return {
        f"{name}-{group[0].number}-{group[-1].number}": (
            *command,
            " or ".join(day.stem for day in group),
        )
        for group in GROUPS
    }


def executed(folder: str) -> Commands:
    """Return commands that execute the notebooks of a folder and compare them with what they printed."""
    together = (*PYTEST, "--dist", "loadfile", *NBVAL)
    files = [[file for day, file in notebooks() if day in group] for group in GROUPS]
    return {
        f"{folder}-{group[0].number}-{group[-1].number}": (
            *together,
            *(str(file.relative_to(ROOT)) for file in of_group if file.parent.name == folder),
        )
        for group, of_group in zip(GROUPS, files, strict=True)
    }


TEN_SEEDS = (*PYTEST, "-m", "", "--seeds", "10", "tests/course/test_days.py", "-k")
ROOMS = ("assembly", "checks", "desk", "edition", "grading", "judging", "references", "workers")
PARTS: dict[str, Commands] = {
    "cost": {"cost": (*PYTEST, "-p", "tests.costs", "--budget", "tests")},
    "days": of_days("days", *TEN_SEEDS),
    "draws": {"draws": ("-m", "tests.draws")},
    "mutants": {f"mutants-{day.number}": ("-m", "tests.mutants", str(day.number)) for day in READY},
    "course": slow_tests(*(f"course/{room}" for room in ROOMS))
    | {"course": (*SLOW, "tests/course", "--ignore-glob=tests/course/*/*", "-k", "not test_days")},
    "attacks": {"attacks": ("-m", "pytest", "-q", "-m", "slow", "tests/course/hostile")},
    "references": slow_tests("reference", "variants"),
    "training": slow_tests("training"),
    "laboratory": slow_tests("laboratory"),
    "pages": slow_tests("explorer", "website"),
    "lessons": slow_tests("notebooks"),
    "notebooks": executed("lessons") | executed("solutions"),
    "class": {"class": ("-m", "tests.class_of_120")},
}


def main(names: list[str]) -> int:
    """Run the parts that are asked for. Returns 1 if a command failed, 2 if there is no such part."""
    if unknown := set(names) - PARTS.keys():
        print(f"PART must be one of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
        return 2
    failed, seconds = [], {}
    for part in names or PARTS:
        before = cpu_seconds()
        failed += [name for name, command in PARTS[part].items() if not passes(name, command)]
        seconds[part] = cpu_seconds() - before
    print("CPU seconds:", ", ".join(f"{part} {cost:.0f}" for part, cost in seconds.items()))
    print(f"failed: {', '.join(failed)}" if failed else "Everything asked for passed.")
    return int(bool(failed))


def passes(name: str, command: tuple[str, ...]) -> bool:
    """Run a command, unless it is recorded that it passed with these files."""
    record = PASSED / name
    now = tree()
    if now and record.exists() and record.read_text() == now:
        print(f"{name}: passed before", flush=True)
        return True
    print(f"{name}: python {' '.join(command)}", flush=True)
    code = subprocess.run([sys.executable, *command], cwd=ROOT).returncode
    passed = code in (0, 5)  # 5: no test of this folder is slow
    if passed and now and tree() == now:
        PASSED.mkdir(parents=True, exist_ok=True)
        record.write_text(now)
    return passed


def cpu_seconds() -> float:
    """Return what the commands until now have cost."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree() -> str:
    """Return git's name for all files as they are now, new ones included; an empty string without git."""
    with tempfile.TemporaryDirectory() as folder:
        how = {"cwd": ROOT, "env": os.environ | {"GIT_INDEX_FILE": f"{folder}/index"}}
        try:
            subprocess.run(["git", "add", "--all"], check=True, **how)
            hashed = subprocess.run(["git", "write-tree"], check=True, capture_output=True, **how)
        except (OSError, subprocess.CalledProcessError):
            return ""
        return hashed.stdout.decode().strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
