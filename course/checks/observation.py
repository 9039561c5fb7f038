"""What a check observed, as data: flat, typed leaves.

A check returns its observations, nested in any way. `flatten` turns them into an ordered map from a
path such as `output` or `gradients.query[0]` to a `Leaf`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course.checks.arrays import is_tensor

# Arrays of these kinds travel; any other dtype is only named.
CARRIED = {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"} | {
    "float16",
    "float32",
    "float64",
}
DEEPEST = 20
MAX_LEAVES = 4_000  # several times what a right answer returns
MAX_TEXT_LENGTH = 10_000
MAX_NAME_LENGTH = 60  # of a type that is not known


@dataclass(frozen=True)
class Raised:
    """An exception as data: its type, its message, and the frames in the answer's own file."""

    kind: str
    message: str
    frames: list[tuple[int, str, str]] = field(default_factory=list)
    """(line number, function, source line), outermost first."""
    not_started: bool = False
    """Whether it is the stub's own raise, unchanged."""
    cpu_line: list[tuple[int, str, str]] = field(default_factory=list)
    """The line that made the CPU tensor that is refused beside tensors on a GPU, if it is known."""
    suggestion: str = field(default="", compare=False)
    """A name that is there, and much like the one that is missing."""


@dataclass(frozen=True)
class Leaf:
    """One observed value: an array, a number, a string, or the shape of a container."""

    type: str
    """The type in the learner's words: `numpy.ndarray`, `torch.Tensor`, `float`, `tuple of 2` …"""
    value: Any = None
    """A NumPy array for arrays that can travel; a plain bool, int, float or str; else None."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None

    @property
    def is_array(self) -> bool:
        return self.dtype is not None


Observation = dict[str, Leaf]

RESULT = "result"


@dataclass(frozen=True)
class _LeafKind:
    """Stands for a container whose items are observed under names of their own."""

    of: object


def named(result: object, *names: str, first: str) -> dict[str, Any]:
    """Return the items of a tuple under the names that a learner knows.

    The item `first` is compared first, because the others depend on it. A value that is not a tuple
    of this length is observed unchanged, so that the message can describe it.
    """
    if isinstance(result, tuple) and len(result) == len(names):
        items = dict(zip(names, result, strict=True))
        return {RESULT: _LeafKind(result), first: items[first], **items}
    return {RESULT: result}


def flatten(value: object, path: str = "") -> Observation:
    """Flatten a nested value into leaves, containers before their contents; at most `MAX_LEAVES`."""
    leaves = dict(itertools.islice(_leaves(value, path, 0), MAX_LEAVES + 1))
    if len(leaves) > MAX_LEAVES:
        leaves.popitem()
        leaves["…"] = Leaf("more parts than are looked at")
    return leaves


def _leaves(value: object, path: str, depth: int) -> Iterator[tuple[str, Leaf]]:
    if depth > DEEPEST:
        yield path, Leaf("something nested too deep")
    elif isinstance(value, _LeafKind):
        yield next(_leaves(value.of, path, depth))
    elif isinstance(value, dict):
        if path:
            yield path, Leaf(f"dict of {len(value)}")
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, tuple | list):
        yield path, Leaf(f"{type(value).__name__} of {len(value)}")
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]", depth + 1)
    else:
        yield path, _leaf(value)


def _leaf(value: object) -> Leaf:
    if isinstance(value, np.ndarray | np.generic):
        return _array_leaf(value)
    if is_tensor(value):
        return _tensor_leaf(value)
    if value is None or type(value) in (bool, int, float, str):
        text = value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value
        return Leaf("None" if value is None else type(value).__name__, _plain_number(text))
    return Leaf(_type_name(value))


def _plain_number(value: Any) -> Any:
    """Integers too long for JSON's readers become their digits' count; the rest stays."""
    if type(value) is int and abs(value) >= 2**63:
        return f"an integer of {value.bit_length()} bits"
    return value


def _array_leaf(value: np.ndarray[Any, Any] | np.generic) -> Leaf:
    array = np.asarray(value)
    kind = "numpy.ndarray" if isinstance(value, np.ndarray) else "a NumPy number"
    carried = array if array.dtype.name in CARRIED else None
    return Leaf(kind, carried, array.shape, array.dtype.name)


def _tensor_leaf(tensor: Any) -> Leaf:
    plain = tensor.detach().to("cpu")
    dtype = str(plain.dtype).removeprefix("torch.")
    if dtype == "bfloat16":  # NumPy has none; every bfloat16 is a float32
        plain = plain.float()
    array = plain.numpy() if str(plain.dtype).removeprefix("torch.") in CARRIED else None
    return Leaf("torch.Tensor", array, tuple(plain.shape), dtype, tensor.device.type)


def _type_name(value: object) -> str:
    kind = type(value)
    name = str(kind.__qualname__)
    full_name = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return full_name.partition("\n")[0][:MAX_NAME_LENGTH]
