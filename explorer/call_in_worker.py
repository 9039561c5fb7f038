"""In the worker: a learner's own function, called with what a page sends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from course.assembly.answer_parts import put_together
from course.checks.observation import flatten
from course.checks.raising import raised
from course.curriculum import BY_NUMBER

Send = Callable[..., None]


def packed(value: Any) -> Any:
    """An argument as JSON."""
    kind = "array" if isinstance(value, np.ndarray) else "tensor"
    if isinstance(value, bool | int | float | str | None):
        return value
    array = np.asarray(value)
    return {"kind": kind, "dtype": array.dtype.name, "shape": array.shape, "data": array.tolist()}


def unpacked(value: Any) -> Any:
    """The argument again."""
    if not isinstance(value, dict):
        return value
    array = np.array(value["data"], dtype=value["dtype"]).reshape(value["shape"])
    if value["kind"] == "array":
        return array
    import torch  # takes a second to import, and some pages need none

    return torch.from_numpy(array)


@functools.cache
def _parts(day: int, path: str) -> tuple[ModuleType, list[str], dict[str, list[str]]]:
    """The day's reference with the learner's definitions in it; a new worker is taken for a new file."""
    chosen = BY_NUMBER[day]
    return put_together({chosen.stem: Path(path)}, chosen.references)


def serve(request: dict[str, Any], send: Send) -> None:
    """Call the learner's definition; send what it returns, or why there is nothing."""
    name, path = request["call"], request["answer"]
    parts, own, filled = _parts(request["explored"], path)
    if name not in own:
        reason = next(reason for reason, names in filled.items() if name in names)
        return send({"not_own": reason})
    function = getattr(parts, name)
    try:
        if "calls" in request:
            result = tuple(function(*map(unpacked, arguments)) for arguments in request["calls"])
        else:
            result = function(*map(unpacked, request["arguments"]))
    except (Exception, SystemExit) as error:
        return send({"raised": asdict(raised(error, path))})
    return send({"own": own}, flatten(result))
