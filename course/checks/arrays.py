"""Arrays of NumPy and tensors of torch alike, for all that only looks at numbers.

torch is never imported here: where nobody has imported it, there are no tensors.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PRACTICE = "practice"
"""A device with the rules of a GPU and the numbers of the CPU (`course/checks/practice.py`)."""

# bfloat16 is unknown to NumPy: 8 bits of precision, the exponents of float32.
BFLOAT16_EPS = 2.0**-7
BFLOAT16_TINY = 2.0**-133


def loaded_torch() -> Any:
    """Return torch if something has imported it, else None.

    On NumPy days an empty folder covers torch in grading's sandbox: `import torch` gives a module
    without tensors there, which is none.
    """
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") else None


def is_tensor(value: object) -> bool:
    """Whether this is one of torch's tensors."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: object) -> bool:
    """Whether this is an array or a tensor."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def copied(array: Any) -> Any:
    """An array or tensor of the same values that shares no memory."""
    return array.detach().clone() if is_tensor(array) else np.copy(array)


def dtype_of(array: Any) -> str:
    """`float32`, `bfloat16`, `bool` …, whoever's it is."""
    return str(array.dtype).removeprefix("torch.")


def is_floating(array: Any) -> bool:
    """Whether it holds real numbers."""
    return dtype_of(array).startswith(("float", "bfloat"))


def as_numpy(value: Any) -> Array:
    """The same numbers in NumPy; bfloat16, which it does not know, as float32."""
    if not is_tensor(value):
        return np.asarray(value)
    plain = value.detach().cpu()
    array: Array = (plain.float() if dtype_of(plain) == "bfloat16" else plain).numpy()
    return array


def same(one: Any, other: Any) -> bool:
    """Whether two hold the same values; NaN is the same as NaN."""
    a, b = as_numpy(one), as_numpy(other)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def eps_of(dtype: str) -> float:
    """The distance from 1 to the next number of a dtype."""
    return BFLOAT16_EPS if dtype == "bfloat16" else float(np.finfo(dtype).eps)


def upcast(array: Any) -> Any:
    """A copy in float64; what holds no real numbers stays as it is."""
    if not is_floating(array):
        return copied(array)
    return array.double() if is_tensor(array) else array.astype(np.float64)


def nudged(array: Any, random: np.random.Generator) -> Any:
    """Each number moved up or down by one ulp of its dtype."""
    if not is_floating(array):
        return copied(array)
    exact = as_numpy(array).astype(np.float64)
    signs = random.choice([-1.0, 1.0], exact.shape)
    moved = np.asarray(exact + signs * _ulp(exact, dtype_of(array)))
    if is_tensor(array):
        return sys.modules["torch"].from_numpy(moved).to(array.dtype)
    return moved.astype(array.dtype)


def _ulp(values: Array, dtype: str) -> Array:
    """The gap between each number and the next in a dtype; 0 where there is no number."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(values)
        gap = np.where(values == 0, 0.0, np.ldexp(eps_of(dtype), exponent - 1))
    tiny = BFLOAT16_TINY if dtype == "bfloat16" else float(np.finfo(dtype).smallest_subnormal)
    return np.where(np.isfinite(values), np.maximum(gap, tiny), 0.0)
