"""What a check saw, as data: flat, typed leaves that travel between processes without any pickle.

A check returns whatever it saw, nested as it likes. `flatten` turns that into an ordered map from a
path such as `output` or `gradients.query[0]` to a `Leaf`. `to_bytes` and `from_bytes` carry it as
one safetensors file whose metadata holds everything that is no array.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

# Arrays of these kinds travel; any other dtype is only named.
CARRIED = {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"} | {
    "float16",
    "float32",
    "float64",
}
DEEPEST = 20
MOST_AXES = 64  # NumPy's own limit, and torch's
LONGEST_TEXT = 10_000
LONGEST_NAME = 60  # of a type that is not known


class BadFrame(ValueError):
    """Bytes that are no observation."""


@dataclass(frozen=True)
class Raised:
    """An exception, as data: its kind, its words, and the frames that lie in the answer's own file."""

    kind: str
    message: str
    frames: list[tuple[int, str, str]] = field(default_factory=list)
    """(line number, function, source line), outermost first."""
    not_started: bool = False
    """Whether it is the stub's own raise, unchanged."""


@dataclass(frozen=True)
class Leaf:
    """One thing seen: an array, a number, a word, or the shape of a container."""

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
class _Kind:
    """Stands for a container whose items are observed under names of their own."""

    of: object


def named(result: object, *names: str, first: str) -> dict[str, Any]:
    """The items of a returned tuple by the names that a learner knows them by.

    The `first` one is compared first: that on which the others depend, so that it is the one told of.
    What is no tuple of that many is observed as it is, so that the message can say what it is
    instead.
    """
    if isinstance(result, tuple) and len(result) == len(names):
        items = dict(zip(names, result, strict=True))
        return {RESULT: _Kind(result), first: items[first], **items}
    return {RESULT: result}


def flatten(value: object, path: str = "", depth: int = 0) -> Observation:
    """Lay a nested value out as leaves, containers before what they hold."""
    if depth > DEEPEST:
        return {path: Leaf("something nested too deep")}
    if isinstance(value, _Kind):
        return dict([next(iter(flatten(value.of, path).items()))])
    if isinstance(value, dict):
        seen = {path: Leaf(f"dict of {len(value)}")} if path else {}
        for key, item in value.items():
            seen |= flatten(item, f"{path}.{key}" if path else str(key), depth + 1)
        return seen
    if isinstance(value, tuple | list):
        seen = {path: Leaf(f"{type(value).__name__} of {len(value)}")}
        for index, item in enumerate(value):
            seen |= flatten(item, f"{path}[{index}]", depth + 1)
        return seen
    return {path: _leaf(value)}


def _leaf(value: object) -> Leaf:
    if isinstance(value, np.ndarray | np.generic):
        return _array_leaf(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor_leaf(value)
    if value is None or type(value) in (bool, int, float, str):
        text = value[:LONGEST_TEXT] if isinstance(value, str) else value
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
    whole = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return whole.partition("\n")[0][:LONGEST_NAME]


# --- As bytes -------------------------------------------------------------------------------------


def to_bytes(message: dict[str, Any], observation: Observation | None = None) -> bytes:
    """A message, with an observation if there is one, as one safetensors file."""
    leaves, arrays = [], {}
    for number, (path, leaf) in enumerate((observation or {}).items()):
        entry = asdict(leaf) | {"path": path}
        if leaf.is_array and leaf.value is not None:
            arrays[str(number)] = np.ascontiguousarray(leaf.value).reshape(leaf.shape)
            entry["value"] = None
        leaves.append(entry)
    return save(arrays, metadata={"message": json.dumps(message), "leaves": json.dumps(leaves)})


def from_bytes(data: bytes) -> tuple[dict[str, Any], Observation]:
    """The message and observation in bytes that may come from anyone.

    Raises:
        BadFrame: these bytes are not what `to_bytes` writes.
    """
    try:
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        message, leaves = _parsed(metadata["message"]), _parsed(metadata["leaves"])
        if not isinstance(message, dict) or not isinstance(leaves, list):
            raise BadFrame("not a message")
        return message, dict(_read_leaf(str(n), entry, arrays) for n, entry in enumerate(leaves))
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
        RecursionError,
        AttributeError,
    ) as error:
        raise BadFrame(f"not an observation ({type(error).__name__})") from error


def _parsed(text: str) -> Any:
    """JSON, with nothing in its strings that cannot be written again: half a surrogate pair."""
    value = json.loads(text)
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _read_leaf(number: str, entry: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, Leaf]:
    path, kind, value = entry["path"], entry["type"], entry["value"]
    dtype, device = entry["dtype"], entry["device"]
    words = (path, kind, dtype or "", device or "")
    if not all(isinstance(word, str) and len(word) < LONGEST_TEXT for word in words):
        raise BadFrame("not a leaf")
    if value is not None and type(value).__name__ != kind and (type(value), kind) != (str, "int"):
        raise BadFrame("not a value")  # integers too long for JSON are told in words
    shape = None
    if dtype is not None:
        shape = tuple(int(size) for size in entry["shape"])
        if len(shape) > MOST_AXES:
            raise BadFrame("not a shape")
        value = arrays.get(number)
        if value is not None and (
            value.shape != shape or value.dtype.name != {"bfloat16": "float32"}.get(dtype, dtype)
        ):
            raise BadFrame("an array that is not what it says")
    return path, Leaf(kind, value, shape, dtype, device)


def raised_from(entry: Any) -> Raised:
    """A `Raised` read from a message that may come from anyone.

    Raises:
        BadFrame: it is no such thing.
    """
    try:
        frames = [
            (int(line), str(name)[:200], str(text)[:500])
            for line, name, text in entry["frames"][:50]
        ]
        return Raised(
            str(entry["kind"])[:200],
            str(entry["message"])[:LONGEST_TEXT],
            frames,
            entry["not_started"] is True,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFrame("not an exception") from error
