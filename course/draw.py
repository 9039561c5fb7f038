"""The inputs of checks: drawn from a seed, so that nothing is constant by accident."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
Array = np.ndarray[Any, Any]


class Draw:
    """A stream of random sizes and arrays that depends on the seed and on who draws, and on nothing else."""

    def __init__(self, seed: int, who: str) -> None:
        digest = hashlib.sha256(f"{seed}/{who}".encode()).digest()
        self._random = np.random.default_rng(int.from_bytes(digest[:16], "little"))

    def size(self, low: int, high: int) -> int:
        """A size from `low` to `high`, both included."""
        return int(self._random.integers(low, high + 1))

    def sizes(self, low: int, high: int, count: int) -> list[int]:
        """`count` sizes from `low` to `high`, no two alike, so that a swapped axis shows."""
        return [int(size) for size in self._random.permutation(np.arange(low, high + 1))[:count]]

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.size(0, len(items) - 1)]

    def normal(
        self, *shape: int, scale: float = 1.0, mean: float = 0.0, dtype: str = "float64"
    ) -> Array:
        """Normal numbers of the given deviation and mean."""
        return (mean + scale * self._random.standard_normal(shape)).astype(dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: str = "float64") -> Array:
        """Numbers between two bounds, all equally likely."""
        return self._random.uniform(low, high, shape).astype(dtype)

    def weights(self, *shape: int, dtype: str = "float64") -> Array:
        """Positive numbers that sum to 1 along the last axis."""
        exponentials = self._random.exponential(size=shape)
        shares: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return shares.astype(dtype)

    def integers(self, low: int, high: int, *shape: int) -> Array:
        """Integers from `low` to `high`, both included."""
        return self._random.integers(low, high + 1, shape)

    def mask(self, *shape: int, keep: float = 0.6) -> Array:
        """A boolean mask in which each row of the last axis keeps at least one True and, where it
        is longer than 1, loses at least one."""
        mask = self._random.random(shape) < keep
        last = shape[-1]
        rows = mask.reshape(-1, last)
        first = self._random.integers(0, last, len(rows))
        if last > 1:
            rows[np.arange(len(rows)), (first + 1) % last] = False
        rows[np.arange(len(rows)), first] = True
        return mask
