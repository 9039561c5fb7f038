"""What `training` and `course` know of each other: a typed `Program`, and the names of commands."""

import ast
import re
from pathlib import Path

import pytest

import training
from course import cli
from course.assembly import runs
from training import program
from training.models.parts import PartsProvider
from training.program import Program

NAMED = re.compile(r"\bcourse (?!training\b)([a-z]+)")  # as in `course train`
HERE = Path(training.__file__).parent


def words():
    """All strings of `training` but its docstrings, and the lists that are joined to a command."""
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            if isinstance(node, ast.List):
                parts = [
                    element.value for element in node.elts[:2] if isinstance(element, ast.Constant)
                ]
                yield " ".join(map(str, parts))


def test_the_program_is_typed():
    """mypy holds what is handed over to what is asked for."""
    assert cli._program.__annotations__["return"] == Program.__name__
    for name in ("keep", "load"):
        ours, theirs = (
            getattr(provider, name).__annotations__ for provider in (runs, PartsProvider)
        )
        assert ours == theirs


def test_commands_that_messages_name_are_there():
    names = {name for text in words() for name in NAMED.findall(text)}
    assert {"train", "evaluate", "export", "compare", "check"} <= names
    assert names <= set(cli.COMMANDS)


@pytest.mark.parametrize(("launcher", "follower"), [("", False), ("run", True)])
def test_only_torchrun_makes_a_follower(monkeypatch, launcher, follower):
    """SLURM and MPI set `RANK` too, for a command that is no part of a group."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if launcher:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", launcher)
    assert program.follows() == follower
