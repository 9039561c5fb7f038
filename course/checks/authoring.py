"""Everything that a file of `tests/days/` may use. Such a file imports only from here.

A check asks for these by name, as fixtures:

answer      the learner's module
draw        in fixtures of the file: draws inputs, from a separate stream for each fixture; arrays
            of NumPy in float64 on days 1 to 7, later tensors in float32 (`course/checks/draw.py`)
build       `build(answer.Encoder, …, dtype="float64")`: a module with weights by the names of its
            parameters
device      the device of the inputs, such as `"cpu"`; a check creates its own tensors there
seed        the seed of the inputs, a number
parameters  of `@pytest.mark.parametrize`, each mark with one name

There are two marks: `@pytest.mark.constant("leaf", …, "why")` names results that are the same for
every seed. `@pytest.mark.watertight("why")`, on a check or on a value of `pytest.param`, says that
it tests more than the day is about: rows with nothing to attend to, half precision and extremes,
odd widths, sizes of one where the formula has no trouble, step 0, memory layouts. All other checks
are core.

A check returns what it observed: arrays, numbers, strings, and dicts and lists of these.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from course.checks.gradients import backward, gradients, named_parameters, wanting_gradients
from course.checks.observation import named

HALVES = tuple(
    pytest.param(dtype, marks=pytest.mark.watertight("half precision, which needs care of its own"))
    for dtype in ("float16", "bfloat16")
)
FLOAT32 = pytest.param(  # in NumPy
    "float32",
    marks=pytest.mark.watertight(
        "float32, where one float64 intermediate value makes the result float64"
    ),
)
FLOAT64 = pytest.param(
    "float64",
    marks=pytest.mark.watertight("float64 keeps its sixteen digits only if no step is in float32"),
)
DTYPES = (FLOAT64, "float32", *HALVES)


def shapes(module: Any) -> dict[str, list[int]]:
    """Return the shape of each parameter of a module, by name."""
    return {name: list(parameter.shape) for name, parameter in module.named_parameters()}


def listed(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are."""
    first, *rest = [*sorted(names), ""]
    return f"{first} and {len(rest) - 1} more" if len(rest) > 1 else first or "none"


def sequences(
    draw: Any, batch: Sequence[int], t_q: int, t_k: int, d_k: int, d_v: int, **how: Any
) -> dict[str, Any]:
    """Draw queries, keys and values whose weights are spread over several keys."""
    return {
        "query": draw.normal(*batch, t_q, d_k, **how),
        "key": draw.normal(*batch, t_k, d_k, mean=0.2, **how),
        "value": draw.normal(*batch, t_k, d_v, mean=0.5, **how),
    }


__all__ = [
    "DTYPES",
    "FLOAT32",
    "FLOAT64",
    "HALVES",
    "backward",
    "gradients",
    "listed",
    "named",
    "named_parameters",
    "sequences",
    "shapes",
    "wanting_gradients",
]
