"""The reference's observation, and how far from it a right answer may be.

The truth is the reference in float64 on the same inputs. A right answer computed in the inputs' own
dtype may be off by the largest of three numbers, each derived, none chosen by hand: a small
multiple of the reference's own error in that dtype, on these inputs and on inputs an ulp away; a
few roundings of the largest intermediate value in the reference; and the effect of one ulp of the
inputs on the result.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.checks.arrays import as_numpy, copied, eps_of, nudged, upcast
from course.checks.loading import Check
from course.checks.observation import Leaf, Observation
from course.checks.reading import noting_reads, only_read
from course.checks.seeing import CheckRun, check_inputs, named_values, see
from course.judging.inputs import in_words

Array = np.ndarray[Any, Any]

# Two right forms of one formula differ by 40 times the better one's error (log-softmax at an offset
# of 100); the second term takes care of those. These two only cover the order of additions.
OWN_ERRORS = 4.0
ROUNDINGS = 8.0


@dataclass(frozen=True)
class ExpectedRun:
    """The run with which an answer's observation is compared."""

    run: CheckRun
    """The reference on the inputs as they are: types, shapes, dtypes, exceptions."""
    truth: Observation
    """The reference in float64."""
    tolerance: dict[str, float]
    """How far the values of each leaf may be off."""
    inputs: str = ""
    """What went in, in words."""
    names: tuple[str, ...] = ()
    """What went in, by name."""


def expect(check: Check, reference: Any, seed: int, device: str = "cpu") -> ExpectedRun:
    """Run the reference, or a known wrong answer, to compare with."""
    inputs = check_inputs(check, seed)
    largest = _Largest()
    for _, number in named_values(inputs):
        largest.note(as_numpy(number).astype(np.float64))
    with largest.of_tensors() if check.tensors else contextlib.nullcontext():
        run = see(check, reference, seed, device)
    if run.raised and check.tensors:  # torch words some errors otherwise while it is watched
        run = see(check, reference, seed, device)
    if not check.tensors:
        see(check, reference, seed, transform=largest.of_arrays)
    # Float64 is exact enough anywhere, and not to be had on every device: the truth is the CPU's.
    handed: dict[str, Any] = {}

    def hand(values: dict[str, Any]) -> dict[str, Any]:
        handed.update((name, noting_reads(value)) for name, value in values.items())
        return handed

    truth = see(check, reference, seed, transform=upcast, hand=hand).observation
    near = [_near(check, reference, seed, device, round_) for round_ in range(2)]
    overall = max((magnitude(leaf) for leaf in truth.values() if is_float(leaf)), default=0.0)
    tolerance = {
        path: _tolerance(
            leaf,
            truth.get(path),
            [(own.get(path), exact.get(path)) for own, exact in near],
            largest.value,
            overall,
        )
        for path, leaf in run.observation.items()
    }
    names = tuple(dict.fromkeys(name for name, _ in named_values(inputs)))
    read = {name: only_read(value, handed.get(name)) for name, value in inputs.items()}
    return ExpectedRun(run, truth, tolerance, in_words(read), names)


def _near(
    check: Check, reference: Any, seed: int, device: str, round_: int
) -> tuple[Observation, Observation]:
    """What the reference gives an ulp away from the inputs: in their own dtype, and in float64.

    On the inputs themselves its error may be small by chance.
    """

    def an_ulp_away(cast: Callable[[Any], Any]) -> Callable[[Any], Any]:
        random = np.random.default_rng(round_)
        return lambda array: cast(nudged(array, random))

    own = see(check, reference, seed, device, transform=an_ulp_away(copied))
    exact = see(check, reference, seed, transform=an_ulp_away(upcast))
    return own.observation, exact.observation


def is_float(leaf: Leaf | None) -> bool:
    """Return whether a leaf holds floating-point numbers, in an array or alone."""
    if leaf is None or leaf.value is None:
        return False
    return leaf.type == "float" or (leaf.is_array and np.asarray(leaf.value).dtype.kind == "f")


def _tolerance(
    leaf: Leaf,
    truth: Leaf | None,
    near: list[tuple[Leaf | None, Leaf | None]],
    largest: float,
    overall: float,
) -> float:
    if not is_float(leaf) or truth is None:
        return 0.0
    eps = eps_of(leaf.dtype or "float64")
    # A right answer in half precision computes in float32 what half precision cannot hold.
    inner = min(eps, eps_of("float32"))
    own = OWN_ERRORS * max(_distance(*pair) for pair in [(leaf, truth), *near])
    size = magnitude(truth)
    # Where all of a leaf cancels, as in the gradients of scores that have a single key, another right
    # answer has roundings: there the digits are those of what the leaf was observed with.
    cancels = size <= ROUNDINGS * eps_of("float64") * overall
    # Beyond half the digits a rounding on the way says nothing any more about the result: what
    # becomes of numbers as large as that is what the nudged inputs show.
    on_the_way = inner * min(largest, (overall if cancels else size) / math.sqrt(inner))
    rounding = ROUNDINGS * max(eps * size, on_the_way)
    conditioning = max(_distance(exact, truth) for _, exact in near)
    return max(own, rounding, conditioning)


def _distance(leaf: Leaf | None, other: Leaf | None) -> float:
    """The largest finite difference of two leaves; 0 where they cannot be compared."""
    if leaf is None or other is None:  # a wrong answer may raise on inputs a little different
        return 0.0
    a, b = np.asarray(leaf.value, dtype=np.float64), np.asarray(other.value, dtype=np.float64)
    if a.shape != b.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        gaps = np.abs(a - b)
    return float(np.max(gaps, initial=0.0, where=np.isfinite(gaps)))


def magnitude(leaf: Leaf) -> float:
    values = np.abs(np.asarray(leaf.value, dtype=np.float64))
    return float(np.max(values, initial=0.0, where=np.isfinite(values)))


# --- The largest number on the way ----------------------------------------------------------------


class _Largest:
    """The largest finite number that comes up while something is computed."""

    def __init__(self) -> None:
        self.value = 0.0

    def of_arrays(self, array: Array) -> Array:
        """Return the same array, such that the results that NumPy computes from it are noted."""
        watched = array.copy().view(_Watched)
        watched.note = self.note
        return watched

    def of_tensors(self) -> contextlib.AbstractContextManager[Any]:
        """Note the results that torch computes within the context."""
        from course.checks.tensors import OperationRecorder  # torch takes a second to import

        return OperationRecorder(self.note)

    def note(self, array: Any) -> None:
        """Take an array or tensor into account."""
        values = as_numpy(array)
        if values.dtype.kind == "f":
            # A mask's lowest number is no result of arithmetic.
            limit = np.finfo(values.dtype).max / 2
            sizes = np.abs(values)
            self.value = max(self.value, float(np.max(sizes, initial=0.0, where=sizes < limit)))


class _Watched(np.ndarray[Any, Any]):
    """An array that reports the result of every operation on it, and whose results do likewise."""

    note: Callable[[Any], None] | None = None

    def __array_finalize__(self, parent: Any) -> None:
        self.note = getattr(parent, "note", None)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        noting = next(x.note for x in (*inputs, *(out or ())) if isinstance(x, _Watched))
        if out is not None:
            options["out"] = tuple(_bare(x) for x in out)
        result = getattr(ufunc, method)(*map(_bare, inputs), **options)
        if noting is not None:
            for array in result if isinstance(result, tuple) else (result,):
                noting(array)
        if isinstance(result, np.ndarray):
            watched = result.view(_Watched)
            watched.note = noting
            return watched
        return result


def _bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, _Watched) else value
