"""Observations as bytes, in frames: the format that workers send and recordings store, without
pickle.

A message, with an observation if there is one, is a safetensors file whose metadata holds
everything except arrays. A frame is eight bytes of length, little-endian, and such a file.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from course.checks.observation import MAX_TEXT_LENGTH, Leaf, Observation, Raised

MAX_FRAME_BYTES = 8 * 2**20  # forty times the largest that a right answer sends
MAX_HEADER_BYTES = 3 * 2**19  # bytes of a worker's frame that are not arrays
MAX_AXES = 64  # NumPy's own limit, and torch's


class BadFrame(ValueError):
    """The bytes are not an observation."""


def write_frame(channel: IO[bytes], data: bytes) -> None:
    """Send one frame."""
    channel.write(len(data).to_bytes(8, "little") + data)
    channel.flush()


def read_frame(channel: IO[bytes]) -> bytes | None:
    """Receive one frame; None if the channel ends, within a frame or between two frames.

    Raises:
        ValueError: the frame claims to be longer than the maximum.
    """
    head = channel.read(8)
    if len(head) < 8:
        return None
    length = int.from_bytes(head, "little")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes")
    data = channel.read(length)
    return data if len(data) == length else None


def to_bytes(message: dict[str, Any], observation: Observation | None = None) -> bytes:
    """Encode a message, with an observation if there is one, as a safetensors file."""
    leaves, arrays = [], {}
    for number, (path, leaf) in enumerate((observation or {}).items()):
        entry = asdict(leaf) | {"path": path}
        if leaf.is_array and leaf.value is not None:
            arrays[str(number)] = np.ascontiguousarray(leaf.value).reshape(leaf.shape)
            entry["value"] = None
        leaves.append(entry)
    return save(arrays, metadata={"message": json.dumps(message), "leaves": json.dumps(leaves)})


def from_bytes(
    data: bytes, max_header_bytes: int = MAX_FRAME_BYTES, *, trusted: bool = False
) -> tuple[dict[str, Any], Observation]:
    """Decode the message and observation in untrusted bytes.

    Args:
        max_header_bytes: the maximum number of bytes for strings and leaves, which take long to read.
        trusted: whether the bytes come from our own code, and can contain paths that are not UTF-8.

    Raises:
        BadFrame: the bytes do not have the format of `to_bytes`.
    """
    if int.from_bytes(data[:8], "little") > max_header_bytes:
        raise BadFrame("a header that is too long")
    try:
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        parse = json.loads if trusted else _parsed
        message, leaves = parse(metadata["message"]), parse(metadata["leaves"])
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
    if "\\ud" not in text.lower():  # as half a pair is written
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _read_leaf(number: str, entry: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, Leaf]:
    path, kind, value = entry["path"], entry["type"], entry["value"]
    dtype, device = entry["dtype"], entry["device"]
    words = (path, kind, dtype or "", device or "")
    if not all(isinstance(word, str) and len(word) < MAX_TEXT_LENGTH for word in words):
        raise BadFrame("not a leaf")
    if value is not None and type(value).__name__ != kind and (type(value), kind) != (str, "int"):
        raise BadFrame("not a value")  # integers too long for JSON are described in words
    shape = None
    if dtype is not None:
        shape = tuple(int(size) for size in entry["shape"])
        if len(shape) > MAX_AXES:
            raise BadFrame("not a shape")
        value = arrays.get(number)
        if value is not None and (
            value.shape != shape or value.dtype.name != {"bfloat16": "float32"}.get(dtype, dtype)
        ):
            raise BadFrame("an array that is not what it says")
    return path, Leaf(kind, value, shape, dtype, device)


def raised_from(entry: Any) -> Raised:
    """Read a `Raised` from an untrusted message.

    Raises:
        BadFrame: the message contains no valid `Raised`.
    """
    try:
        frames, cpu_line = (
            [(int(line), str(name)[:200], str(text)[:500]) for line, name, text in places[:50]]
            for places in (entry["frames"], entry["cpu_line"])
        )
        return Raised(
            str(entry["kind"])[:200],
            str(entry["message"])[:MAX_TEXT_LENGTH],
            frames,
            entry["not_started"] is True,
            cpu_line[:1],
            str(entry["suggestion"])[:100],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFrame("not an exception") from error
