"""Batches as functions of their number: training can resume from any batch, on any number of devices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from training.data.vocabulary import PAD


@dataclass(frozen=True)
class Rows:
    """A batch: `source` `(B, S)` or None, and `target` `(B, T)`, padded with 0.

    Without `labels` `(B, T)`, each position of the target predicts the next token. With them, it predicts
    its label, if that is not −100. `positions` and `mask` are those of packed rows
    (`variants.instruction.Packed`).
    """

    source: Tensor | None
    target: Tensor
    labels: Tensor | None = None
    positions: Tensor | None = None
    mask: Tensor | None = None
    counted: bool = True
    """False for rows that a process computes only to stay in step with the others."""

    def __len__(self) -> int:
        return len(self.target)

    @property
    def tokens(self) -> int:
        """The number of tokens to predict: those of `labels`, or the target without its first token and
        padding."""
        if not self.counted:
            return 0
        if self.labels is not None:
            return int((self.labels != -100).sum())
        labels = self.target[:, 1:]
        return labels.numel() if self.source is None else int((labels != PAD).sum())

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The arguments of `Objective`."""
        return self.source, self.target, self.labels, self.positions, self.mask

    def each(self, act: Callable[[Tensor], Tensor], counted: bool = True) -> Rows:
        """Return the batch with `act` applied to each of its tensors."""
        names = ("source", "target", "labels", "positions", "mask")
        named = zip(names, self.tensors, strict=True)
        changed: dict[str, Any] = {
            name: act(tensor) for name, tensor in named if tensor is not None
        }
        return replace(self, counted=counted, **changed)

    def share(self, rank: int, world: int) -> Rows:
        """Return the rows of one of `world` processes; if there are too few, a row that does not count."""
        if world == 1:
            return self
        mine = slice(rank, None, world) if rank < len(self) else slice(0, 1)
        return self.each(itemgetter(mine), counted=rank < len(self))

    def to(self, device: torch.device) -> Rows:
        """Return the batch on a device."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True), self.counted)

    def pin_memory(self) -> Rows:
        """Return the batch in pinned memory."""
        return self.each(Tensor.pin_memory, self.counted)


def padded(sequences: Sequence[Sequence[int] | Tensor], pad: int = PAD) -> Tensor:
    """Pad sequences to one tensor `(B, longest)`."""
    rows = torch.full((len(sequences), max(map(len, sequences))), pad)
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
    """Return batches of `size` rows of one length."""
    places = (slice(first, first + size) for first in range(0, len(rows), size))
    return [rows.each(itemgetter(some)) for some in places]
