"""The reference with some of its definitions replaced by others."""

from __future__ import annotations
import __future__

import ast
import functools
from collections.abc import Mapping
from types import CodeType, MappingProxyType, ModuleType

from course.curriculum import Day
from course.references.text import reference


def reference_module(
    day: Day, changed: Mapping[str, str | ast.Module] = MappingProxyType({})
) -> ModuleType:
    """Return a module with the day's exercises, some of them replaced by different text or syntax.

    The other exercises of the day use the changed ones, as they would in a learner's file.
    """
    answer = ModuleType("answer")
    for file in day.references:
        module = ModuleType(reference(file).module)
        for name, code in _statements(file):
            other = changed.get(name)
            exec(code if other is None else _compiled(other, name), module.__dict__)
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
    """Code whose types are not evaluated: they cost more than all the rest, and only a
    dataclass, which looks at those of its fields."""
    tree = ast.parse(source) if isinstance(source, str) else source
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    is_dataclass = any(node.decorator_list for node in classes)
    flags = 0 if is_dataclass else __future__.annotations.compiler_flag
    code: CodeType = compile(tree, f"<{name} of the reference>", "exec", flags, dont_inherit=True)
    return code
