"""Compare two observations: type, names, shape, dtype, device, NaNs, values, in that order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course.checks.observation import Leaf, Observation
from course.checks.seeing import CheckRun
from course.judging.expected import ExpectedRun, is_float

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The first difference between an observation and the expected one."""

    stage: str
    """`type`, `names`, `shape`, `dtype`, `device`, `nan` or `values`."""
    path: str
    yours: Leaf | None
    expected: Leaf | None
    wrong: Array | None = None
    """Which entries differ, for `nan` and `values`."""
    returns_nothing: bool = False
    """Whether the exercise is a function that changes what it is given, and returns nothing."""
    within: str = ""
    """The dict whose keys differ, where that is the difference."""
    extra: tuple[str, ...] = ()
    """What is in that dict and should not be."""
    missing: tuple[str, ...] = ()
    """What should be in that dict and is not."""


def compare(observation: Observation, expected: ExpectedRun) -> Difference | None:
    """Return the first difference between an observation and the expected one; None if there is
    none.

    Leaves are compared in the order in which the check returned them. Within a leaf the stages
    follow one another, so that a wrong shape is never reported as wrong values.
    """
    for path, leaf in expected.run.observation.items():
        yours = observation.get(path)
        difference = _compare_leaf(
            path, yours, leaf, expected.truth.get(path, leaf), expected.tolerance[path]
        )
        if difference is not None:
            return _with_keys(difference, observation, expected.run.observation)
    for path, yours in observation.items():
        if path not in expected.run.observation:
            return Difference("names", path, yours, None)
    return None


def _with_keys(
    difference: Difference, observation: Observation, expected: Observation
) -> Difference:
    """Where the keys of a dict differ, which of them are missing and which are too many."""
    outer = _dict_of(difference, observation, expected)
    if not outer:
        return difference
    within = f"{outer}."
    return replace(
        difference,
        within=outer,
        extra=_outermost(
            path for path in observation if path.startswith(within) and path not in expected
        ),
        missing=_outermost(
            path for path in expected if path.startswith(within) and path not in observation
        ),
    )


def _dict_of(difference: Difference, observation: Observation, expected: Observation) -> str:
    """The path of the dict whose keys differ, if that is the difference."""
    if difference.stage not in ("type", "names"):
        return ""
    dicts = [
        path
        for path, leaf in expected.items()
        if leaf.type.startswith("dict of ")
        and path in observation
        and observation[path].type.startswith("dict of ")
    ]
    if difference.stage == "type":
        return difference.path if difference.path in dicts else ""
    around = [path for path in dicts if difference.path.startswith(f"{path}.")]
    return max(around, key=len, default="")


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths without those that lie within another of them, which comes first."""
    outermost: list[str] = []
    for path in paths:
        if not any(path.startswith((f"{outer}.", f"{outer}[")) for outer in outermost):
            outermost.append(path)
    return tuple(outermost)


def matches(run: CheckRun, expected: ExpectedRun) -> bool:
    """Return whether an observation equals the expected one up to rounding, or is the same exception.
    Two exceptions are the same if their types and messages are equal, including the sizes in the
    messages: many mistakes end in a ValueError."""
    if run.raised is not None or expected.run.raised is not None:
        errors = [
            check_run.raised and (check_run.raised.kind, check_run.raised.message)
            for check_run in (run, expected.run)
        ]
        return errors[0] == errors[1]
    same_damage = set(run.damaged) == set(expected.run.damaged)
    return same_damage and compare(run.observation, expected) is None


def is_same(run: CheckRun, other: CheckRun) -> bool:
    """Return whether both runs observed the same to the last bit; then no tolerance has to be computed,
    which takes longer."""
    return (
        not (run.raised or other.raised)
        and set(run.damaged) == set(other.damaged)
        and identical(run.observation, other.observation)
    )


def identical(observation: Observation, other: Observation) -> bool:
    """Return whether two observations are the same to the last bit."""
    return observation.keys() == other.keys() and all(
        _identical(leaf, other[path]) for path, leaf in observation.items()
    )


def _identical(first: Leaf, other: Leaf) -> bool:
    kinds = [(leaf.type, leaf.shape, leaf.dtype, leaf.device) for leaf in (first, other)]
    if kinds[0] != kinds[1]:
        return False
    if first.value is None or other.value is None:
        return first.value is other.value
    if not first.is_array:
        return bool(first.value == other.value)
    return np.array_equal(first.value, other.value, equal_nan=is_float(first))


def _compare_leaf(
    path: str, yours: Leaf | None, expected: Leaf, truth: Leaf, tolerance: float
) -> Difference | None:
    if yours is None:
        return Difference("names", path, None, expected)
    if expected.type == "float" and (yours.type, yours.dtype) == ("a NumPy number", "float64"):
        yours = replace(
            yours, type="float", shape=expected.shape, dtype=expected.dtype
        )  # a subclass
    for stage in ("type", "shape", "dtype", "device"):
        if getattr(yours, stage) != getattr(expected, stage):
            return Difference(stage, path, yours, expected)
    if expected.value is None:
        return None
    if yours.value is None:
        return Difference("values", path, yours, expected)
    if not is_float(expected):
        wrong = np.asarray(yours.value) != np.asarray(expected.value)
        return Difference("values", path, yours, expected, wrong) if wrong.any() else None
    return _compare_numbers(path, yours, expected, truth, tolerance)


def _compare_numbers(
    path: str, yours: Leaf, expected: Leaf, truth: Leaf, tolerance: float
) -> Difference | None:
    values, right = doubles(yours), doubles(expected)
    odd = np.isnan(values) != np.isnan(right)
    if odd.any():
        return Difference("nan", path, yours, expected, odd)
    exact = doubles(truth)
    with np.errstate(all="ignore"):
        # What overflows in the inputs' own dtype, and only there, is compared with what it gives
        # there.
        target = np.where(np.isfinite(right), exact, right)
        near = np.abs(values - target) <= tolerance
        wrong = ~(near | (values == target) | np.isnan(right))
    return Difference("values", path, yours, truth, wrong) if wrong.any() else None


def doubles(leaf: Leaf) -> Array:
    return np.asarray(leaf.value, dtype=np.float64)
