"""Run all that `make test` runs by turn, in parts that can be stopped: `make thorough PART=mutants`.

    python -m tests.thorough               every part
    python -m tests.thorough days pages    these parts

A part is a list of commands. One that passed is not repeated as long as no file of the project has changed
and it is the same machine.
"""

from __future__ import annotations

import subprocess
import sys

from course.curriculum import DAYS, ROOT
from tests.affected import name_of
from tests.changes import tree
from tests.record import digest_of, note, passed

PYTEST = ("-m", "pytest", "--thorough", "-q")
COST = ("-m", "pytest", "-n", "auto", "-q", "-p", "tests.costs", "--budget", "tests")
GROUP = 5  # days that are tested by one command: to collect their tests takes some seconds
READY = [day for day in DAYS if day.ready]
GROUPS = [READY[start : start + GROUP] for start in range(0, len(READY), GROUP)]
TESTS = ROOT / "tests"
PAGES = sorted(path.stem for path in (TESTS / "explorer").glob("test_*.py"))
# Every folder and file of tests that no other part runs.
ELSEWHERE = {"tests/course/test_days.py", "tests/course/hostile", "tests/course/test_mutants.py"}
ROOMS = sorted(
    {
        name_of(test.parent if test.parent.name not in ("tests", "course") else test)
        for test in TESTS.rglob("test_*.py")
    }
    - ELSEWHERE
    - {"tests/explorer", "tests/days"}
)

Commands = dict[str, tuple[str, ...]]
"""What follows the name of the Python interpreter, by a name of its own."""

PARTS: dict[str, Commands] = {
    "days": {
        f"days-{group[0].number}-{group[-1].number}": (
            *(*PYTEST, "-n", "auto", "tests/course/test_days.py", "-k"),
            " or ".join(day.stem for day in group),
        )
        for group in GROUPS
    },
    "draws": {"draws": ("-m", "tests.draws")},
    "cost": {"cost": COST},
    "rooms": {f"rooms-{room.replace('/', '-')}": (*PYTEST, "-n", "auto", room) for room in ROOMS},
    "attacks": {"attacks": (*PYTEST, "tests/course/hostile")},
    "pages": {f"pages-{page}": (*PYTEST, f"tests/explorer/{page}.py") for page in PAGES},
    "mutants": {f"mutants-{day.number}": ("-m", "tests.mutants", str(day.number)) for day in READY},
    "notebooks": {"notebooks": ("-m", "tests.notebooks.compare")},
    "class": {"class": ("-m", "tests.class_of_120")},
}


def main(asked: list[str]) -> int:
    """Run the parts that are asked for. Returns 1 if a command failed, 2 if there is no such part."""
    if unknown := set(asked) - PARTS.keys():
        print(f"PART must be one of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
        return 2
    failed = []
    for part in asked or PARTS:
        for name, command in PARTS[part].items():
            if not _passes(name, command):
                failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "Everything asked for passed.")
    return int(bool(failed))


def _passes(name: str, command: tuple[str, ...]) -> bool:
    """Run a command, unless it is recorded that it passed with these files."""
    now = tree()
    digest = digest_of((now or "", *command))
    if now and passed(f"thorough-{name}") == digest:
        print(f"{name}: passed before", flush=True)
        return True
    print(f"{name}: python {' '.join(command)}", flush=True)
    ended = subprocess.run([sys.executable, *command], cwd=ROOT).returncode == 0
    if ended and now and tree() == now:
        note(f"thorough-{name}", digest)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
