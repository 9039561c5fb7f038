"""The references for an answer's worker: the definitions of earlier days, compiled, without text."""

from __future__ import annotations

import ast
import base64
import functools
import json
import marshal
import zlib
from collections.abc import Collection

from course.curriculum import COURSE_PARTS, DAYS, ROOT, Day, day_of_definition, module_of
from course.references import editions
from course.references.imports import Redacted, RedactedReference
from course.references.text import Reference, reference, without


def redacted_references(day: Day) -> Redacted:
    """Return what answers and checks of a day can import from the references.

    This includes all definitions of earlier days from the references of the day's part of the
    course, and from those that these or the checks import; nothing from the others, because code
    that a worker does not contain cannot leak.
    """
    files = dict.fromkeys(file for other in DAYS for file in _files(other))
    needed = _needed(day)
    return {module_of(file): _redacted(file, day, file in needed) for file in files}


def _needed(day: Day) -> set[str]:
    """The reference files of a day and of those before it in its part, and those that its checks or these
    import."""
    by_module = {module_of(file): file for other in DAYS for file in _files(other)}
    [part] = [part for part in COURSE_PARTS if day in part.days]
    needed: set[str] = set()
    waiting = [file for other in part.days if other.number <= day.number for file in _files(other)]
    if day.checks.exists():
        waiting += _imported(ast.parse(day.checks.read_text(encoding="utf-8")), by_module)
    while waiting:
        file = waiting.pop()
        if file not in needed:
            needed.add(file)
            waiting += _imported(reference(file).tree, by_module)
    return needed


def _files(day: Day) -> list[str]:
    return [file for file in day.references if (ROOT / file).exists()]


def _imported(tree: ast.Module, by_module: dict[str, str]) -> list[str]:
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    ]
    return [by_module[name] for name in modules if name in by_module]


@functools.cache
def _redacted(file: str, day: Day, is_needed: bool) -> RedactedReference:
    withheld = {
        name: other.number
        for other in DAYS
        for name in other.exercises
        if day_of_definition(file, name) == other
        and (other.number >= day.number or not is_needed or name not in reference(file).definitions)
    }
    if not is_needed:
        return RedactedReference("", (), withheld, foreign=True)
    source = reference(file)
    offered = tuple(without(withheld, source))
    return RedactedReference(_compiled(source, offered), offered, withheld, foreign=False)


def packed_references() -> dict[str, list[str]]:
    """Return every reference as packed text without what only a reader needs, by module.

    Lessons of an edition run on it. Text fits every version of Python, and compiled code only one.
    """
    files = dict.fromkeys(file for day in DAYS for file in _files(day))
    return {module_of(file): _packed(reference(file)) for file in files}


def _packed(source: Reference) -> list[str]:
    text = ast.unparse(_bare(source, source.definitions))
    return [base64.b64encode(zlib.compress(text.encode())).decode("ascii"), *source.definitions]


@functools.cache
def unpacked_references() -> Redacted:
    """Return the references of an edition, compiled, with all definitions."""
    packed = json.loads(editions.PACKED.read_text(encoding="utf-8"))
    return {
        module: RedactedReference(
            _code(zlib.decompress(base64.b64decode(text)).decode(), module), names, {}, False
        )
        for module, (text, *names) in packed.items()
    }


def _compiled(source: Reference, offered: Collection[str]) -> str:
    return _code(ast.unparse(_bare(source, offered)), source.module)


def _code(text: str, module: str) -> str:
    code = compile(text, f"<{module}>", "exec", dont_inherit=True)
    return base64.b64encode(marshal.dumps(code)).decode("ascii")


def _bare(source: Reference, offered: Collection[str]) -> ast.Module:
    """Definitions without what only a reader needs."""
    body = [node for node in source.tree.body if getattr(node, "name", None) in {None, *offered}]
    text = ast.unparse(ast.Module(body, type_ignores=[]))
    tree: ast.Module = _Bare().visit(ast.parse(text))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    tree.body = [node for node in tree.body if not _is_idle(node, used)]
    return ast.fix_missing_locations(tree)


class _Bare(ast.NodeTransformer):
    """Takes docstrings and annotations away."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.visit_ClassDef(node)

    def visit_ClassDef(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


def _is_idle(node: ast.stmt, used: set[str]) -> bool:
    """Whether it is an import of names that nothing uses, or a module's docstring."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return not {(alias.asname or alias.name).split(".")[0] for alias in node.names} & used
    return isinstance(node, ast.Expr)
