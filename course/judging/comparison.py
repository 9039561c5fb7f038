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
    wanted: Leaf | None
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


def compare(seen: Observation, expected: ExpectedRun) -> Difference | None:
    """Return the first difference between an observation and the expected one; None if there is
    none.

    Leaves are compared in the order in which the check returned them. Within a leaf the stages
    follow one another, so that a wrong shape is never reported as wrong values.
    """
    for path, wanted in expected.seen.observation.items():
        yours = seen.get(path)
        difference = _compare_leaf(
            path, yours, wanted, expected.truth.get(path, wanted), expected.tolerance[path]
        )
        if difference is not None:
            return _with_keys(difference, seen, expected.seen.observation)
    for path, yours in seen.items():
        if path not in expected.seen.observation:
            return Difference("names", path, yours, None)
    return None


def _with_keys(difference: Difference, seen: Observation, wanted: Observation) -> Difference:
    """Where the keys of a dict differ, which of them are missing and which are too many."""
    outer = _dict_of(difference, seen, wanted)
    if not outer:
        return difference
    within = f"{outer}."
    return replace(
        difference,
        within=outer,
        extra=_outermost(path for path in seen if path.startswith(within) and path not in wanted),
        missing=_outermost(path for path in wanted if path.startswith(within) and path not in seen),
    )


def _dict_of(difference: Difference, seen: Observation, wanted: Observation) -> str:
    """The path of the dict whose keys differ, if that is the difference."""
    if difference.stage not in ("type", "names"):
        return ""
    dicts = [
        path
        for path, leaf in wanted.items()
        if leaf.type.startswith("dict of ")
        and path in seen
        and seen[path].type.startswith("dict of ")
    ]
    if difference.stage == "type":
        return difference.path if difference.path in dicts else ""
    around = [path for path in dicts if difference.path.startswith(f"{path}.")]
    return max(around, key=len, default="")


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths without those that lie within another of them, which comes first."""
    found: list[str] = []
    for path in paths:
        if not any(path.startswith((f"{outer}.", f"{outer}[")) for outer in found):
            found.append(path)
    return tuple(found)


def matches(seen: CheckRun, expected: ExpectedRun) -> bool:
    """Return whether an observation equals the expected one up to rounding, or is the same exception.
    Two exceptions are the same if their types and messages are equal, including the sizes in the
    messages: many mistakes end in a ValueError."""
    if seen.raised is not None or expected.seen.raised is not None:
        said = [
            one.raised and (one.raised.kind, one.raised.message) for one in (seen, expected.seen)
        ]
        return said[0] == said[1]
    same_damage = set(seen.damaged) == set(expected.seen.damaged)
    return same_damage and compare(seen.observation, expected) is None


def is_same(one: CheckRun, other: CheckRun) -> bool:
    """Return whether both runs observed the same to the last bit; then no tolerance has to be computed,
    which takes longer."""
    return (
        not (one.raised or other.raised)
        and set(one.damaged) == set(other.damaged)
        and identical(one.observation, other.observation)
    )


def identical(one: Observation, other: Observation) -> bool:
    """Return whether two observations are the same to the last bit."""
    return one.keys() == other.keys() and all(
        _identical(leaf, other[path]) for path, leaf in one.items()
    )


def _identical(one: Leaf, other: Leaf) -> bool:
    kinds = [(leaf.type, leaf.shape, leaf.dtype, leaf.device) for leaf in (one, other)]
    if kinds[0] != kinds[1]:
        return False
    if one.value is None or other.value is None:
        return one.value is other.value
    if not one.is_array:
        return bool(one.value == other.value)
    return np.array_equal(one.value, other.value, equal_nan=is_float(one))


def _compare_leaf(
    path: str, yours: Leaf | None, wanted: Leaf, truth: Leaf, tolerance: float
) -> Difference | None:
    if yours is None:
        return Difference("names", path, None, wanted)
    if wanted.type == "float" and (yours.type, yours.dtype) == ("a NumPy number", "float64"):
        yours = replace(yours, type="float", shape=wanted.shape, dtype=wanted.dtype)  # a subclass
    for stage in ("type", "shape", "dtype", "device"):
        if getattr(yours, stage) != getattr(wanted, stage):
            return Difference(stage, path, yours, wanted)
    if wanted.value is None:
        return None
    if yours.value is None:
        return Difference("values", path, yours, wanted)
    if not is_float(wanted):
        wrong = np.asarray(yours.value) != np.asarray(wanted.value)
        return Difference("values", path, yours, wanted, wrong) if wrong.any() else None
    return _compare_numbers(path, yours, wanted, truth, tolerance)


def _compare_numbers(
    path: str, yours: Leaf, wanted: Leaf, truth: Leaf, tolerance: float
) -> Difference | None:
    values, right = doubles(yours), doubles(wanted)
    odd = np.isnan(values) != np.isnan(right)
    if odd.any():
        return Difference("nan", path, yours, wanted, odd)
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
