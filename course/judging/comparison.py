"""Two observations compared: type, names, shape, dtype, device, NaNs, values, in that order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from course.checks.observation import Leaf, Observation
from course.checks.seeing import Seen
from course.judging.expected import Expected, is_float

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The first thing in which an observation is not the expected one."""

    stage: str
    """`type`, `names`, `shape`, `dtype`, `device`, `nan` or `values`."""
    path: str
    yours: Leaf | None
    wanted: Leaf | None
    wrong: Array | None = None
    """Which entries differ, for `nan` and `values`."""


def compare(seen: Observation, expected: Expected) -> Difference | None:
    """The first difference of an observation from the expected one; None if there is none.

    Leaves are taken in the order in which the check returned them. Within a leaf the stages follow
    one another, so that a wrong shape is never reported as wrong values.
    """
    for path, wanted in expected.seen.observation.items():
        yours = seen.get(path)
        difference = _compare_leaf(
            path, yours, wanted, expected.truth.get(path, wanted), expected.tolerance[path]
        )
        if difference is not None:
            return difference
    for path, yours in seen.items():
        if path not in expected.seen.observation:
            return Difference("names", path, yours, None)
    return None


def matches(seen: Seen, expected: Expected) -> bool:
    """Whether what was seen is, to rounding, the expected, or the same exception.

    An exception is the same if it says the same, sizes included: many mistakes end in a ValueError.
    """
    if seen.raised is not None or expected.seen.raised is not None:
        said = [
            one.raised and (one.raised.kind, one.raised.message) for one in (seen, expected.seen)
        ]
        return said[0] == said[1]
    same_damage = set(seen.damaged) == set(expected.seen.damaged)
    return same_damage and compare(seen.observation, expected) is None


def is_same(one: Seen, other: Seen) -> bool:
    """Whether two saw the same to the last bit: then no tolerance is needed, which takes longer."""
    return (
        not (one.raised or other.raised)
        and set(one.damaged) == set(other.damaged)
        and identical(one.observation, other.observation)
    )


def identical(one: Observation, other: Observation) -> bool:
    """Whether two observations are the same to the last bit."""
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
    values, right = _doubles(yours), _doubles(wanted)
    odd = np.isnan(values) != np.isnan(right)
    if odd.any():
        return Difference("nan", path, yours, wanted, odd)
    exact = _doubles(truth)
    with np.errstate(all="ignore"):
        # What overflows in the inputs' own dtype, and only there, is compared with what it gives
        # there.
        target = np.where(np.isfinite(right), exact, right)
        near = np.abs(values - target) <= tolerance
        wrong = ~(near | (values == target) | np.isnan(right))
    return Difference("values", path, yours, truth, wrong) if wrong.any() else None


def _doubles(leaf: Leaf) -> Array:
    return np.asarray(leaf.value, dtype=np.float64)
