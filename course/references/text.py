"""The references, read as text: their definitions, and the imports that these need.

The reference is the only truth: stubs, solutions' cells, redacted and changed references are all
generated from the text that is read here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from course.curriculum import DAYS, ROOT, Day, module_of

LINE = 100  # characters
STEP = re.compile(r"^ *# \d+\. ", re.MULTILINE)

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Reference:
    """One reference file, parsed."""

    file: str
    source: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return module_of(self.file)

    @property
    def definitions(self) -> dict[str, Definition]:
        """Its functions and classes by name, without the substitutes that an edition adds for those
        that it lacks."""
        return {
            node.name: node
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "__getattr__"
        }

    def text(self, node: ast.stmt) -> str:
        """Return the source lines of a top-level statement, including decorators."""
        first, last = span(node)
        return "\n".join(self.source.splitlines()[first:last]) + "\n"


@functools.cache
def reference(file: str) -> Reference:
    """Read and parse a reference file, once."""
    source = (ROOT / file).read_text(encoding="utf-8")
    return Reference(file, source, ast.parse(source))


def definition_text(day: Day, name: str) -> str:
    """Return the exact source of one exercise of a day, after the source of its parts."""
    home = home_of(day, name)
    names = (*parts_of(home, name), name)
    return "\n\n".join(home.text(home.definitions[part]) for part in names)


def parts_of(source: Reference, name: str) -> list[str]:
    """Return the private definitions with numbered steps that a definition uses: the parts of its
    answer."""
    parts = {name}
    while more := names_in(source.definitions[part] for part in parts) - parts:
        if not (more := {part for part in more if _is_part(source, part)}):
            break
        parts |= more
    return [part for part in source.definitions if part in parts - {name}]


def _is_part(source: Reference, name: str) -> bool:
    return (
        name.startswith("_")
        and name in source.definitions
        and STEP.search(source.text(source.definitions[name])) is not None
    )


def home_of(day: Day, name: str) -> Reference:
    """Return the day's reference file that defines `name`."""
    for file in day.references:
        if name in reference(file).definitions:
            return reference(file)
    raise LookupError(f"{day.stem}: none of {', '.join(day.references)} defines {name}")


def without(names: Collection[str], source: Reference) -> list[str]:
    """Return what a reference still defines without some of its definitions, their parts, and the
    code that uses them.

    A definition that is only named as a type is not used.
    """
    gone = set(names).union(
        *(parts_of(source, name) for name in names if name in source.definitions)
    )
    uses = {name: names_in([node], types=False) for name, node in source.definitions.items()}
    while more := {name for name in uses.keys() - gone if uses[name] & gone}:
        gone |= more
    return [name for name in source.definitions if name not in gone]


def names_in(nodes: Iterable[ast.AST], types: bool = True) -> set[str]:
    """Return the names in some code, with or without those in the types of functions."""
    names: set[str] = set()
    for node in nodes:
        children: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if not types and isinstance(node, ast.FunctionDef):
            children = (child for child in children if child is not node.returns)
        if not types and isinstance(node, ast.arg):
            children = ()
        names |= {node.id} if isinstance(node, ast.Name) else names_in(children, types)
    return names


@functools.cache
def used_for(day: Day, names: frozenset[str]) -> set[str]:
    """Return the names of a day's references that some of its definitions use, directly or indirectly,
    including these definitions."""
    uses: dict[str, set[str]] = defaultdict(set)
    for file in day.references:
        for node in reference(file).tree.body:
            for name in bound_by(node):
                uses[name] |= names_in([node])
    reached: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= uses.get(name, set()) - reached
    return reached


def bound_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module may rebind."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    names = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            names.add(child.id)
        elif isinstance(child, ast.FunctionDef | ast.ClassDef):  # under an `if`
            names.add(child.name)
        elif isinstance(child, ast.alias):
            names.add(child.asname or child.name.partition(".")[0])
    return names


def made_of(file: str, name: str) -> set[tuple[str, str]]:
    """Return the definitions that a definition consists of, including itself, each with its file, even
    if imported from other references."""
    files = {
        module_of(reference_file): reference_file
        for day in DAYS
        for reference_file in day.references
    }
    parts: set[tuple[str, str]] = set()
    waiting = [(file, name)]
    while waiting:
        here, name = waiting.pop()
        source = reference(here)
        if (here, name) in parts or name not in source.definitions:
            continue
        parts.add((here, name))
        imported = {
            alias.asname or alias.name: (files[node.module], alias.name)
            for node in source.tree.body
            if isinstance(node, ast.ImportFrom) and node.module in files
            for alias in node.names
        }
        used = names_in([source.definitions[name]])
        waiting += [imported.get(used_name, (here, used_name)) for used_name in used]
    return parts


def span(node: ast.stmt) -> tuple[int, int]:
    """Return the half-open range of line indices of a statement, including decorators."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    assert node.end_lineno is not None
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1, node.end_lineno


# --- Imports that a definition needs -------------------------------------------------------------


def import_lines(day: Day, private: bool = True) -> str:
    """Return the imports that the day's exercises need, including the reference's earlier parts.

    Args:
        private: whether to import private helpers, too, which only refuse bad arguments and are not
            part of an answer.
    """
    needed: set[str] = set()
    for name in day.exercises:
        needed |= names_used(day, name)
    lines: list[str] = []
    earlier: list[str] = []
    for file in day.references:
        for node in reference(file).tree.body:
            lines += import_of(node, needed)
        definitions = [
            name
            for name in reference(file).definitions
            if name in needed
            and name not in day.exercises
            and (private or not name.startswith("_"))
        ]
        if definitions:
            earlier.append(
                f"from {reference(file).module} import {', '.join(sorted(definitions))}\n"
            )
    return "".join(_merged(dict.fromkeys([*lines, *earlier])))


def _merged(lines: Iterable[str]) -> list[str]:
    """Import statements, those of names from one module as one."""
    names: dict[str, list[str]] = {}
    for line in lines:
        statement, _, imported = line.rstrip("\n").partition(" import ")
        names.setdefault(statement, []).extend(name for name in imported.split(", ") if name)
    return [
        f"{statement} import {', '.join(sorted(set(members), key=_place))}\n"
        if members
        else statement + "\n"
        for statement, members in names.items()
    ]


def _place(name: str) -> tuple[bool, bool, str]:
    """Where ruff puts a name in an import: constants, then classes, then functions."""
    return not name.isupper(), not name[0].isupper(), name


def names_used(day: Day, name: str) -> set[str]:
    """Return the names that an exercise of a day and its parts use, without Python's builtins and the
    parts."""
    home = home_of(day, name)
    parts = parts_of(home, name)
    used = names_in(home.definitions[part] for part in (*parts, name))
    return used - set(parts) - set(dir(builtins))


def import_of(node: ast.stmt, names: set[str]) -> list[str]:
    """Return the part of an import statement that binds wanted names, as lines; nothing for other
    statements."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    aliases = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in names]
    if not aliases:
        return []
    if isinstance(node, ast.Import):
        slim: ast.stmt = ast.Import(names=aliases)
    else:
        slim = ast.ImportFrom(module=node.module, names=aliases, level=node.level)
    return [ast.unparse(slim) + "\n"]


def sorted_imports(lines: str) -> str:
    """Sort import lines in ruff's order: standard library, other packages, our own references."""
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
