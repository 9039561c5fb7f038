"""What git knows of a change: which files differ, from what, and a number for the whole tree."""

from __future__ import annotations

import hashlib
import subprocess

from course.curriculum import ROOT


def git(*arguments: str) -> str | None:
    """Return what git prints; None where there is no git, no repository or no such commit."""
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def seed() -> int:
    """Return a number that differs from commit to commit and is the same wherever a commit is tested.

    It hashes HEAD's whole tree. Without git it is always the same.
    """
    tree = git("rev-parse", "HEAD^{tree}")
    return int(tree, 16) % 10**6 if tree else 0


def base() -> str | None:
    """Return the commit that a change begins at: where a branch left `main`, on `main` HEAD's parent."""
    head, fork = git("rev-parse", "HEAD"), git("merge-base", "HEAD", "main")
    return fork.strip() if fork and fork != head else parent()


def parent() -> str | None:
    """Return HEAD's (first) parent, where it is known."""
    commit = git("rev-parse", "--verify", "--quiet", "HEAD^")
    return commit.strip() if commit else None


def changed_since(commit: str | None) -> set[str] | None:
    """Return the paths of the files that differ from a commit, new ones and uncommitted changes included.

    None where that cannot be known.
    """
    if commit is None:
        return None
    differing = git("diff", "--name-only", "--no-renames", commit)
    new = git("ls-files", "--others", "--exclude-standard")
    return (
        None
        if differing is None or new is None
        else {*differing.split("\n"), *new.split("\n")} - {""}
    )


def tree() -> str | None:
    """Return a digest of all files as they are now; None without git."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard")
    if names is None:
        return None
    whole = hashlib.sha256()
    for name in sorted(set(names.splitlines())):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        whole.update(name.encode() + hashlib.sha256(content).digest())
    return whole.hexdigest()
