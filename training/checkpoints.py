"""Files that a kill cannot tear: weights, and the state that a run goes on from.

A file is written under another name, forced to the disk, and then renamed: what has the name is whole.
The state is one file, so no kill between two can mix them; the one before it is kept, in case a disk
damages the last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from training.errors import Refused

HEAD = b"course training state 1 "


class Damaged(Exception):
    """A file that is not what was written."""


@dataclass
class TrainingState:
    """All that resuming needs."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def write_whole(path: Path, body: bytes) -> None:
    """Write a file at once or not at all.

    Raises:
        OSError: it could not be written; what was there before is untouched.
    """
    draft = draft_of(path)
    try:
        with draft.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def draft_of(path: Path) -> Path:
    """What a file is written as before it is renamed. A kill may leave it; it is never read."""
    return path.with_name(f"{path.name}.part")


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Weights by name as safetensors.

    Raises:
        OSError: they could not be written.
    """
    write_whole(path, safetensors.torch.save(_apart(weights)))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights by name.

    Raises:
        Refused: no such file, or not all of one.
    """
    try:
        return safetensors.torch.load(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except safetensors.SafetensorError as error:
        raise Refused(f"{path} is damaged: {error}") from error


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state, and keep the one before it.

    Raises:
        OSError: it could not be written; the last one is still there.
    """
    body = safetensors.torch.save(_apart(state.tensors), {"facts": json.dumps(state.facts)})
    head = HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n"
    coming = path.with_name(f"{path.name}.next")
    write_whole(coming, head + body)
    # A kill between these two leaves no `last`, and a whole `previous`.
    if path.exists():
        path.replace(previous(path))
    coming.replace(path)


def previous(path: Path) -> Path:
    """Where the state before the last is kept."""
    return path.with_name(f"previous{path.suffix}")


def read_state(path: Path) -> TrainingState:
    """The state that was written.

    Raises:
        OSError: it cannot be read.
        Damaged: it is not what was written.
    """
    head, _, body = path.read_bytes().partition(b"\n")
    if head != HEAD + hashlib.sha256(body).hexdigest().encode():
        raise Damaged(f"{path.name} is damaged: it is not what was written there")
    size = int.from_bytes(body[:8], "little")  # of the header, which safetensors begins with
    facts = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["facts"])
    return TrainingState(safetensors.torch.load(body), facts)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same, each in memory of its own, as the format asks for."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
