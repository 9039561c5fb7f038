"""What a change affects: tests, days, notebooks.

A change is what differs from where the branch left `main`, or on `main` from HEAD's parent. A file affects
the tests of its own room that import it, directly or through others, and those that `READ` says read or
start it. Tests of other rooms that import it use what is tested there.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from course.curriculum import DAYS, ROOT, Day, day_of_definition
from explorer.topics import TOPICS
from tests.changes import base, changed_since, git
from tests.imports import needed_by

# Of these it is chosen by day, or by page of the explorer, what is affected.
DAY_TESTS = ("tests/course/test_days.py", "tests/notebooks/test_lessons.py")
PAGE_TESTS = ("tests/explorer/test_pages.py", "tests/explorer/test_answer.py")
# These decide the verdict on every day.
EVERY_DAYS = ("course/judging/", "course/checks/", "course/references/")
# Where the references are tested: each of the two rooms imports the other's.
ROOMS = {
    "implementation.py": ("tests/reference/", "tests/variants/"),
    "numpy_reference.py": ("tests/reference/",),
    "variants": ("tests/variants/", "tests/reference/"),
}

# Files that are read or started and not imported, and what reads them: tests, or modules of ours. Some rooms
# are listed as well: their tests run the `course` command, whose imports are not followed.
READ: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *(
                "CHANGELOG.md",
                "CITATION.cff",
                "LICENSE",
                ".editorconfig",
                ".pre-commit-config.yaml",
            ),
            ".ci/*",
            ".dockerignore",
            ".gitignore",
        ),
        (),
    ),
    "benchmarks/*.py": ("tests/training/test_on_gpu.py",),
    **dict.fromkeys(
        ("benchmarks/README.md", "benchmarks/growth/*"), ("tests/website/test_site.py",)
    ),
    "README.md": (
        "tests/course/test_readme.py",
        "tests/website/test_pictures.py",
        "tests/website/test_pages.py",
    ),
    "docs/*": ("tests/course/test_readme.py", "tests/website/test_site.py"),
    "website/pictures/*": ("tests/course/test_readme.py", "tests/website/test_pictures.py"),
    "Makefile": ("tests/course/test_first_contact.py", "tests/test_selection.py"),
    **dict.fromkeys(
        ("requirements.txt", "constraints.txt"), ("tests/course/test_first_contact.py",)
    ),
    **dict.fromkeys((".devcontainer/*", ".vscode/*"), ("tests/course/test_first_contact.py",)),
    "CONTRIBUTING.md": ("tests/course/test_readme.py",),
    ".github/*": ("tests/course/test_integrations.py",),
    "integrations/*": ("tests/course/test_first_contact.py", "tests/course/test_integrations.py"),
    "training/configs/*": ("tests/training/test_settings.py", "tests/explorer/test_model.py"),
    "laboratory/studies/*": ("tests/laboratory",),
    "paper_notes/*": ("tests/notebooks/test_lessons.py", "tests/website/test_pages.py"),
    "exercises/stubs.json": ("course/references/stub_digests.py",),
    "course/edition/sync_command.py": ("tests/course/desk/test_learner_commands.py",),
    "course/judging/known_messages.txt": ("course/judging/closed_words.py",),
    "course/grading/*": ("tests/course/grading", "tests/course/hostile"),
    "course/desk/*": (
        "tests/course/desk/test_learner_commands.py",
        "tests/course/desk/test_golden.py",
    ),
    "course/edition/*": ("tests/course/edition",),
    "course/assembly/*": ("tests/course/assembly",),
    "course/workers/*": ("tests/course/workers", "tests/course/hostile"),
    "course/checks/frames.py": ("tests/course/hostile",),
    "course/references/*": ("tests/course/references",),
    "course/checks/*": ("tests/course/checks",),
    "training/generation/template_process.py": ("training/generation/chat_templates.py",),
    "course/cli.py": ("tests/course/desk/test_learner_commands.py",),
    "explorer/*": ("tests/explorer/test_explore_command.py",),
    **dict.fromkeys(
        (
            *("explorer/*.js", "explorer/*.css", "explorer/page.py", "explorer/charts.py"),
            *("explorer/start.html", "explorer/answer.py", "explorer/call_in_worker.py"),
        ),
        ("tests/explorer",),
    ),
    **dict.fromkeys(("explorer/stills/*", "explorer/font/*", "explorer/*.svg"), PAGE_TESTS[:1]),
    "explorer/model/*": ("explorer/shipped_model.py",),
    "laboratory/*": ("tests/laboratory/test_study_command.py",),
    "training/*": ("tests/training",),
    "website/*": ("tests/website",),
    "tests/course/desk/golden/*": ("tests/course/desk/test_golden.py",),
    "tests/course/cases/*": ("tests/course/test_published.py",),
    "tests/equivalent_mutants.txt": ("tests/course/test_mutants.py",),
    "tests/gate.py": ("tests/test_selection.py",),
    **dict.fromkeys(
        ("tests/class_of_120.py", "tests/*/__init__.py", "tests/notebooks/seconds.*"), ()
    ),
}


@dataclass
class Plan:
    """What a change affects."""

    tests: set[str] = field(default_factory=set)
    """Files of tests, those apart that are chosen by day."""
    days: set[Day] = field(default_factory=set)
    pages: set[str] = field(default_factory=set)
    """Pages of the explorer."""
    unknown: set[str] = field(default_factory=set)
    """Changed files of which it is not known what they affect."""
    changed: frozenset[str] | None = None
    """The changed files; None where git knows of no commit to compare with."""


@functools.cache
def now() -> Plan:
    """Return what the change affects that is being made or was made last."""
    start = base()
    changed = changed_since(start)
    if changed is None or start is None:
        return Plan()
    references = {path for day in DAYS for path in day.references} & changed
    return plan(changed, {path: changed_definitions(path, start) for path in references})


def plan(changed: Iterable[str], definitions: dict[str, set[str]] | None = None) -> Plan:
    """Return what a change affects.

    Args:
        changed: the paths of the changed files.
        definitions: of changed references, the names of the definitions that changed, if known.
    """
    made = Plan(changed=frozenset(changed))
    for path in changed:
        days = days_of(path, (definitions or {}).get(path))
        readers = {one for pattern in READ if fnmatch(path, pattern) for one in READ[pattern]}
        named = {test for test in needs() for one in readers if f"{test}/".startswith(f"{one}/")}
        below = {test for test in needs() if _is_conftest_of(path, test)}
        sources = {path, *(one for one in readers if not one.startswith("tests/"))}
        importing = {test for test, needed in needs().items() if not needed.isdisjoint(sources)}
        if not (days or importing or below or any(fnmatch(path, pattern) for pattern in READ)):
            made.unknown.add(path)
        made.days |= days
        made.pages |= {topic.name for topic in TOPICS if path == f"explorer/{topic.name}.py"}
        made.tests |= named | below | {test for test in importing if test.startswith(rooms(path))}
    made.tests -= set(DAY_TESTS)
    return made


def rooms(path: str) -> tuple[str, ...]:
    """Return where a file is tested: the beginnings of the paths of its tests."""
    top = path.partition("/")[0]
    return ("tests/",) if top == "tests" else ROOMS.get(top, (f"tests/{top}/",))


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
    if path.startswith(EVERY_DAYS):
        return set(DAYS)
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


def name_of(file: Path) -> str:
    """Return the path of a file from the repository's root."""
    return file.relative_to(ROOT).as_posix()
