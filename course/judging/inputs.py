"""A check's inputs in words, so that a learner can create the same ones."""

from __future__ import annotations

from typing import Any

from course.checks.arrays import as_numpy, dtype_of, is_array
from course.checks.seeing import named_values

FEW = 16  # whole numbers that can be copied by hand
MAX_ENTRIES = 20  # of a dict whose contents are named
# Of inputs that are named: two lines of a terminal of 80, in which a message stands six columns in.
MAX_CHARACTERS = 132
MAX_VALUE_LENGTH = 100  # characters of one that is quoted; a longer one is described by its size


def in_words(inputs: dict[str, Any]) -> str:
    """Describe what the check passed in: a few numbers by value, larger arrays by shape."""
    descriptions: list[str] = []
    for name, value in inputs.items():
        for inner, item in value.items() if isinstance(value, dict) else [(name, value)]:
            many = isinstance(item, dict) and len(item) > MAX_ENTRIES
            descriptions += [f"{inner} (a dict of {len(item)})"] if many else _shapes(inner, item)
    names = list(dict.fromkeys(descriptions))
    texts = [
        f"Inputs: {', '.join(names)}.",
        *(_some(names, n) for n in range(len(names) - 1, 0, -1)),
    ]
    return next((text for text in texts if len(text) <= MAX_CHARACTERS), texts[-1]) if names else ""


def _some(names: list[str], count: int) -> str:
    return f"Inputs: {', '.join(names[:count])}, and {len(names) - count} more."


def _shapes(name: str, value: Any) -> list[str]:
    if isinstance(value, tuple | list) and not any(is_array(item) for item in value):
        if all(isinstance(item, int | float) for item in value):
            text = f"{list(value)}"
            short = len(text) <= MAX_VALUE_LENGTH
            return [f"{name} = {text}" if short else f"{name} ({len(value)} numbers)"]
        return [line for i, item in enumerate(value) for line in _shapes(f"{name}[{i}]", item)]
    return [f"{path} {_in_short(item)}" for path, item in named_values(value, name)]


def _in_short(value: Any) -> str:
    """A number or a few of them as they are; a larger array by its shape."""
    if not is_array(value):
        return f"= {value}"
    array = as_numpy(value)
    text = f"{array.tolist()}" if array.dtype.kind in "biu" and array.size <= FEW else ""
    if text and len(text) <= MAX_VALUE_LENGTH:
        return f"= {text}"
    return f"{array.shape} {dtype_of(value)}"
