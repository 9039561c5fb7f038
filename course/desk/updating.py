"""`course update`: the newest version of the course, into a clone whose exercises are filled in."""

from __future__ import annotations

import json
import subprocess

from rich.text import Text

from course.curriculum import DAYS, ROOT, Day
from course.references.stub_digests import STUB_DIGESTS, is_untouched
from course.terminal import display

KEEP = "Keep my exercises"
PULL = ("pull", "--no-rebase", "--no-edit", "--strategy-option=ours")  # your lines stay
SET_UP = ("requirements.txt", "constraints.txt", "pyproject.toml")


class GitFailed(Exception):
    """Git ended with an error; its own words."""


def update() -> None:
    """Get the newest version of the course, and keep what you wrote.

    Your changes are committed first. Where the course has changed the same lines, yours stay.
    """
    console = display.console()
    try:
        git("rev-parse", "--abbrev-ref", "@{upstream}")
    except (OSError, GitFailed):
        display.fail(
            "This folder is not a git clone with an upstream branch, so there is nothing to update it from."
        )
    try:
        before = git("rev-parse", "HEAD")
        if git("status", "--porcelain", "--untracked-files=no"):
            git(*identity(), "commit", "--quiet", "--all", f"--message={KEEP}")
            console.print(f"Your changes are committed: {KEEP}")
        old = git("rev-parse", "HEAD")
        git(*identity(), *PULL)
        if git("rev-parse", "HEAD") == old:
            console.print("The course is up to date.")
            return
        count = git("rev-list", "--count", "--no-merges", f"{before}..@{{upstream}}")
        console.print(f"{count} new {'commit' if count == '1' else 'commits'} of the course.")
        for day in changed_exercises(old):
            console.print(
                f"Day {day.number}'s exercise has changed. Your file stays as it is; the new one is\n"
                f"  git show @{{upstream}}:{day.stub.relative_to(ROOT).as_posix()}"
            )
        if git("diff", "--name-only", old, "HEAD", "--", *SET_UP):
            console.print(
                "What the course needs has changed: run `make start`, or install it again."
            )
    except GitFailed as error:
        display.console(stderr=True).print(Text(str(error), "quiet"))
        display.fail(
            "git could not update the course. What you wrote is safe; `git status` says where."
        )


def changed_exercises(old: str) -> list[Day]:
    """Return the days whose stub has changed since a commit and whose file contains the learner's work."""
    file = STUB_DIGESTS.relative_to(ROOT).as_posix()
    then = json.loads(git("show", f"{old}:{file}"))
    now = json.loads(STUB_DIGESTS.read_text(encoding="utf-8"))
    return [
        day
        for day in DAYS
        if now.get(day.stem, [""])[0] != then.get(day.stem, [""])[0]
        and day.stub.exists()
        and not is_untouched(day, day.stub)
    ]


def identity() -> list[str]:
    """Return the author of the learner's commits, where git knows none."""
    try:
        git("config", "user.email")
    except GitFailed:
        return ["-c", "user.name=A learner", "-c", "user.email=learner@localhost"]
    return []


def git(*arguments: str) -> str:
    """Return what git prints.

    Raises:
        GitFailed: git ends with an error.
    """
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise GitFailed((done.stderr or done.stdout).strip())
    return done.stdout.strip()
