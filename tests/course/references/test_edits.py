"""Edits of a definition's syntax: what finds code, what replaces it, and what is refused."""

import ast
import re

import pytest

from course.curriculum import find_day
from course.judging.misconceptions import load_misconceptions
from course.references.edits import Draft, Drifted
from course.references.text import definition_text

STEPS = """
def f(x):
    a(x)
    # 1. First.
    a(x)
    if x:
        # 2. Second.
        a(x)
"""
METHODS = """
class A:
    def one(self):
        # 1. First.
        a()

    def two(self):
        # 1. First.
        a()
        def inner():
            return a()
"""


def edited(text, *edits):
    """A text after some edits, as Python writes it."""
    draft = Draft(text)
    for find, put in edits:
        draft.edit(find, put)
    return ast.unparse(draft.tree)


@pytest.mark.parametrize(
    ("before", "find", "put", "after"),
    [
        ("y = (x\n  .sum( -1 ))  # all", "x.sum(-1)", "x", "y = x"),
        ("y = a * b", "a", "a + c", "y = (a + c) * b"),
        ("y = f('a')", 'f("a")', "b", "y = b"),
        ("y = f(x, dim=1)", "dim=1", "dim=2", "y = f(x, dim=2)"),
        ("y = f(x, dim=1)", "dim=1", "", "y = f(x)"),
        ("y = f(x, z)", "z", "", "y = f(x)"),
        ("def f(x, dim: int=1): pass", "dim=1", "axis=2", "def f(x, axis: int=2): pass"),
        ("def f(x, a=1, dim=1): pass", "a=1", "", "def f(x, dim=1): pass"),
        ("@g\ndef f(): pass", "g", "", "def f(): pass"),
        ("y = 1\nz = 2", "y = 1", "", "z = 2"),
        ("y = 1\nz = 2\nf()", "y = 1\nz = 2", "z = 3", "z = 3\nf()"),
        ("if x:\n  f()", "f()", "", "if x:\n  pass"),
        ("if x:\n  f()", "f()", "g()\nh()", "if x:\n  g()\n  h()"),
        ("y = f(x) / g(z)", "_ / g(z)", "h(_) + _", "y = h(f(x)) + f(x)"),
        ("y = a * a + a * b", "_ * _", "_", "y = a + a * b"),
        ("y = f(x) / g(z)", "_ / ...", "_", "y = f(x)"),
        ("y = x[..., 1]", "x[...]", "x[0]", "y = x[0]"),
        ("y = f(x)\nreturn y", "y = ...", "y = 0", "y = 0\nreturn y"),
        ("if x:\n  f()\n  return", "if x:\n  _", "_", "f()\nreturn"),
        ("if x:\n  f()\n  return", "if x:\n  ...", "while x:\n  g()", "while x:\n  g()"),
        (STEPS, "0: a(x)", "b", STEPS.replace("a(x)", "b", 1)),
        (STEPS, "2: a(_)", "b(_)", "b(x)".join(STEPS.rsplit("a(x)", 1))),
        (METHODS, "one(): a()", "b", METHODS.replace("a()", "b", 1)),
        (METHODS, "inner(): a()", "b", METHODS.replace("return a()", "return b")),
    ],
)
def test_an_edit(before, find, put, after):
    """Layout, comments and quotes make no difference; wildcards and places do."""
    assert edited(before, (find, put)) == ast.unparse(ast.parse(after))


@pytest.mark.parametrize(
    ("text", "find", "put", "message"),
    [
        (STEPS, "unicorn", "x", "'unicorn' must be found once, got 0 times"),
        (STEPS, "a(x)", "x", r"'a\(x\)' must be found once, got 3 times"),
        (STEPS, "7: x", "y", "'x' must be found once in step 7, got 0 times"),
        (METHODS, "1: a()", "b", r"must be found once in step 1, got 3 times"),
        (METHODS, "two() 1: a()", "b", r"once in step 1 of two\(\), got 2 times"),
        (METHODS, "three(): a()", "b", r"once in three\(\), got 0 times"),
        (STEPS, "x +", "y", r"'x \+': 'y' is not Python"),
        ("y = f(x, k=1)\nk = 1", "k=1", "k=2", "got 2 times"),
        ("y = x", "x", "", "got 0 times"),
        ("y = x", "", "y = z", "got 0 times"),
        ("y = x", "x", "f(_)", r"'f\(_\)' keeps `_`, which is not in 'x'"),
    ],
)
def test_an_edit_that_does_not_fit(text, find, put, message):
    """What is not found once is refused, with its place."""
    with pytest.raises(Drifted, match=message):
        edited(text, (find, put))


def test_new_code_belongs_to_the_step_of_what_it_replaces():
    """So several edits, and several mistakes, can name the same step."""
    assert "c(x)" in edited(STEPS, ("2: a(_)", "b(_)\nb(x)"), ("2: b(x)\nb(x)", "c(x)"))


def test_an_edit_is_not_undone_unnoticed():
    """`...` drops only what no other edit has changed."""
    with pytest.raises(Drifted, match="got 0 times"):
        edited("y = f(g(x))", ("x", "z"), ("f(...)", "0"))
    assert edited("y = f(g(x))", ("x", "z"), ("f(_)", "_")) == "y = g(z)"


# --- References that are written differently ------------------------------------------------------


def rewritten(text):
    """A definition in another layout and with other words: docstrings gone, each statement on one line,
    other quotes, and of its comments only the numbers of the steps."""
    tree = ast.parse(text)
    steps = {
        number: match[1]
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.match(r"\s*# (\d+)\.", line))
    }
    without_docstrings(tree)
    for number, step in steps.items():
        body, index = following(tree, number)
        body.insert(index, ast.Expr(ast.Constant(f"step {step}")))
    return re.sub(r"(\"{3}|')step (\d+)\1", r"# \2. In other words.", ast.unparse(tree))


def following(tree, number):
    """The statement after a line: the list it is in, and its index."""
    places = [
        (child.lineno, body, index)
        for node in ast.walk(tree)
        for body in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(body, list)
        for index, child in enumerate(body)
        if getattr(child, "lineno", 0) > number
    ]
    return min(places, key=lambda entry: entry[0])[1:]


def without_docstrings(tree):
    """The tree, in which no definition has a docstring any more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree


@pytest.mark.parametrize("number", ["8", "9", "25"])
def test_a_reference_can_be_written_differently(number):
    """Every known wrong answer of a day is the same when only layout and words of the reference change."""
    day = find_day(number)
    tried = 0
    for wrong in load_misconceptions(day):
        text = definition_text(day, wrong.definition)
        other = Draft(rewritten(text))
        assert ast.dump(other.tree) == ast.dump(without_docstrings(ast.parse(text)))
        changed = without_docstrings(wrong.applied(day).tree)
        assert ast.dump(wrong.applied(day, other).tree) == ast.dump(changed)
        tried += 1
    assert tried >= 30
