"""Weights and training states, written atomically: a kill leaves the old file or the new one.

A file is written under a temporary name, synced to the disk, and then renamed, so a file with its final
name is complete. The state is one file, so a kill cannot leave parts of two; the previous state is kept
in case the disk damages the last one.
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
    """The file's contents are not what was written."""


@dataclass
class TrainingState:
    """Everything that resuming a run needs."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def write_atomically(path: Path, body: bytes) -> None:
    """Write a file completely or not at all.

    Raises:
        OSError: the file could not be written; the old file is unchanged.
    """
    draft = temporary_path(path)
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


def temporary_path(path: Path) -> Path:
    """The file's name before it is renamed. A kill may leave such a file; it is never read."""
    return path.with_name(f"{path.name}.part")


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write weights by name as safetensors.

    Raises:
        OSError: the weights could not be written.
    """
    write_atomically(path, safetensors.torch.save(_on_cpu(weights)))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights by name.

    Raises:
        Refused: the file is missing or incomplete.
    """
    try:
        return safetensors.torch.load(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except safetensors.SafetensorError as error:
        raise Refused(f"{path} is damaged: {error}") from error


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state, and keep the previous one.

    Raises:
        OSError: the state could not be written; the last state is unchanged.
    """
    body = safetensors.torch.save(_on_cpu(state.tensors), {"facts": json.dumps(state.facts)})
    head = HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n"
    coming = path.with_name(f"{path.name}.next")
    write_atomically(coming, head + body)
    # A kill between these two lines leaves no `last`, and a complete `previous`.
    if path.exists():
        path.replace(previous(path))
    coming.replace(path)


def previous(path: Path) -> Path:
    """The file of the previous state."""
    return path.with_name(f"previous{path.suffix}")


def read_state(path: Path) -> TrainingState:
    """Read a state.

    Raises:
        OSError: the file cannot be read.
        Damaged: the file is not what was written.
    """
    head, _, body = path.read_bytes().partition(b"\n")
    if head != HEAD + hashlib.sha256(body).hexdigest().encode():
        raise Damaged(f"{path.name} is damaged: it is not what was written there")
    size = int.from_bytes(body[:8], "little")  # of the header, which safetensors begins with
    facts = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["facts"])
    return TrainingState(safetensors.torch.load(body), facts)


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors as safetensors takes them. No two may share memory."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
