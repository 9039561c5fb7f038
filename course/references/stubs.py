"""The stubs that learners fill in: a definition's imports, signature, docstring and numbered steps."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator

from course.curriculum import RAISE, Day
from course.references.text import definition_text, import_lines, sorted_imports, span


def stub_text(day: Day) -> str:
    """The exercise file as a learner finds it."""
    head = textwrap.dedent(f'''\
        """Day {day.number} · {day.title}

        Lesson  course lesson {day.number}
        Hints   course hint {day.number}
        Check   course watch {day.number}    (checks at every save; `course check {day.number}` checks once)

        Replace each `{RAISE}` by your own code. The numbered comments are a way there; you may
        take another. Earlier days' parts come from the reference, so a day can be skipped.
        """
        ''')
    bodies = [_stub_of(definition_text(day, name)) for name in day.exercises]
    imports = sorted_imports(import_lines(day, private=False))
    return "\n\n".join([f"{head}\n{imports}" if imports else head, *bodies])


def _stub_of(text: str) -> str:
    """A definition without its code: signature, docstring, numbered steps and the raise stay."""
    text = _without_private_methods(text)
    tree = ast.parse(text)
    lines = text.splitlines()
    comments = _comments(text)
    kept: list[str] = []
    position = 0
    for function in _innermost_functions(tree):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        first = function.body[0]
        signature_end = first.lineno - 1 if body is function.body else first.end_lineno
        assert signature_end is not None and function.end_lineno is not None
        kept += lines[position:signature_end]
        indent = " " * first.col_offset
        kept += [indent + ast.unparse(node) for node in body if _is_super_init(node)]
        kept += _steps(comments, signature_end, function.end_lineno, indent)
        kept.append(indent + RAISE)
        position = function.end_lineno
    return "\n".join([*kept, *lines[position:]]) + "\n"


def _without_private_methods(text: str) -> str:
    """How the reference helps itself is not part of the exercise."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and re.match(r"_[^_]", node.name) and node.col_offset:
            first, last = span(node)
            lines[first:last] = [""] * (last - first)
    return "\n".join(lines).rstrip() + "\n"


def _innermost_functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions of a definition in the order of the text: itself, or a class's methods."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _innermost_functions(node)


def _is_super_init(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("super().__init__(")


def _comments(text: str) -> dict[int, str]:
    """Comments that stand alone on their line, by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: token.string
        for token in tokens
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() == ""
    }


def _steps(comments: dict[int, str], after: int, until: int, indent: str) -> list[str]:
    """The numbered steps in a range of lines: each `# 1. …` with the comment lines that continue it."""
    steps: list[str] = []
    previous = None
    for number in sorted(line for line in comments if after < line <= until):
        comment = comments[number]
        if comment[2:3].isdigit() or (steps and previous == number - 1):
            steps.append(indent + comment)
            previous = number
    return steps
