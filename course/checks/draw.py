"""The inputs of checks: drawn from a seed, so that nothing is constant by accident."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


class Draw:
    """A stream of random sizes and arrays that depends only on the seed and on the name of the stream."""

    usual = "float64"

    def __init__(self, seed: int, who: str) -> None:
        digest = hashlib.sha256(f"{seed}/{who}".encode()).digest()
        self._random = np.random.default_rng(int.from_bytes(digest[:16], "little"))

    def size(self, low: int, high: int) -> int:
        """Draw a size from `low` to `high`, inclusive."""
        return int(self._random.integers(low, high + 1))

    def sizes(self, low: int, high: int, count: int) -> list[int]:
        """Draw `count` different sizes from `low` to `high`, so that a swapped axis is visible."""
        return [int(size) for size in self._random.permutation(np.arange(low, high + 1))[:count]]

    def choice(self, items: Sequence[Item]) -> Item:
        """Draw one of the items."""
        return items[self.size(0, len(items) - 1)]

    def normal(
        self, *shape: int, scale: float = 1.0, mean: float = 0.0, dtype: str | None = None
    ) -> Any:
        """Draw normal numbers with a given mean and standard deviation."""
        return self._made(mean + scale * self._random.standard_normal(shape), dtype or self.usual)

    def uniform(self, low: float, high: float, *shape: int, dtype: str | None = None) -> Any:
        """Draw uniform numbers between two bounds."""
        return self._made(self._random.uniform(low, high, shape), dtype or self.usual)

    def weights(self, *shape: int, dtype: str | None = None) -> Any:
        """Draw positive numbers that sum to 1 along the last axis."""
        exponentials = self._random.exponential(size=shape)
        shares = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return self._made(shares, dtype or self.usual)

    def integers(self, low: int, high: int, *shape: int) -> Any:
        """Draw integers from `low` to `high`, inclusive."""
        return self._made(self._random.integers(low, high + 1, shape), None)

    def mask(self, *shape: int, keep: float = 0.6) -> Any:
        """Draw a boolean mask in which each row of the last axis has at least one True and, if it is
        longer than 1, at least one False."""
        mask = self._random.random(shape) < keep
        last = shape[-1]
        rows = mask.reshape(-1, last)
        first = self._random.integers(0, last, len(rows))
        if last > 1:
            rows[np.arange(len(rows)), (first + 1) % last] = False
        rows[np.arange(len(rows)), first] = True
        return self._made(mask, None)

    def _made(self, values: Any, dtype: str | None) -> Any:
        """The drawn values as an array, of this dtype if one is given."""
        return np.asarray(values) if dtype is None else np.asarray(values).astype(dtype)
