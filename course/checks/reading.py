"""Record which of its inputs a check reads: it may need only two entries of a dict that several checks
share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Read(dict[Any, Any]):
    """A dict that records which of its entries are read."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        super().__init__(entries)
        self.read: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[Any]:  # which `**` asks as well
        self.read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        return list(self)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> dict[Any, Any]:
        merged: dict[Any, Any] = self.copy() | other
        return merged

    def __ror__(self, other: Any) -> dict[Any, Any]:
        merged: dict[Any, Any] = other | self.copy()
        return merged


def noting_reads(value: Any) -> Any:
    """Return the same nested value with dicts that record which entries are read."""
    if isinstance(value, dict):
        return Read({key: noting_reads(item) for key, item in value.items()})
    if type(value) in (tuple, list):
        return type(value)(noting_reads(item) for item in value)
    return value


def only_read(value: Any, noted: Any) -> Any:
    """Return a nested value without the entries that were not read; a dict from which nothing was read
    stays complete."""
    if isinstance(noted, Read):
        read = [key for key in value if key in (noted.read or value)]
        return {key: only_read(value[key], dict.__getitem__(noted, key)) for key in read}
    if type(value) in (tuple, list) and type(noted) is type(value):
        return type(value)(map(only_read, value, noted))
    return value
