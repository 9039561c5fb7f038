"""What a kind of difference, or an exception, usually means: a sentence for each."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from course.checks.observation import Leaf, Raised
from course.judging.newer_syntax import needs_newer

Array = np.ndarray[Any, Any]

NOBODY_TYPES = (
    "The checks run in a process without a keyboard: `input()` gets no answer there, and "
    "`breakpoint()` and `pdb.set_trace()` get no commands. To stop and look around, run "
    "`pytest tests/days --answers exercises --pdb`, with the day's file of `tests/days`, or a notebook."
)

# What the days' files are used to import, by the name that is missing where it was forgotten.
IMPORTS = {
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "Tensor": "from torch import Tensor",
}
NO_NAME = re.compile(r"name '(\w+)' is not defined")

# Each of these sentences is claimed only where it is true of every entry, to the tolerance itself, of more
# numbers than could be so by chance, and where what it prints differs.
MIN_SIZE = 4
SAME = 1e-3  # of what is the same, as it is printed


def meaning_of_numbers(yours: Array, right: Array, tolerance: float) -> str:
    finite = np.isfinite(yours) & np.isfinite(right)
    if not finite.all():
        return "Infinity comes from an overflow, a division by 0 or the logarithm of 0."
    gaps, size = yours - right, float(np.max(np.abs(right), initial=0.0))
    worst = float(np.max(np.abs(gaps)))
    if not yours.any():
        return "Every entry is 0."
    if worst < 1e-3 * size:
        times = worst / tolerance if tolerance else float("inf")
        much = f"{times:.0f} times" if times < 1000 else "far more than"
        return (
            f"It is nearly right: the largest error, {worst:.2g}, is "
            f"{'a little more than' if times < 1.5 else much} the allowed rounding error."
        )
    if yours.size < MIN_SIZE:
        return ""
    wrong = np.abs(gaps) > tolerance
    middle = float(np.median(gaps))
    if wrong.all() and np.max(np.abs(gaps - middle)) <= min(tolerance, SAME * abs(middle)):
        return "Every entry is off by the same amount."
    if factor := _common_factor(yours, right, tolerance):
        return f"Every entry is {factor} times what it should be."
    if _is_transposed(yours, right, tolerance):
        return "It is transposed: the last two axes are swapped."
    if wrong.all() and _is_reordered(yours, right, tolerance):
        return "All the numbers are there, in a different order."
    return _sums_that_should_be_1(yours, right) or _where_it_starts(wrong)


def _common_factor(yours: Array, right: Array, tolerance: float) -> str:
    """The factor between two, as it is printed; empty where there is none, or none that shows."""
    weight = float((right * right).sum())
    if weight == 0:
        return ""
    factor = float((yours * right).sum()) / weight
    shown = f"{factor:.4g}"
    holds = np.max(np.abs(yours - factor * right)) <= tolerance * max(1.0, abs(factor))
    return shown if holds and float(shown) not in (0.0, 1.0) else ""


def _is_transposed(yours: Array, right: Array, tolerance: float) -> bool:
    if yours.ndim < 2 or yours.shape[-1] != yours.shape[-2]:
        return False
    return np.allclose(np.swapaxes(yours, -2, -1), right, rtol=0, atol=tolerance)


def _is_reordered(yours: Array, right: Array, tolerance: float) -> bool:
    return np.allclose(np.sort(yours, axis=None), np.sort(right, axis=None), rtol=0, atol=tolerance)


def _sums_that_should_be_1(yours: Array, right: Array) -> str:
    """Weights of which a row does not sum to 1, though all of the right ones that are not 0 do."""
    if right.ndim < 1 or right.shape[-1] < 2 or (right < 0).any():
        return ""
    sums, expected = yours.sum(axis=-1), right.sum(axis=-1)
    ones = np.isclose(expected, 1, atol=1e-6)
    if not ones.any() or not (ones | (expected == 0)).all():
        return ""
    printed = [f"{total:.3g}" for total in sums[ones]]
    off = next((total for total in printed if float(total) != 1), "")
    return f"Along the last axis it should sum to 1; a row of yours sums to {off}." if off else ""


def _where_it_starts(wrong: Array) -> str:
    """Along which axis the first entries are right and all later ones are not: a mixed-up axis's mark."""
    for axis, size in enumerate(wrong.shape):
        other_axes = tuple(other for other in range(wrong.ndim) if other != axis)
        touched = np.asarray(wrong.any(axis=other_axes))
        first = int(np.argmax(touched))
        if size > 1 and first > 0 and touched[first:].all():
            return f"Along axis {axis} it is right up to index {first - 1}, and wrong after that."
    return ""


def meaning_of_flags(yours: Leaf, expected: Leaf) -> str:
    a, b = np.asarray(yours.value), np.asarray(expected.value)
    if a.dtype != bool or a.shape != b.shape or a.size < 2:
        return ""
    if (a != b).all():
        return "Every entry is the opposite of what it should be: True means *may be attended to*."
    if a.ndim >= 2 and a.shape[-1] == a.shape[-2] and (np.swapaxes(a, -2, -1) == b).all():
        return "It is transposed: queries are rows, keys are columns."
    return ""


def meaning_of_exception(raised: Raised) -> str:
    if raised.kind in ("EOFError", "BdbQuit"):  # of `input()`, and of a debugger with no input
        return NOBODY_TYPES
    if raised.kind == "NameError" and (name := NO_NAME.match(raised.message)):
        missing = f"import {name[1]}" if name[1] in sys.stdlib_module_names else ""
        if missing := IMPORTS.get(name[1], missing):
            return f"An import is missing: `{missing}`, at the top of the file."
    if raised.suggestion:
        return f"Did you mean `{raised.suggestion}`?"
    if raised.kind == "SystemExit":
        return "The code asked Python to stop (`exit` or `sys.exit`). Return the result instead."
    if raised.kind == "NotImplementedError" and (
        not raised.message or "is missing the required" in raised.message  # nn.Module's words
    ):
        return "A method of a base class was reached: is one of yours misspelled or missing?"
    if raised.kind == "ModuleNotFoundError" or "attempted relative import" in raised.message:
        return (
            "Your answer to a day is a single file. It can import NumPy, torch, Python's standard "
            "library and earlier days' parts, but no file of yours: move what you need into this one."
        )
    if raised.kind == "AcceleratorError":
        return (
            "A kernel failed on the GPU, most often because an index is out of range: a token id, a "
            "position or a class. The GPU reports this late, so the line can be wrong: run the check "
            "without `--device`, and the CPU names the right line."
        )
    if raised.kind == "SyntaxError" and raised.frames:
        return needs_newer(raised.frames[-1][2])
    if raised.kind == "RecursionError":
        return "A function calls itself without end."
    if raised.kind == "TypeError" and not raised.frames and "argument" in raised.message:
        return (
            "The parameters' names and order are part of the exercise: keep the stub's `def` line."
        )
    return ""
