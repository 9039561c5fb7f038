"""Batches as functions of their number: training can resume from any, on any number of devices."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.data.vocabulary import PAD


@dataclass(frozen=True)
class Rows:
    """A batch: `source` `(B, S)` or None, and `target` `(B, T)`, padded with 0."""

    source: Tensor | None
    target: Tensor
    counted: bool = True
    """False for rows that a process computes only to stay in step with the others."""

    def __len__(self) -> int:
        return len(self.target)

    @property
    def tokens(self) -> int:
        """The number of tokens to predict: the target without its first token and padding."""
        if not self.counted:
            return 0
        wanted = self.target[:, 1:]
        return wanted.numel() if self.source is None else int((wanted != PAD).sum())

    def share(self, rank: int, world: int) -> Rows:
        """Return the rows of one of `world` processes; if there are too few, a row that does not count."""
        if world == 1:
            return self
        mine = slice(rank, None, world) if rank < len(self) else slice(0, 1)
        source = None if self.source is None else self.source[mine]
        return Rows(source, self.target[mine], counted=rank < len(self))

    def to(self, device: torch.device) -> Rows:
        """Return the batch on a device."""
        source = None if self.source is None else self.source.to(device, non_blocking=True)
        return replace(self, source=source, target=self.target.to(device, non_blocking=True))

    def pin_memory(self) -> Rows:
        """Return the batch in pinned memory."""
        source = None if self.source is None else self.source.pin_memory()
        return replace(self, source=source, target=self.target.pin_memory())


def padded(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Pad sequences to one tensor `(B, longest)`."""
    rows = torch.full((len(sequences), max(map(len, sequences))), PAD)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = torch.as_tensor(sequence)
    return rows


def draws(*names: object) -> torch.Generator:
    """Return a generator seeded by names only."""
    return torch.Generator().manual_seed(seed_of(*names))


def seed_of(*names: object) -> int:
    """Return a seed from names, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:8], "big") >> 1


def in_batches(rows: Rows, size: int) -> list[Rows]:
    """Yield batches of `size` rows of one length."""
    found = []
    for first in range(0, len(rows), size):
        some = slice(first, first + size)
        source = None if rows.source is None else rows.source[some]
        found.append(Rows(source, rows.target[some]))
    return found
