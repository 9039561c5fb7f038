"""Give a lesson the learner's own definition where its core checks pass, and the reference's elsewhere.

The checks run in a worker, so that no answer can stop the notebook. A definition that passed them runs
in the notebook itself: what it raises there is raised in its own lines.
"""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import symtable
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from course.checks.answer_files import Unreadable, begun, find_answer, read_answer
from course.checks.loading import CORE
from course.curriculum import DAYS, REFERENCE, ROOT, YOURS, Day, module_of
from course.desk.state import changing, kept_result, recall
from course.judging.digests import verdict_digest
from course.judging.recorded import NotRecorded
from course.references.editions import PACKED, is_recorded, stub_of
from course.references.imports import is_redacted, redacted_imports
from course.references.modules import execute
from course.references.redacted import unpacked_references
from course.references.text import bound_by, import_of, span
from course.workers.answer_run import CANNOT_LOAD
from course.workers.checking import check_days

EXERCISES = ROOT / "exercises"
PASSED = "yours"  # the table of definitions that passed, by the digest of what they depend on
MAX_PASSED = 4  # digests kept for one exercise: a file and a notebook, and the edits of both
CELL = "your cell"

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Standing:
    """What the checks say of a definition.

    Attributes:
        status: passed; failed, if its results are wrong or it raises; or unusable, if it cannot be loaded or
            does not end.
        why: the reason, if it does not pass.
    """

    status: str
    why: str = ""


_standings: dict[tuple[str, str], Standing] = {}
_modules: dict[tuple[str, str], ModuleType] = {}


def yours_or_reference(name: str, number: int | None) -> Any:
    """Return the definition of an exercise that a lesson runs on, and print whose it is.

    Raises:
        ImportError: an answer asks for it.
        ValueError: no day asks for such a name, or several do; the message says which.
    """
    day = _day_of(name, number)
    if is_redacted():
        raise ImportError(f"yours() is for lessons: {name} is yours to write.")
    folder = os.environ.get(YOURS, "")
    if folder == REFERENCE:
        return reference_of(day, name)
    reasons = []
    for location, path in _places(day, name, Path(folder or EXERCISES)):
        standing = _standing(day, name, path, location)
        if standing.status == "passed":
            print(f"{name}: yours, from {location}.")
        elif standing.status == "failed" and recall(PASSED).get(_key(day, name)):
            print(f"{name}: yours, which passed before. Now {standing.why}.")
        else:
            reasons.append(standing.why)
            continue
        return getattr(_module(day, location, read_answer(path)), name)
    reason = reasons[0] if reasons else f"there is no exercises/{day.stub.name}"
    print(f"{name}: the reference's, because {reason}.")
    return reference_of(day, name)


def reference_of(day: Day, name: str) -> Any:
    """Return the reference's definition of an exercise."""
    modules = [module_of(file) for file in day.references]
    if not is_recorded(day):
        namespaces = [vars(importlib.import_module(module)) for module in modules]
    elif not PACKED.exists():
        raise ImportError(
            f"This edition has no reference of day {day.number}: {name} has to pass first."
        )
    else:  # an edition without the day's reference has it packed
        with redacted_imports(unpacked_references(), len(DAYS) + 1, _no_part):
            namespaces = [vars(importlib.import_module(module)) for module in modules]
    return next(names[name] for names in namespaces if name in names)


def _no_part(name: str, day: Day) -> object:
    raise ImportError(f"{name} of day {day.number} is not in this edition.")


def _day_of(name: str, number: int | None) -> Day:
    days = [day for day in DAYS if name in day.exercises and number in (None, day.number)]
    if len(days) == 1:
        return days[0]
    if days:
        which = " and ".join(str(day.number) for day in days)
        raise ValueError(
            f'days {which} all ask for {name}: say which, yours("{name}", day={days[0].number})'
        )
    asking = "no day asks" if number is None else f"day {number} does not ask"
    raise ValueError(f"{asking} for {name!r}")


# --- What the learner wrote -----------------------------------------------------------------------


def _places(day: Day, name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Where the learner's definitions are, in words and as files: in the notebook, in the folder."""
    if source := _source_in_notebook(day, name):
        with tempfile.TemporaryDirectory() as copied:
            for other in folder.glob("day*"):  # an edition takes earlier parts from them
                shutil.copy(other, copied)
            path = Path(copied, day.stub.name)
            path.write_text(source, encoding="utf-8")
            yield CELL, path
    path = find_answer(day, folder) or folder / day.stub.name
    if path.exists():
        yield f"{folder.name}/{path.name}", path


def _source_in_notebook(day: Day, name: str) -> str | None:
    """The last definition of a name in the cells that have run, with the definitions and imports it uses."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    statements: dict[str, tuple[int, str, ast.stmt]] = {}
    for number, cell in enumerate(shell.user_ns.get("In", ()) if shell else ()):
        try:
            body = ast.parse(cell).body
        except SyntaxError:
            continue
        for node in body:
            if not _calls_yours(node):
                statements |= dict.fromkeys(bound_by(node), (number, cell, node))
                continue
            for bound in bound_by(node) - {name}:  # as `course check` gives earlier days' parts
                for part in _imports_of_earlier(day, bound):
                    statements[bound] = (number, part, ast.parse(part).body[0])
    if not isinstance(statements.get(name, (0, "", None))[2], Definition):
        return None
    needed, waiting = {name}, [name]
    while waiting:
        used = _globals_of(statements[waiting.pop()][2]) & statements.keys() - needed
        needed |= used
        waiting += used
    texts: dict[ast.stmt, str] = {}
    for _, cell, node in sorted(
        (statements[identifier] for identifier in needed),
        key=lambda entry: (entry[0], entry[2].lineno),
    ):
        first, last = span(node)
        imported = "".join(import_of(node, needed)).rstrip()
        texts[node] = imported or "\n".join(cell.splitlines()[first:last])
    return "\n\n".join(texts.values()) + "\n"


def _globals_of(statement: ast.stmt) -> set[str]:
    """The names that a statement takes from around it: those of its own variables are none."""
    tables, names = [symtable.symtable(ast.unparse(statement), CELL, "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_global() or (table.get_type() == "module" and symbol.is_referenced())
        }
    return names


def _imports_of_earlier(day: Day, name: str) -> list[str]:
    """The import of an exercise of an earlier day, the last that has this name."""
    files = [
        other.references[0]
        for other in DAYS
        if other.number < day.number and name in other.exercises
    ]
    return [f"from {module_of(file)} import {name}" for file in files[-1:]]


def _calls_yours(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith("yours")
        for node in ast.walk(statement)
    )


def _module(day: Day, location: str, source: str) -> ModuleType:
    """The module of a text, run once: the classes of one file know each other."""
    if (location, source) not in _modules:
        module = ModuleType(day.stem)
        module.__file__ = location if location == CELL else str(ROOT / location)
        sys.modules[day.stem] = module  # where dataclasses and pickle look
        execute(module, source)
        _modules[location, source] = module
    return _modules[location, source]


# --- What the checks say of it --------------------------------------------------------------------


def _standing(day: Day, name: str, path: Path, location: str) -> Standing:
    """Whether a definition can be used. What passed once is not checked again while nothing changes."""
    if reason := _fault(day, name, path, location):
        return Standing("unusable", reason)
    mark, key = verdict_digest(day, path), _key(day, name)
    if mark in recall(PASSED).get(key, ()):
        return Standing("passed")
    if (mark, name) not in _standings:
        standing = _standings[mark, name] = _checked(day, name, path, location, mark)
        if standing.status == "passed":
            with changing(PASSED) as table:
                table[key] = [mark, *table.get(key, ())][:MAX_PASSED]
    return _standings[mark, name]


def _key(day: Day, name: str) -> str:
    return f"{os.environ.get(YOURS, '')}{day.stem}/{name}"  # each folder has its own record


def _fault(day: Day, name: str, path: Path, location: str) -> str:
    """Why a file cannot contain the answer, as far as that shows without running it; else nothing."""
    try:
        source = read_answer(path)
        tree = ast.parse(source)
    except Unreadable as error:
        return str(error).partition(". ")[0].rstrip(".")
    except SyntaxError as error:
        return f"{location} has a syntax error in line {error.lineno}"
    except (ValueError, RecursionError, MemoryError):
        return f"{location} is not Python that can be read"
    kinds = {node.name: type(node) for node in tree.body if isinstance(node, Definition)}
    expected_kinds = {
        node.name: type(node) for node in ast.parse(stub_of(day)).body if hasattr(node, "name")
    }
    if name in kinds and kinds[name] is not expected_kinds[name]:
        actual, expected = (_kind(kind) for kind in (kinds[name], expected_kinds[name]))
        return f"{location} defines {name} as {actual}, and day {day.number} asks for {expected}"
    if name in kinds and name not in begun(source, stub_of(day), day.exercises):
        return f"{location} is not started" if len(day.exercises) == 1 else f"{name} is not started"
    if not any(name in bound_by(node) for node in tree.body):
        return f"{location} defines no {name}"
    return ""


def _kind(definition: type) -> str:
    return "a class" if definition is ast.ClassDef else "a function"


def _checked(day: Day, name: str, path: Path, location: str, mark: str) -> Standing:
    """Run the checks in a worker, unless `course check` has just done it."""
    result = kept_result(day, mark)
    if result is None:
        try:
            [checked] = check_days([day], path.parent)
        except NotRecorded as error:
            return Standing("unusable", str(error))
        result = checked.verdict
    wrong = [
        check
        for check in result.checks
        if check.exercise == name
        and check.tier == CORE
        and check.device == "cpu"
        and check.status not in ("passed", "skipped")
    ]
    if not wrong:
        return Standing("passed")
    first_wrong = next((check for check in wrong if check.status != "failed"), wrong[0])
    first, _, rest = first_wrong.message.partition("\n")
    if CANNOT_LOAD in first and rest:
        return Standing("unusable", f"{location} cannot be loaded ({rest.splitlines()[0]})")
    why = f"a core check fails: {first_wrong.name}"
    if first_wrong.status != "failed":
        why += f" ({first.rstrip('.')})"
    ends = all(check.status in ("failed", "error") for check in wrong)
    return Standing("failed" if ends else "unusable", why)
