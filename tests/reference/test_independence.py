"""The references stand alone: they import nothing of ours but each other."""

import ast

import pytest

from course.curriculum import DAYS, ROOT

REFERENCES = sorted({file for day in DAYS if day.ready for file in day.references})
OTHERS = {"course", "training", "tests", "benchmarks"}


def imported(tree):
    """The packages that some code imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("file", REFERENCES)
def test_references_know_nothing_of_the_tool(file):
    """Whoever reads the paper as code needs no other file of ours."""
    packages = set(imported(ast.parse((ROOT / file).read_text(encoding="utf-8"))))
    assert packages
    assert not packages & OTHERS
