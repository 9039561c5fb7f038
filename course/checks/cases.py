"""One check as a learner sees it: how to draw its inputs again, and what it does with them.

The printed lines are read from the check's file, which is not run for this.
"""

from __future__ import annotations

import ast
import difflib
import functools
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import Check, load_checks
from course.checks.seeing import check_inputs, device_context
from course.curriculum import Day

PREFIX = "test_"


def inputs_of(day: Day, check_name: str, seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Draw the inputs of a check, by name.

    Raises:
        LookupError: the day has no such check; the message names the nearest.
    """
    checks = {check.name: check for check in _checks(day)}
    with device_context(device):
        return check_inputs(checks[names_like(check_name, day, list(checks))[0]], seed, device)


def names_like(check_name: str, day: Day, names: Sequence[str]) -> list[str]:
    """Return the checks that a name means: one check, or one for each parameter if the name
    contains none.

    Args:
        check_name: the name of a check, with or without `test_`.
        day: the day, for the message.
        names: the names of the day's checks.

    Raises:
        LookupError: there is no such check; the message gives the nearest name and lists all names.
    """
    full_name = f"{PREFIX}{check_name.removeprefix(PREFIX)}"
    matches = [name for name in names if full_name in (name, name.partition("[")[0])]
    if matches:
        return matches
    near = difflib.get_close_matches(full_name, names, 1, cutoff=0.0)
    available = dict.fromkeys(name.removeprefix(PREFIX).partition("[")[0] for name in names)
    raise LookupError(
        f"day {day.number} has no check {check_name!r}; the nearest is {near[0]!r}. "
        f"It has: {', '.join(available)}"
    )


def snippet(day: Day, name: str, seed: int = 0, device: str = "cpu") -> str:
    """Return Python code that draws a check's inputs, under the names that the check uses."""
    options = [f"seed={seed}"] if seed else []
    options += [f"device={_quoted(device)}"] if device != "cpu" else []
    call = f"case({', '.join([str(day.number), _quoted(name), *options])})"
    names = [
        parameter.arg for parameter in _definition(day, name).args.args if parameter.arg != "answer"
    ]
    if len(names) == 1:
        lines = [f"{names[0]} = {call}[{_quoted(names[0])}]"]
    else:
        lines = [
            f"drawn = {call}",
            *(f"{parameter} = drawn[{_quoted(parameter)}]" for parameter in names),
        ]
    head = ["from course import case"]
    if device == PRACTICE:
        head.append("from course.checks import practice")
        lines = [
            "with practice.running():  # use them in here, too",
            *(f"    {line}" for line in lines),
        ]
    return "\n".join([*head, "", *lines])


def steps(day: Day, name: str) -> str:
    """Return the lines with which a check uses its inputs and the answer."""
    source = day.checks.read_text(encoding="utf-8").splitlines()
    definition = _definition(day, name)
    body = definition.body[1:] if ast.get_docstring(definition) else definition.body
    return textwrap.dedent("\n".join(source[body[0].lineno - 1 : definition.end_lineno]))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _definition(day: Day, name: str) -> ast.FunctionDef:
    tree = ast.parse(day.checks.read_text(encoding="utf-8"))
    base = name.partition("[")[0]
    return next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == base
    )


@functools.cache
def _checks(day: Day) -> list[Check]:
    return load_checks(day)
