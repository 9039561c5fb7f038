"""All that a file of `tests/days/` may use. What is imported, it imports from here alone.

A check asks for these by name, as fixtures:

answer      the learner's module
draw        in fixtures of the file: where inputs are drawn from, a seed's own stream for each of them;
            arrays of NumPy in float64 on days 1 to 7, later tensors in float32 (`course/checks/draw.py`)
build       `build(answer.Encoder, …, dtype="float64")`: a module with weights by the names of its parameters
device      where inputs lie, `"cpu"` or another; what a check makes itself, it makes there
seed        where inputs come from, a number
parameters  of `@pytest.mark.parametrize`, each mark with one name

Two marks of its own: `@pytest.mark.constant("leaf", …, "why")` names what is the same for every seed.
`@pytest.mark.watertight("why")`, on a check or on a value of `pytest.param`, says that it asks more than
the day is about: rows with nothing to attend to, halves and extremes, odd widths, sizes of one where the
formula has no trouble, step 0, memory layouts. All other checks are core.

What it returns is what it saw: arrays, numbers, words, dicts and lists of them.
"""

import pytest

from course.checks.gradients import backward, gradients, named_parameters, wanting_gradients
from course.checks.observation import named

HALVES = tuple(
    pytest.param(dtype, marks=pytest.mark.watertight("half precision, which needs care of its own"))
    for dtype in ("float16", "bfloat16")
)
FLOAT64 = pytest.param(
    "float64",
    marks=pytest.mark.watertight("float64 keeps its sixteen digits only if no step is in float32"),
)
DTYPES = (FLOAT64, "float32", *HALVES)

__all__ = [
    "DTYPES",
    "FLOAT64",
    "HALVES",
    "backward",
    "gradients",
    "named",
    "named_parameters",
    "wanting_gradients",
]
