"""Functions for NumPy arrays and torch tensors alike, for code that only looks at numbers.

This module never imports torch: if no code has imported it, there are no tensors.
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

    On NumPy days an empty folder covers torch in grading's sandbox: there, `import torch` returns a
    module without tensors, which does not count.
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
    """Return an array or tensor with the same values that shares no memory."""
    return array.detach().clone() if is_tensor(array) else np.copy(array)


def dtype_of(array: Any) -> str:
    """Return the name of the dtype, such as `float32`, `bfloat16` or `bool`."""
    return str(array.dtype).removeprefix("torch.")


def is_floating(array: Any) -> bool:
    """Return whether it holds floating-point numbers."""
    return dtype_of(array).startswith(("float", "bfloat"))


def as_numpy(value: Any) -> Array:
    """Return the same numbers as a NumPy array; bfloat16, which NumPy lacks, as float32."""
    if not is_tensor(value):
        return np.asarray(value)
    plain = value.detach().cpu()
    array: Array = (plain.float() if dtype_of(plain) == "bfloat16" else plain).numpy()
    return array


def same(value: Any, other: Any) -> bool:
    """Return whether both hold the same values; NaN equals NaN."""
    a, b = as_numpy(value), as_numpy(other)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def eps_of(dtype: str) -> float:
    """Return the distance from 1 to the next larger number of a dtype."""
    return BFLOAT16_EPS if dtype == "bfloat16" else float(np.finfo(dtype).eps)


def upcast(array: Any) -> Any:
    """Return a copy in float64; values that are not floating-point numbers do not change."""
    if not is_floating(array):
        return copied(array)
    return array.double() if is_tensor(array) else array.astype(np.float64)


def nudged(array: Any, random: np.random.Generator) -> Any:
    """Move each number up or down by one ulp of its dtype."""
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
