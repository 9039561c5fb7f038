"""`course update`, in a clone of a repository of its own."""

from __future__ import annotations

import json
import subprocess

import pytest
from typer.testing import CliRunner

from course.cli import app
from course.curriculum import DAYS, Day
from course.desk import updating

STEM = DAYS[1].stem
STUB = f"exercises/{STEM}.py"


def git(folder, *arguments):
    who = ["-c", "user.name=course", "-c", "user.email=course@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def publish(folder, stub, **others):
    """Commit a version of the course, with one stub."""
    (folder / "exercises").mkdir(exist_ok=True)
    (folder / STUB).write_text(stub)
    (folder / "exercises" / "stubs.json").write_text(json.dumps({STEM: [stub]}))
    for name, text in others.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=A version")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A learner's clone, beside the course that it comes from."""
    course = tmp_path / "course"
    course.mkdir()
    git(course, "init", "--quiet")
    publish(course, '"""Old."""\nraise\n', lesson="old")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(course), str(clone))
    monkeypatch.setattr(updating, "ROOT", clone)
    monkeypatch.setattr(updating, "STUB_DIGESTS", clone / "exercises" / "stubs.json")
    monkeypatch.setattr(Day, "stub", property(lambda day: clone / "exercises" / f"{day.stem}.py"))
    monkeypatch.setattr(updating, "is_untouched", lambda day, path: "mine" not in path.read_text())
    return clone


def update():
    done = CliRunner().invoke(app, ["update"])
    return done.exit_code, " ".join(done.output.split())


def test_what_was_written_stays_and_what_changed_is_named(clone):
    (clone / STUB).write_text('"""Old."""\nmine\n')
    publish(
        clone.parent / "course",
        '"""New."""\nraise\n',
        lesson="new",
        **{"requirements.txt": "torch"},
    )
    code, output = update()
    assert code == 0, output
    assert "mine" in (clone / STUB).read_text()
    assert (clone / "lesson").read_text() == "new"
    assert "Day 2's exercise has changed" in output and f"@{{upstream}}:{STUB}" in output
    assert "make start" in output
    assert update() == (0, "The course is up to date.")


def test_an_untouched_stub_is_the_new_one(clone):
    publish(clone.parent / "course", '"""New."""\nraise\n')
    code, output = update()
    assert (code, "has changed" in output) == (0, False)
    assert (clone / STUB).read_text().startswith('"""New."""')


def test_without_an_upstream_nothing_is_done(clone):
    git(clone, "branch", "--unset-upstream")
    code, output = update()
    assert code == 1 and "nothing to update it from" in output


def test_gits_own_words_where_it_fails(clone):
    """The upstream has gone: what was written is committed, and nothing is lost."""
    (clone / STUB).write_text("mine")
    git(clone, "remote", "set-url", "origin", str(clone.parent / "gone"))
    code, output = update()
    assert code == 1 and "gone" in output and "What you wrote is safe" in output
    assert (clone / STUB).read_text() == "mine"
