"""Batches, each a function of its number: training can go on from any of them, on any number of devices."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.data.vocabulary import PAD


@dataclass(frozen=True)
class Rows:
    """Sequences side by side: `source` `(B, S)` or None, `target` `(B, T)`, short ones padded with 0."""

    source: Tensor | None
    target: Tensor
    counted: bool = True
    """False for rows that a process works on only because the others wait for it."""

    def __len__(self) -> int:
        return len(self.target)

    @property
    def tokens(self) -> int:
        """How many there are to predict: all of the target but its first, and no padding."""
        if not self.counted:
            return 0
        wanted = self.target[:, 1:]
        return wanted.numel() if self.source is None else int((wanted != PAD).sum())

    def share(self, rank: int, world: int) -> Rows:
        """The rows of one of `world` processes; where there are too few for it, one that does not count."""
        if world == 1:
            return self
        mine = slice(rank, None, world) if rank < len(self) else slice(0, 1)
        source = None if self.source is None else self.source[mine]
        return Rows(source, self.target[mine], counted=rank < len(self))

    def to(self, device: torch.device) -> Rows:
        """The same on a device."""
        source = None if self.source is None else self.source.to(device, non_blocking=True)
        return replace(self, source=source, target=self.target.to(device, non_blocking=True))

    def pin_memory(self) -> Rows:
        """The same in memory that a GPU can read while others work."""
        source = None if self.source is None else self.source.pin_memory()
        return replace(self, source=source, target=self.target.pin_memory())


def padded(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Sequences as one tensor `(B, longest)`, filled up with padding."""
    rows = torch.full((len(sequences), max(map(len, sequences))), PAD)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = torch.as_tensor(sequence)
    return rows


def draws(*names: object) -> torch.Generator:
    """A source of random numbers that depends on nothing but what it is called."""
    return torch.Generator().manual_seed(seed_of(*names))


def seed_of(*names: object) -> int:
    """A seed for what is called by these names, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:8], "big") >> 1


def in_batches(rows: Rows, size: int) -> list[Rows]:
    """Rows of one length, `size` at a time."""
    found = []
    for first in range(0, len(rows), size):
        some = slice(first, first + size)
        source = None if rows.source is None else rows.source[some]
        found.append(Rows(source, rows.target[some]))
    return found
