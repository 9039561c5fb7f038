"""Lessons in three acts, executed on answers that are not the reference."""

import ast
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from course.curriculum import DAYS, YOURS
from course.references.text import definition_text, import_lines
from tests.notebooks.kernels import PortlessKernelManager

ANSWERS = [
    pytest.param(day, file, id=f"{day.number}-{file.stem}")
    for day in DAYS
    for file in sorted(day.accepted.glob("*.py"))
]


def printed_on(day, answers, monkeypatch):
    """Execute a lesson on a folder of answers. Returns what it printed."""
    monkeypatch.setenv(YOURS, str(answers))
    notebook = nbformat.read(day.lesson, as_version=4)
    NotebookClient(
        notebook,
        timeout=None,
        kernel_manager_class=PortlessKernelManager,
        resources={"metadata": {"path": str(day.lesson.parent)}},
    ).execute()
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return "".join(output.get("text", "") for output in outputs)


def written(day):
    """The reference's answer to a day."""
    return import_lines(day) + "\n\n".join(definition_text(day, name) for name in day.exercises)


def raising(day):
    """An answer to a day of which every function raises before its last statement."""
    tree = ast.parse(written(day))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            node.body.insert(-1, ast.parse("raise OSError('half-way')").body[0])
    return ast.unparse(tree)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("day", "file"), ANSWERS)
def test_a_lesson_holds_with_any_right_answer(day, file, tmp_path, monkeypatch):
    """No cell raises, and no assertion fails."""
    for earlier in DAYS[: day.number - 1]:  # a lesson may build on the learner's earlier days
        (tmp_path / f"{earlier.stem}.py").write_text(written(earlier), encoding="utf-8")
    shutil.copy(file, tmp_path / f"{day.stem}.py")
    printed = printed_on(day, tmp_path, monkeypatch)
    for name in day.exercises:  # those of earlier days are the reference's
        assert f"{name}: yours, from " in printed or name not in printed
        assert f"{name}: the reference's, because" not in printed


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.stem)
def test_a_lesson_goes_on_where_an_answer_raises(day, tmp_path, monkeypatch):
    (tmp_path / f"{day.stem}.py").write_text(raising(day), encoding="utf-8")
    assert "(OSError: half-way)" in printed_on(day, tmp_path, monkeypatch)
