"""A table of attention whose cells one clicks: each is a weight, and whether the mask allows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

BESIDE = Path(__file__)


class MaskGrid(anywidget.AnyWidget):
    """A row for each query, a column for each key; buttons above it for masks that have a name.

    A mask is written as one of those names, or as its rows of 1 (may be attended to) and 0: `10-11` is the
    causal mask of two words. So it fits into an address.
    """

    _esm = BESIDE.with_name("grid.js")
    _css = BESIDE.with_name("grid.css")

    words = traitlets.List(traitlets.Unicode()).tag(sync=True)
    masks = traitlets.Dict().tag(sync=True)
    mask = traitlets.Unicode().tag(sync=True)
    query = traitlets.Int().tag(sync=True)
    weights: traitlets.List[list[float]] = traitlets.List().tag(sync=True)
    """The numbers in the cells, a list for each query; empty if there are none."""

    def __init__(
        self, words: Sequence[str], masks: dict[str, np.ndarray], mask: str, query: int
    ) -> None:
        """A grid for one sentence.

        Args:
            masks: boolean `(T, T)`, by their names.
            mask: which of them holds at first.
            query: the index of the word whose row is marked at first.
        """
        super().__init__(
            words=list(words),
            masks={name: _written(allowed) for name, allowed in masks.items()},
            mask=mask,
            query=query,
        )

    @property
    def allowed(self) -> np.ndarray:
        """The mask, boolean `(T, T)`."""
        rows = self.masks.get(self.mask, self.mask).split("-")
        return np.array([[cell == "1" for cell in row] for row in rows])

    @traitlets.validate("mask")
    def _fits(self, proposal: Any) -> str:
        mask: str = proposal["value"]
        form = _written(np.zeros((len(self.words), len(self.words)), dtype=bool))
        if mask not in self.masks and mask.replace("1", "0") != form:
            raise traitlets.TraitError(f"not a mask of {len(self.words)} words: {mask}")
        return mask

    @traitlets.validate("query")
    def _is_a_word(self, proposal: Any) -> int:
        query: int = proposal["value"]
        if isinstance(query, bool) or not 0 <= query < len(self.words):
            raise traitlets.TraitError(
                f"there is no word {query}: they are 0 to {len(self.words) - 1}"
            )
        return query


def _written(mask: np.ndarray) -> str:
    return "-".join("".join("1" if cell else "0" for cell in row) for row in mask)
