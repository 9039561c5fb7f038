r"""Edits of a definition by its syntax: code is found by its structure, not by its layout.

An edit is a fragment of Python to find, and its replacement. The fragment is an expression,
a keyword argument or a parameter with its default, or one or several statements. It is compared
with the definition as syntax, so layout, comments, quotes and parentheses make no difference, and
it must be found exactly once.

    "scores.softmax(dim=-1)" = "scores.softmax(dim=-2)"    an expression
    "dim=-1" = "dim=-2"                                    a keyword argument or a parameter
    "scores = scores / root" = ""                          a statement, which is deleted
    "_ / math.sqrt(d_k)" = "_"        `_` matches any expression, and the replacement keeps it
    "scores = ..." = "scores = 0"     `...` matches any expression, and the replacement drops it
    "if self.finite:\n    _" = "_"    alone in a block, either one matches all of the block
    "2: ~mask" = "mask"               found in step 2, after the comment `# 2. …`, of any method
    "forward(): eps" = "0"            found in a function or method
    "forward() 0: eps" = "0"          found in one of its steps; step 0 is before the first comment

An empty replacement deletes a statement, an argument, a parameter or a decorator. New code belongs
to the step of the code that it replaces. `...` does not match what an earlier edit has changed, so
that no edit undoes another one unnoticed.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PLACE = re.compile(r"(?:(\w+)\(\))?(?:(?:^| )(\d+))?: ")
STEP = re.compile(r"\s*# (\d+)\.")
OPTIONAL = ("args", "elts", "decorator_list")  # the lists from which an expression can be deleted

Nodes = Sequence[Any]  # nodes of syntax


class Drifted(ValueError):
    """An edit that does not fit its definition: its fragment is not found exactly once."""


class Draft:
    """A definition during editing: its text, which has the steps, and its changing syntax."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tree = ast.parse(text)

    def edit(self, find: str, put: str) -> None:
        """Make one edit.

        Raises:
            Drifted: the fragment does not occur exactly once in its place, or the edit is not
                Python.
        """
        location = PLACE.match(find)
        fragment = find[location.end() :] if location else find
        function, step = location.groups() if location else (None, None)
        try:
            readings = list(_readings(fragment, put))
        except SyntaxError as error:
            raise Drifted(f"{find!r}: {put!r} is not Python: {error.msg}") from error
        matches = [
            (site, new)
            for old, new in readings
            for site in _sites(self.tree, old, deletes=not new)
            if location is None or site.line in _lines(self._text, function, step)
        ]
        if len(matches) != 1:
            places = [f"step {step}" if step else "", f"{function}()" if function else ""]
            where = " of ".join(filter(None, places))
            named = f"{fragment!r} must be found once{where and ' in '}{where}"
            raise Drifted(f"{named}, got {len(matches)} times")
        site, new = matches[0]
        if not site.matched and any(
            _wildcard(child) == "_" for node in new for child in ast.walk(node)
        ):
            raise Drifted(f"{put!r} keeps `_`, which is not in {fragment!r}")
        site.put([prepared for node in new for prepared in _prepared(node, site)])


def _readings(find: str, put: str) -> Iterator[tuple[Nodes, Nodes]]:
    """Yield the nodes to find and the nodes to put there, once per kind of syntax that the edit can be."""
    old, new = ast.parse(find).body, ast.parse(put).body
    if _value(old) and (_value(new) or not new):
        yield _value(old), _value(new)
    if old and not (_value(old) and _value(new)):
        yield old, new
    if _keyword(old) and (_keyword(new) or not new):
        yield _keyword(old), _keyword(new)


def _value(statements: list[ast.stmt]) -> Nodes:
    """The expression that the only statement is, if it is one."""
    match statements:
        case [ast.Expr(value)]:
            return [value]
    return []


def _keyword(statements: list[ast.stmt]) -> Nodes:
    """The keyword argument that the only statement looks like, an assignment to a name."""
    match statements:
        case [ast.Assign([ast.Name(name)], value)] | [
            ast.AnnAssign(ast.Name(name), _, ast.expr() as value)
        ]:
            return [ast.keyword(name, value)]
    return []


@dataclass(frozen=True)
class _Site:
    """Where a fragment was found: in a field of a node, or in a part of the list that the field is."""

    parent: Any
    field: str
    part: slice | None
    line: int
    matched: list[Any]
    """What `_` matched: an expression, or the list of a block's statements."""

    def put(self, new: Nodes) -> None:
        """Replace the fragment."""
        self.parent.edited = True
        if self.part is None:
            setattr(self.parent, self.field, new[0])
            return
        nodes = getattr(self.parent, self.field)
        nodes[self.part] = new
        if not nodes and self.field == "body":
            nodes += _prepared(ast.Pass(), self)


@dataclass(frozen=True)
class _Parameter:
    """A parameter with a default in a signature, found by a keyword argument."""

    signature: ast.arguments
    index: int
    line: int
    matched: list[Any]

    def put(self, new: Nodes) -> None:
        """Replace or delete the fragment."""
        values, parameters = self.signature.defaults, self.signature.args
        at = self.index + len(parameters) - len(values)
        if new:
            parameters[at].arg, values[self.index] = new[0].arg, new[0].value
        else:
            del parameters[at], values[self.index]


def _prepared(node: ast.AST, site: _Site | _Parameter) -> Nodes:
    """A new node on the line of what it replaces, with what `_` matched; several if that is a block."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes:
            inner.edited = True  # type: ignore[attr-defined]
            inner.lineno = inner.end_lineno = site.line  # type: ignore[attr-defined]
            inner.col_offset = inner.end_col_offset = 0  # type: ignore[attr-defined]
    result = _Keep(site.matched).visit(node) if site.matched else node
    return result if isinstance(result, list) else [result]


class _Keep(ast.NodeTransformer):
    """Puts what `_` matched where the replacement has `_`."""

    def __init__(self, matched: list[Any]) -> None:
        self._matched = matched[0]

    def visit_Expr(self, node: ast.Expr) -> Any:
        is_block = isinstance(self._matched, list) and _wildcard(node.value) == "_"
        return copy.deepcopy(self._matched) if is_block else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        return copy.deepcopy(self._matched) if _wildcard(node) == "_" else node


# --- Finding --------------------------------------------------------------------------------------


def _sites(tree: ast.AST, old: Nodes, deletes: bool) -> Iterator[_Site | _Parameter]:
    """Yield each place in a tree where a fragment is found."""
    for parent in ast.walk(tree):
        if isinstance(parent, ast.arguments) and isinstance(old[0], ast.keyword):
            yield from _parameters(parent, old[0])
        for field, value in ast.iter_fields(parent):
            if deletes and isinstance(old[0], ast.expr) and field not in OPTIONAL:
                continue
            for part, nodes in _neighbors(value, old):
                matched: list[ast.expr] = []
                if _same(old, nodes, matched):
                    yield _Site(parent, field, part, nodes[0].lineno, matched)


def _neighbors(value: Any, old: Nodes) -> Iterator[tuple[slice | None, list[Any]]]:
    """Yield the nodes of a field that may be the fragment: itself, or as many in a row of its list."""
    kind = type(old[0])
    if isinstance(value, kind):
        yield None, [value]
    elif isinstance(value, list):
        for start, first in enumerate(value):
            if isinstance(first, kind):
                part = slice(start, start + len(old))
                yield part, value[part]


def _parameters(signature: ast.arguments, old: ast.keyword) -> Iterator[_Parameter]:
    """Yield each parameter with a default that is like a keyword argument."""
    parameters = signature.args[len(signature.args) - len(signature.defaults) :]
    for index, (parameter, default) in enumerate(zip(parameters, signature.defaults, strict=True)):
        matched: list[ast.expr] = []
        if parameter.arg == old.arg and _same(old.value, default, matched):
            yield _Parameter(signature, index, parameter.lineno, matched)


def _same(old: Any, code: Any, matched: list[Any]) -> bool:
    """Compare code with a fragment, and note what `_` matches."""
    match _wildcard(old):
        case "...":
            return _is_whole(code) and not _is_edited(code)
        case "_":
            matched.append(code)
            return _is_whole(code) and _same(matched[0], code, [])
    if type(old) is not type(code):
        return False
    if isinstance(old, ast.AST):
        return all(_same(getattr(old, name), getattr(code, name), matched) for name in old._fields)
    if isinstance(old, list):
        return len(old) == len(code) and all(
            _same(a, b, matched) for a, b in zip(old, code, strict=True)
        )
    return bool(old == code)


def _wildcard(old: Any) -> str:
    """What stands for any expression, or alone in a block for all of it: `_`, `...`, or else nothing."""
    match old:
        case ast.Name("_", ast.Load()) | [ast.Expr(ast.Name("_", ast.Load()))]:
            return "_"
        case ast.Constant(value) | [ast.Expr(ast.Constant(value))] if value is ...:
            return "..."
    return ""


def _is_whole(code: Any) -> bool:
    """Whether this is an expression or a block."""
    return isinstance(code, ast.expr) or (isinstance(code, list) and code != [])


def _is_edited(code: Any) -> bool:
    nodes = code if isinstance(code, list) else [code]
    return any(hasattr(inner, "edited") for node in nodes for inner in ast.walk(node))


@functools.cache
def _lines(text: str, function: str | None, step: str | None) -> frozenset[int]:
    """The lines of a function, of its step, or of a step of any function that is not inside another."""
    tree, lines = ast.parse(text), text.splitlines()
    numbers: set[int] = set()
    for node in ast.walk(tree) if function else _outermost(tree):
        if isinstance(node, ast.FunctionDef) and function in (None, node.name):
            current = "0"
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                if comment := STEP.match(lines[number - 1]):
                    current = comment[1]
                if step in (None, current):
                    numbers.add(number)
    return frozenset(numbers)


def _outermost(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions that are not inside another: a definition itself, or a class's methods."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from _outermost(child)
