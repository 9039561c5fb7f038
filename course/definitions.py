"""The references read as text, and what is made of them: stubs, cells, cut and changed references.

The reference is the only truth. Everything that repeats it is written from here: a stub keeps a
definition's imports, signature, docstring and numbered steps and loses its code; a solution's cells
are the definitions to the letter; a worker gets the reference without today's and later
definitions; a wrong answer is the reference with one definition changed.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import importlib.abc
import importlib.util
import io
import linecache
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from course.curriculum import DAYS, ROOT, Day, day_of_definition

if TYPE_CHECKING:
    from course.own import OwnParts

RAISE = "raise NotImplementedError"
LINE = 100  # characters

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Reference:
    """One reference file, parsed."""

    file: str
    source: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """The name it is imported by: `variants/gpt.py` is `variants.gpt`."""
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def definitions(self) -> dict[str, Definition]:
        return {
            node.name: node
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }

    def text(self, node: ast.stmt) -> str:
        """The source lines of a top-level statement, decorators included."""
        first, last = _span(node)
        return "\n".join(self.source.splitlines()[first:last]) + "\n"


@functools.cache
def reference(file: str) -> Reference:
    """Read and parse a reference file, once."""
    source = (ROOT / file).read_text(encoding="utf-8")
    return Reference(file, source, ast.parse(source))


def definition_text(day: Day, name: str) -> str:
    """The source of one exercise of a day, to the letter."""
    home = _home(day, name)
    return home.text(home.definitions[name])


def _home(day: Day, name: str) -> Reference:
    """The reference file of the day that defines `name`."""
    for file in day.references:
        if name in reference(file).definitions:
            return reference(file)
    raise LookupError(f"{day.stem}: none of {', '.join(day.references)} defines {name}")


def _span(node: ast.stmt) -> tuple[int, int]:
    """The half-open range of line indices of a statement, decorators included."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    assert node.end_lineno is not None
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1, node.end_lineno


# --- Imports that a definition needs -------------------------------------------------------------


def import_lines(day: Day, private: bool = True) -> str:
    """The imports that the day's exercises need, the reference's earlier parts included.

    Args:
        day: the day.
        private: whether to import private helpers too, which only refuse bad arguments: what no
            answer is asked for.
    """
    wanted: set[str] = set()
    for name in day.exercises:
        wanted |= names_used(day, name)
    kept: list[str] = []
    earlier: list[str] = []
    for file in day.references:
        for node in reference(file).tree.body:
            kept += _import_of(node, wanted)
        found = [
            name
            for name in reference(file).definitions
            if name in wanted
            and name not in day.exercises
            and (private or not name.startswith("_"))
        ]
        if found:
            earlier.append(f"from {reference(file).module} import {', '.join(sorted(found))}\n")
    return "".join(dict.fromkeys([*kept, *earlier]))


def names_used(day: Day, name: str) -> set[str]:
    """The names that one exercise of a day uses, Python's own aside."""
    definition = _home(day, name).definitions[name]
    names = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    return names - set(dir(builtins))


def _import_of(node: ast.stmt, wanted: set[str]) -> list[str]:
    """The part of an import statement that binds wanted names, as lines; nothing for other statements."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    aliases = [
        alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in wanted
    ]
    if not aliases:
        return []
    if isinstance(node, ast.Import):
        slim: ast.stmt = ast.Import(names=aliases)
    else:
        slim = ast.ImportFrom(module=node.module, names=aliases, level=node.level)
    return [ast.unparse(slim) + "\n"]


# --- Stubs ---------------------------------------------------------------------------------------


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


def sorted_imports(lines: str) -> str:
    """Import lines in ruff's order: standard library, other packages, our own references."""
    ours = {
        reference_file.split("/")[0].removesuffix(".py")
        for day in DAYS
        for reference_file in day.references
    }

    def group(line: str) -> int:
        package = line.split()[1].split(".")[0]
        return 2 if package in ours else 0 if package in sys.stdlib_module_names else 1

    def order(line: str) -> tuple[int, bool, str]:
        return group(line), line.startswith("from "), line.split()[1].lower()

    ordered = sorted(lines.splitlines(keepends=True), key=order)
    blocks = [[line for line in ordered if group(line) == number] for number in range(3)]
    return "\n".join("".join(map(_wrapped, block)) for block in blocks if block)


def _wrapped(line: str) -> str:
    """An import as ruff has it: one name a line where a line is too short for all."""
    if len(line.rstrip()) <= LINE:
        return line
    head, names = line.rstrip().split(" import ")
    return f"{head} import (\n" + "".join(f"    {name},\n" for name in names.split(", ")) + ")\n"


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
            first, last = _span(node)
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


# --- References cut to earlier days, and changed ones ---------------------------------------------


def cut_sources(day: Day) -> dict[str, tuple[str, dict[str, int]]]:
    """For each reference module: its source without the exercises of this and later days, and
    the days of those that were withheld, by name."""
    files = dict.fromkeys(
        file for other in DAYS for file in other.references if (ROOT / file).exists()
    )
    return {reference(file).module: _cut(reference(file), day) for file in files}


def _cut(source: Reference, day: Day) -> tuple[str, dict[str, int]]:
    lines = source.source.splitlines()
    withheld = {
        name: other.number
        for other in DAYS
        for name in other.exercises
        if day_of_definition(source.file, name) == other
        and (other.number >= day.number or name not in source.definitions)
    }
    for name in withheld.keys() & source.definitions.keys():
        first, last = _span(source.definitions[name])
        lines[first:last] = [""] * (last - first)
    return "\n".join(lines) + "\n", withheld


def reference_module(day: Day, changed: Mapping[str, str] = MappingProxyType({})) -> ModuleType:
    """The day's exercises as the reference has them, some of them replaced by another text.

    The other exercises of the day use the changed ones, as those in a learner's own file would.
    """
    answer = ModuleType("answer")
    for file in day.references:
        module = ModuleType(reference(file).module)
        for name, code in _statements(file):
            text = changed.get(name)
            exec(code if text is None else _compiled(text, name), module.__dict__)
        for name in set(day.exercises) & set(vars(module)):
            setattr(answer, name, vars(module)[name])
    return answer


@functools.cache
def _statements(file: str) -> list[tuple[str, CodeType]]:
    """The statements of a reference, compiled one by one; definitions with their names."""
    return [
        (getattr(node, "name", ""), _compiled(ast.Module([node], []), file))
        for node in reference(file).tree.body
    ]


def _compiled(source: str | ast.Module, name: str) -> CodeType:
    """Code whose types are not evaluated: they cost more than all the rest, and nobody asks here."""
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(source, f"<{name} of the reference>", "exec", flags, dont_inherit=True)
    return code


def build_module(name: str, source: str, filename: str | None = None) -> ModuleType:
    """A module of the given source, not entered into `sys.modules`; tracebacks can show its lines."""
    module = ModuleType(name)
    module.__file__ = filename
    _execute(module, source)
    return module


def _execute(module: ModuleType, source: str) -> None:
    file = module.__file__ = getattr(module, "__file__", None) or f"<{module.__name__}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)


@contextmanager
def references_cut(
    cut: dict[str, tuple[str, dict[str, int]]], day: int, own: Path | None = None
) -> Iterator[None]:
    """Within it, importing a reference gives only the definitions of earlier days.

    Args:
        cut: what `cut_sources` gives.
        day: the number of today.
        own: the learner's exercises, which stand in for earlier days whose reference is not here.
    """
    before = {name: sys.modules.pop(name) for name in cut if name in sys.modules}
    finder = _CutReferences(cut, day, own)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in cut:
            sys.modules.pop(name, None)
        sys.modules.update(before)


class _CutReferences(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports cut references; only when they are asked for, as importing torch takes long."""

    def __init__(
        self, cut: dict[str, tuple[str, dict[str, int]]], day: int, own: Path | None
    ) -> None:
        self._cut = cut
        self._day = day
        self._own = _own_parts(own)

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name in self._cut else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        source, withheld = self._cut[name]
        _execute(module, source)
        module.__dict__["__getattr__"] = functools.partial(
            _withheld, name, withheld, self._day, self._own
        )


def _own_parts(folder: Path | None) -> OwnParts:
    from course.own import OwnParts  # which reads answers, and so stands on this

    return OwnParts(folder)


def _withheld(module: str, withheld: dict[str, int], day: int, own: OwnParts, name: str) -> object:
    if name in withheld and withheld[name] < day:
        return own.part(name, DAYS[withheld[name] - 1])
    if name in withheld:
        later = f"belongs to day {withheld[name]}, after today"
        when = "is today's exercise" if withheld[name] == day else later
        raise ImportError(
            f"{name} of {module} {when}: it is yours to write, so it cannot be imported here. "
            "What earlier days wrote can."
        )
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
