"""Contracts: what the author of an answer has to know, but not a reader of the reference.

A day's contracts are a Markdown file. The text under the heading of an exercise, `## name`, or of a
method, `## name.method`, is added to the reference's docstring in the stub. The text under
`### Equation` or `### Step 2` replaces the reference's text in the stub, if the reference's would
be the entire answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from course.curriculum import Day
from course.references.text import home_of

LAST_PARTS = re.compile(r"^(Raises:$|Source: )", re.MULTILINE)
EQUATION = re.compile(r"(?<=\n\n)(?: {4}.*\n)(?: {4}.*\n|\n(?= {4}))*")
TITLE = re.compile(r"Equation|Step \d+")


@dataclass(frozen=True)
class Contract:
    """The contract of a function, a class or a method.

    Attributes:
        text: the text that is added to the docstring.
        replaced: the stub's equation and numbered steps by their titles, `Equation` and `Step 2`.
    """

    text: str = ""
    replaced: dict[str, str] = field(default_factory=dict)

    def joined(self, docstring: str) -> str:
        """Return the reference's docstring with the contract, which precedes its errors and source."""
        if "Equation" in self.replaced:
            equation = "".join(f"    {line}\n" for line in self.replaced["Equation"].splitlines())
            docstring = EQUATION.sub(lambda _: equation, docstring + "\n", count=1).rstrip()
        if not self.text:
            return docstring
        last = LAST_PARTS.search(docstring)
        if last is None:
            return f"{docstring}\n\n{self.text}"
        return f"{docstring[: last.start()]}{self.text}\n\n{docstring[last.start() :]}"


def read_contracts(day: Day) -> dict[str, Contract]:
    """Return the day's contracts by name; none if there is no file, which `faults` reports."""
    if not day.contracts.exists():
        return {}
    text = day.contracts.read_text(encoding="utf-8")
    contracts: dict[str, Contract] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        promised, *rest = re.split(r"^### ", body, flags=re.MULTILINE)
        parts = (block.partition("\n") for block in rest)
        replaced = {title.strip(): part.strip("\n") for title, _, part in parts}
        contracts[name.strip().strip("`")] = Contract(promised.strip(), replaced)
    return contracts


def faults(day: Day) -> Iterator[str]:
    """Return what is wrong with the day's contracts, each fault in a few words."""
    if not day.contracts.exists():
        yield "missing: a Markdown file with a heading `## name` for each exercise"
        return
    names = {name for exercise in day.exercises for name in _names(day, exercise)}
    for name, contract in read_contracts(day).items():
        if name not in names:
            yield f"no exercise of day {day.number}, or method of one, is named {name}"
        elif not contract.text and not contract.replaced:
            yield f"the contract of {name} is empty"
        for title in contract.replaced:
            if not TITLE.fullmatch(title):
                yield f"a heading of {name} must be `Equation` or `Step N`, got {title!r}"


def _names(day: Day, exercise: str) -> Iterator[str]:
    """An exercise's name, and those of its methods that a stub shows."""
    yield exercise
    for node in home_of(day, exercise).definitions[exercise].body:
        if isinstance(node, ast.FunctionDef) and not re.match(r"_[^_]", node.name):
            yield f"{exercise}.{node.name}"
