"""The hidden checks of a day, read from its file in `tests/days/`.

A check is a plain pytest function: it takes the learner's module as `answer`, uses it, and returns
what it observed. Its other arguments are fixtures of its file. pytest is not needed to run one.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any

from course.curriculum import Day
from course.references.modules import load_module

CORE, WATERTIGHT = "core", "watertight"
"""What a day is about, and what makes an answer hold beyond that."""


@dataclass(frozen=True, eq=False)
class Outline:
    """The facts about a check that are available without importing its file."""

    name: str
    exercise: str
    uses: frozenset[str]
    """The definitions of the answer that it touches."""
    says: str = ""
    """What it checks, in a sentence: its docstring."""
    beyond: str = ""
    """Why it asks more than the day is about (declared by `@pytest.mark.watertight`); empty for core."""
    on_practice: bool = False
    """Whether it is observed on the practice GPU too, without being asked."""

    @property
    def tier(self) -> str:
        """`core`, which has to pass for the day to pass, or `watertight`."""
        return WATERTIGHT if self.beyond else CORE

    def as_json(self) -> dict[str, Any]:
        names = [entry.name for entry in fields(Outline)]
        return {name: getattr(self, name) for name in names} | {"uses": sorted(self.uses)}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Outline:
        return Outline(**entry | {"uses": frozenset(entry["uses"])})


@dataclass(frozen=True, eq=False, kw_only=True)
class Check(Outline):
    """One check with fixed parameters, which can be run."""

    function: Callable[..., Any]
    parameters: dict[str, Any]
    module: ModuleType
    tensors: bool = False
    """Whether its fixtures draw tensors."""
    constant: dict[str, str] = field(default_factory=dict)
    """Leaves that are the same for every seed, and why (declared by `@pytest.mark.constant`)."""
    real_devices: str = ""
    """Why it is not run on the practice GPU (declared by `@pytest.mark.real_devices`); empty if it is."""
    on_devices: bool = False
    """Whether it tells wrong answers about devices (declared by `@pytest.mark.on_devices`)."""


def load_checks(day: Day) -> list[Check]:
    """Return the checks of a day in the order of its file, one for each combination of parameters."""
    exercises = day.exercises
    module = load_module(day.checks)
    checks: list[Check] = []
    for name, function in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(function):
            uses = _definitions_used(function, exercises)
            if not uses:
                raise ValueError(f"{day.checks.name}: {name} uses none of {', '.join(exercises)}")
            # A check of several exercises counts for the last, which builds on the others.
            exercise = max(uses, key=exercises.index)
            constant = {
                leaf: mark.args[-1]
                for mark in _marks(function, "constant")
                for leaf in mark.args[:-1]
            }
            beyond = [mark.args[0] for mark in _marks(function, WATERTIGHT)]
            for suffix, parameters, reasons in _parameter_sets(function):
                checks.append(
                    Check(
                        name + suffix,
                        exercise,
                        uses,
                        " ".join((function.__doc__ or "").split()),
                        next(iter([*beyond, *reasons]), ""),
                        function=function,
                        parameters=parameters,
                        module=module,
                        tensors=day.uses_torch,
                        constant=constant,
                        real_devices=next(
                            (mark.args[0] for mark in _marks(function, "real_devices")), ""
                        ),
                        on_devices=bool(_marks(function, "on_devices")),
                    )
                )
    return checks


def _definitions_used(function: Callable[..., Any], exercises: tuple[str, ...]) -> frozenset[str]:
    """The definitions that a check has from its `answer`; all, where it hands this on to something else."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    taken = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "answer"
    ]
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "answer"]
    if len(named) > len(taken):
        return frozenset(exercises)
    return frozenset(name for name in exercises if name in taken)


def _marks(function: Callable[..., Any], name: str) -> list[Any]:
    return [mark for mark in getattr(function, "pytestmark", []) if mark.name == name]


def _parameter_sets(
    function: Callable[..., Any],
) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Each combination of `parametrize` values: the suffix that pytest gives the name, the values by name,
    and why they ask more than the day is about, where they do."""
    marks = _marks(function, "parametrize")[::-1]
    names = [mark.args[0] for mark in marks]
    for chosen in itertools.product(*(map(_value, mark.args[1]) for mark in marks)):
        values = [value for value, _ in chosen]
        suffix = f"[{'-'.join(map(str, reversed(values)))}]" if values else ""
        yield suffix, dict(zip(names, values, strict=True)), [why for _, why in chosen if why]


def _value(value: Any) -> tuple[Any, str]:
    """A value of `parametrize`, bare or as `pytest.param`, and the reason that marks it watertight."""
    if not hasattr(value, "marks"):
        return value, ""
    reasons = [mark.args[0] for mark in value.marks if mark.name == WATERTIGHT]
    return value.values[0], next(iter(reasons), "")
