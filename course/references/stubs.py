"""The stubs that learners fill in: a definition's imports, signature and docstring; and its numbered steps,
the first hint."""

from __future__ import annotations

import ast
import copy
import functools
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from typing import cast

from course.curriculum import DAYS, RAISE, Day, module_of
from course.references.contracts import Contract, read_contracts
from course.references.text import (
    Definition,
    definition_text,
    import_lines,
    reference,
    sorted_imports,
    span,
)

IMPORTED = "\nWhat is imported from them below:\n"
ERRORS = (
    "`Raises` lists what the reference refuses; no check tests that your code refuses it too.\n"
)
WIDEST = 106  # characters, for text indented by four
WIDTH = 100  # of a line of code


@functools.cache
def stub_text(day: Day) -> str:
    """Return the exercise file as a learner gets it."""
    head = textwrap.dedent(f'''\
        """Day {day.number} · {day.title}

        Lesson  course lesson {day.number}
        Hints   course hint {day.number}     (one more each time; the first gives the steps of one way)
        Check   course watch {day.number}    (checks at every save; `course check {day.number}` checks once)

        Replace each `{RAISE}` with your own code. Choose your own way.
        Earlier days' parts come from the reference, so you can skip a day.
        ''')
    contracts = read_contracts(day)
    bodies = [
        _stub_of(_without_later(definition_text(day, name), day), contracts)
        for name in day.exercises
    ]
    if any(re.search(r"^ +Raises:$", text, re.MULTILINE) for text in bodies):
        head += ERRORS
    parts = "\n".join(map(_folded, _earlier_parts(day)))
    head += f'{IMPORTED}\n{textwrap.indent(parts, "    ")}\n"""\n' if parts else '"""\n'
    imports = sorted_imports(import_lines(day, private=False))
    return "\n\n".join([f"{head}\n{imports}" if imports else head, *bodies])


def _earlier_parts(day: Day) -> Iterator[str]:
    """What the stub imports of earlier days: how each is made and called, and what it does."""
    files = {module_of(file): file for other in DAYS for file in other.references}
    for node in ast.parse(sorted_imports(import_lines(day, private=False))).body:
        if isinstance(node, ast.ImportFrom) and node.module in files:
            source = reference(files[node.module])
            for alias in node.names:
                text = _without_later(source.text(source.definitions[alias.name]), day)
                (definition,) = ast.parse(text).body
                yield from _described(cast(Definition, definition), text)
                if alias.name in _base_classes(day):
                    names = ", ".join(_attributes(source.definitions[alias.name]))
                    yield f"    Attributes: {names}."


def _without_later(text: str, day: Day) -> str:
    """A definition without the parameters that name this day or a later one, such as `cache=None,  # day 25`,
    or that say `# later`."""

    def signature(match: re.Match[str]) -> str:
        head, lines, tail = match[1], match[2].splitlines(), match[3]
        marks = [re.search(r",  # (?:day (\d+)|later)", line) for line in lines]
        parameters = [
            line.partition(",  # ")[0].strip().rstrip(",")
            for line, mark in zip(lines, marks, strict=True)
            if mark is None or int(mark[1] or len(DAYS)) < day.number
        ]
        if len(parameters) == len(lines):
            return match[0]
        line = f"{head}{', '.join(parameters)}{tail.strip()}"
        if len(line) <= WIDTH:
            return line
        indent = tail[: tail.index(")")] + " " * 4
        if len(line := indent + ", ".join(parameters)) <= WIDTH:
            return f"{head}\n{line}\n{tail}"
        return "\n".join([head, *(f"{indent}{parameter}," for parameter in parameters), tail])

    return re.sub(
        r"^( *def \w+\()\n((?: +\S.*,.*\n)+)( *\).*:)$", signature, text, flags=re.MULTILINE
    )


def _base_classes(day: Day) -> set[str]:
    """The names of the classes from which the day's exercises inherit."""
    trees = (ast.parse(definition_text(day, name)) for name in day.exercises)
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {ast.unparse(base) for cls in classes for base in cls.bases}


def _attributes(definition: Definition) -> Iterator[str]:
    """What the constructor of a class stores, by name."""
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("self."):
            yield f"`{ast.unparse(node.targets[0])}`"


def _folded(line: str) -> str:
    """A line that is too long for a file, on several: a config has many fields."""
    if len(line) <= WIDEST:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    further = "" if line.endswith(".") else " " * 8  # a sentence, or a signature
    return textwrap.fill(line, WIDEST, subsequent_indent=indent + further)


def _described(definition: Definition, source: str) -> Iterator[str]:
    """A function, or a class with its public methods: the signature of each, and what it does."""
    if isinstance(definition, ast.FunctionDef):
        yield f"{definition.name}({_arguments(definition, source)})"
        yield from _summary(definition, 1)
        return
    if definition.decorator_list:
        yield f"{definition.name}({_fields(definition)})"
        yield from _summary(definition, 1)
        return
    methods = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
    init = methods.get("__init__")
    yield f"{definition.name}({_arguments(init, source)})" if init else definition.name
    yield from _summary(definition, 1)
    for name, method in methods.items():
        if name == "forward":
            yield f"    called with ({_arguments(method, source)})"
            yield from _summary(method, 2)
        elif not name.startswith("_"):
            yield f"    .{name}({_arguments(method, source)})"
            yield from _summary(method, 2)


def _summary(definition: Definition, depth: int) -> Iterator[str]:
    """The first sentence of a definition's docstring, and of what it says of the result."""
    docstring = ast.get_docstring(definition) or ""
    first, _, _ = docstring.partition("\n\n")
    _, _, returned = docstring.partition("\nReturns:\n")
    indent = "    " * depth
    if first:
        yield indent + _sentence(first)
    if returned:
        yield f"{indent}Returns: {_sentence(returned)}"


def _sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    line = " ".join(text.split())
    first, dot, _ = line.partition(". ")
    return first + dot.rstrip()


def _fields(dataclass: ast.ClassDef) -> str:
    """The fields of a dataclass, with their defaults."""
    fields = (node for node in dataclass.body if isinstance(node, ast.AnnAssign))
    return ", ".join(
        ast.unparse(field.target) + (f"={ast.unparse(field.value)}" if field.value else "")
        for field in fields
    )


def _arguments(function: ast.FunctionDef, source: str) -> str:
    """The arguments of a function without their types, or of a method without `self`, as they are written."""
    arguments = copy.deepcopy(function.args)
    arguments.args = [argument for argument in arguments.args if argument.arg != "self"]
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        parameter.annotation = None

    def as_written(default: ast.expr) -> ast.expr:
        line = source.splitlines()[default.lineno - 1].encode()  # columns count bytes
        return ast.Name(line[default.col_offset : default.end_col_offset].decode())

    arguments.defaults = [as_written(default) for default in arguments.defaults]
    arguments.kw_defaults = [default and as_written(default) for default in arguments.kw_defaults]
    return ast.unparse(arguments)


def _stub_of(text: str, contracts: dict[str, Contract] | None = None) -> str:
    """A definition without its code: signature, docstring with its contract, and the raise stay."""
    text = _with_contracts(_without_private_methods(text), contracts or {})
    tree = ast.parse(text)
    lines, comments = text.splitlines(), _comments(text)
    output: list[str] = []
    start, _ = span(tree.body[-1])
    position = start
    for function in _innermost_functions(ast.Module(tree.body[-1:], [])):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        first = function.body[0]
        signature_end = first.lineno - 1 if body is function.body else first.end_lineno
        assert signature_end is not None and function.end_lineno is not None
        output += [lines[n] for n in range(position, signature_end) if n + 1 not in comments]
        indent = " " * first.col_offset
        output += [indent + ast.unparse(node) for node in body if _is_super_init(node)]
        output.append(indent + RAISE)
        position = function.end_lineno
    return "\n".join([*output, *lines[position:]]) + "\n"


def steps_of(day: Day, exercise: str) -> str:
    """Return the numbered steps of an exercise as Markdown, for each method of a class that has some.

    The steps of a function's parts, which precede it, come first.
    """
    return _steps_of(definition_text(day, exercise), read_contracts(day))


def _steps_of(text: str, contracts: dict[str, Contract] | None = None) -> str:
    text = _with_contracts(_without_private_methods(text), contracts or {})
    tree, comments = ast.parse(text), _comments(text)
    is_class = isinstance(tree.body[-1], ast.ClassDef)
    blocks: list[str] = []
    for function in _innermost_functions(ast.Module(tree.body[-1:], [])):
        first = function.lineno if is_class else 0
        assert function.end_lineno is not None
        if steps := _steps(comments, first, function.end_lineno):
            title = [f"`{function.name}`:"] if is_class else []
            blocks += [*title, "\n".join(steps)]
    return "\n\n".join(blocks)


def _with_contracts(text: str, contracts: dict[str, Contract]) -> str:
    """A definition whose docstrings and steps are those of its contracts, too."""
    lines = text.splitlines()
    for name, node in reversed(list(_named(ast.parse(text)))):
        contract = contracts.get(name)
        if contract is None:
            continue
        first, last = node.lineno - 1, node.end_lineno
        for number in range(first, last or first):
            if step := re.match(r"( *# (\d+)\. )", lines[number]):
                if (instead := contract.replaced.get(f"Step {step[2]}")) is None:
                    continue
                indent = re.sub(r"\d+\. $", "", step[1]) + " " * (len(step[2]) + 2)
                end = number + 1
                while lines[end].startswith(indent):
                    end += 1
                new = [
                    step[1] + line if at == 0 else indent + line
                    for at, line in enumerate(instead.splitlines())
                ]
                lines[number:end] = new + [""] * (end - number - len(new))
        old = node.body[0]
        has_docstring = ast.get_docstring(node) is not None
        docstring = contract.joined(ast.get_docstring(node) or "").strip("\n")
        if not has_docstring and not docstring:
            continue
        indent = " " * old.col_offset
        closing = '"""' if "\n" not in docstring else f'\n{indent}"""'
        body = textwrap.indent(docstring, indent).lstrip()
        quote = 'r"""' if "\\" in docstring else '"""'
        at = old.lineno - 1
        until = (old.end_lineno or old.lineno) if has_docstring else at
        lines[at:until] = f"{indent}{quote}{body}{closing}".splitlines()
    return "\n".join(lines) + "\n"


def _named(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """The functions and classes of a definition in the order of the text, methods as `name.method`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _named(node, f"{prefix}{node.name}.")


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
    """What is passed on to a base class is the learner's to say."""
    return ast.unparse(node) == "super().__init__()"


def _comments(text: str) -> dict[int, str]:
    """Comments that stand alone on their line, by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: token.string
        for token in tokens
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() == ""
    }


def _steps(comments: dict[int, str], after: int, until: int) -> list[str]:
    """The numbered steps in a range of lines: each `1. …` with the comment lines that continue it."""
    steps: list[str] = []
    previous = None
    for number in sorted(line for line in comments if after < line <= until):
        comment = comments[number]
        if comment[2:3].isdigit() or (steps and previous == number - 1):
            steps.append(comment.removeprefix("# "))
            previous = number
    return steps
