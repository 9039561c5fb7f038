"""Run the tests that a change affects: `make quick`, after lint and types.

A change is what differs from where the branch left `main`, or on `main` from HEAD's parent. A test is
affected by the modules that it imports, directly or through others, and by the files that `READ` says it
reads. A changed file in neither runs everything. What takes minutes is left to `make test`, and is named.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch

from course.curriculum import DAYS, ROOT, Day, day_of_definition
from tests.changes import base, changed_since, git
from tests.imports import needed_by
from tests.notebooks.compare import compare, differing, digest, name_of, notebooks

DAY_TESTS = ("tests/course/test_days.py", "tests/notebooks/test_lessons.py")  # chosen by day
SAMPLE_DAYS = (DAYS[1], DAYS[7], DAYS[8])  # for a change to the judge: in NumPy, in torch, a module

# Files that are read or started and not imported, and what reads them: tests, or modules of ours. Some rooms
# are listed as well: their tests run the `course` command, whose imports are not followed.
READ: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("CONTRIBUTING.md", "NOTES.md", "LICENSE", ".editorconfig"), ()),
    **dict.fromkeys(
        (
            ".ci/*",
            ".dockerignore",
            ".gitignore",
            "tests/days/misconceptions/ruff.toml",
            "benchmarks/*",
        ),
        (),
    ),
    "README.md": (
        "tests/course/test_readme.py",
        "tests/course/test_pictures.py",
        "tests/website/test_pages.py",
    ),
    "docs/*": ("tests/course/test_readme.py", "tests/website/test_site.py"),
    "pictures/*": ("tests/course/test_readme.py", "tests/course/test_pictures.py"),
    "Makefile": ("tests/course/test_first_contact.py", "tests/test_selection.py"),
    "requirements*.txt": ("tests/course/test_first_contact.py",),
    ".devcontainer/*": ("tests/course/test_first_contact.py",),
    "integrations/*": ("tests/course/test_first_contact.py", "tests/course/test_integrations.py"),
    "configs/*": ("tests/training/test_settings.py", "tests/explorer/test_model.py"),
    "studies/*": ("tests/laboratory",),
    "paper_notes/*": ("tests/notebooks/test_lessons.py", "tests/website/test_pages.py"),
    "exercises/stubs.json": ("course/references/written.py",),
    "course/judging/sync_command.py": ("tests/course/desk/test_learner_commands.py",),
    "course/judging/known_messages.txt": ("course/judging/closed_words.py",),
    "course/grading/*": ("tests/course/grading",),
    "course/desk/*": (
        "tests/course/desk/test_learner_commands.py",
        "tests/course/desk/test_golden.py",
    ),
    "course/edition/*": ("tests/course/edition",),
    "course/assembly/*": ("tests/course/assembly",),
    "course/workers/*": ("tests/course/workers",),
    "course/references/*": ("tests/course/references",),
    "course/checks/*": ("tests/course/checks",),
    "training/generation/template_process.py": ("training/generation/chat_templates.py",),
    "course/cli.py": ("tests/course/desk/test_learner_commands.py",),
    "explorer/*": ("tests/explorer/test_pages.py", "tests/explorer/test_explore_command.py"),
    "explorer/*.js": ("tests/explorer",),
    "explorer/model/*": ("explorer/trained.py",),
    "laboratory/*": ("tests/laboratory/test_study_command.py",),
    "training/*": ("tests/training",),
    "website/*": ("tests/website",),
    "tests/course/desk/golden/*": ("tests/course/desk/test_golden.py",),
    **dict.fromkeys(("tests/class_of_120.py", "tests/*/__init__.py"), ()),
}

# These train models in processes, grade classes or open many pages. They are left to `make test`, unless
# they themselves have changed.
SLOW = (
    "tests/course/assembly/*",
    "tests/course/grading/test_classes.py",
    "tests/course/hostile/*",
    "tests/course/test_mutants.py",
    "tests/training/test_commands.py",
    "tests/training/test_kill.py",
    "tests/training/test_processes.py",
    "tests/website/test_site.py",
)
# Where references are tested. What else imports a reference uses what is tested there, and is left as well.
OF_REFERENCES = ("tests/reference/", "tests/variants/")


@dataclass
class Plan:
    """What a change affects."""

    everything: bool = False
    tests: set[str] = field(default_factory=set)
    days: set[Day] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    """Tests that are affected and left to `make test`."""


def plan(changed: Iterable[str], definitions: dict[str, set[str]] | None = None) -> Plan:
    """Return what a change affects.

    Args:
        changed: the paths of the changed files.
        definitions: of changed references, the names of the definitions that changed, if known.
    """
    made = Plan()
    for path in changed:
        days = days_of(path, (definitions or {}).get(path))
        readers = {one for pattern in READ if fnmatch(path, pattern) for one in READ[pattern]}
        named = {test for test in needs() for one in readers if f"{test}/".startswith(f"{one}/")}
        below = {test for test in needs() if _is_conftest_of(path, test)}
        sources = {path, *(one for one in readers if not one.startswith("tests/"))}
        importing = {test for test, needed in needs().items() if not needed.isdisjoint(sources)}
        known = any(fnmatch(path, pattern) for pattern in READ)
        made.everything |= not (days or known or importing or below)
        made.days |= days
        made.tests |= named | importing | below
        if any(path in day.references for day in DAYS):
            made.left |= {test for test in importing if not test.startswith(OF_REFERENCES)}
    made.left |= {test for test in made.tests if any(fnmatch(test, slow) for slow in SLOW)}
    made.left -= set(changed)
    made.tests -= made.left
    if made.tests & set(DAY_TESTS) and not made.days:
        made.days |= set(SAMPLE_DAYS)
    made.tests -= set(DAY_TESTS)
    return made


@functools.cache
def needs() -> dict[str, set[str]]:
    """Return what each test file depends on; `tests/days` holds checks, which are tested by day."""
    files = (ROOT / "tests").rglob("test_*.py")
    tests = sorted(file for file in files if file.parent.name != "days")
    return {name_of(test): set(map(name_of, needed_by(test))) for test in tests}


def days_of(path: str, definitions: set[str] | None) -> set[Day]:
    """Return the days that a file belongs to, or whose exercises are among its changed definitions."""
    if match := re.search(r"\b(?:test_)?(day\d\d_\w+?)(?:[./]|$)", path):
        return {day for day in DAYS if day.stem == match[1]}
    if definitions is not None:
        found = {day_of_definition(path, name) for name in definitions}
        if None not in found:
            return {day for day in found if day}
    return {day for day in DAYS if path in day.references}


def changed_definitions(path: str, commit: str) -> set[str]:
    """Return the names of a module's definitions that differ from a commit's; other statements are ''."""

    def definitions(text: str) -> dict[str, str]:
        return {ast.unparse(node): getattr(node, "name", "") for node in ast.parse(text).body}

    old = definitions(git("show", f"{commit}:{path}") or "")
    new = definitions((ROOT / path).read_text(encoding="utf-8"))
    return {(old | new)[text] for text in old.keys() ^ new.keys()}


def _is_conftest_of(path: str, test: str) -> bool:
    folder, _, name = path.rpartition("/")
    return name == "conftest.py" and test.startswith(f"{folder}/")


def main() -> int:
    """Run what is affected by what differs. Returns the exit status."""
    start = base()
    changed = changed_since(start)
    if changed is None or start is None:
        print("No commit to compare with is known, so everything is run.")
        made = Plan(everything=True)
    else:
        references = {path for day in DAYS for path in day.references} & changed
        made = plan(changed, {path: changed_definitions(path, start) for path in references})
    if made.everything:
        return subprocess.run(["make", "test"], cwd=ROOT).returncode
    days = " or ".join(sorted(day.stem for day in made.days))
    runs = [
        ["-n", "auto", *sorted(made.tests)] if made.tests else [],
        ["-n", "auto", *DAY_TESTS, "-k", days] if days else [],
    ]
    for arguments in filter(None, runs):
        print("pytest", *arguments, flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "--maxfail=3", *arguments]
        if status := subprocess.run(command, cwd=ROOT).returncode:
            return status
    meant = differing(start) or set()
    wanted = {
        file: digest(day, file)
        for day, file in notebooks()
        if name_of(file) in meant or (day in made.days and _concerned(day, meant))
    }
    status = compare(wanted)
    if made.left:
        print("Left to make test:", *sorted(made.left))
    return status


def _concerned(day: Day, meant: set[str]) -> bool:
    return not meant.isdisjoint((*day.references, name_of(day.checks)))


if __name__ == "__main__":
    sys.exit(main())
