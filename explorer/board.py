"""A board of all heads of a model: which are on, what each is worth, and which sublayer is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

BESIDE = Path(__file__)


class HeadBoard(anywidget.AnyWidget):
    """A button for each head, which switches it off and on, and one for each attention, which chooses it.

    Which heads are on is written as a row of 1 and 0 for each attention: `1111-1101`. So it fits into an
    address.
    """

    _esm = BESIDE.with_name("board.js")
    _css = BESIDE.with_name("board.css")

    places = traitlets.List(traitlets.Unicode()).tag(sync=True)
    place = traitlets.Int().tag(sync=True)
    on = traitlets.Unicode().tag(sync=True)
    costs: traitlets.List[Any] = traitlets.List().tag(sync=True)
    """The numbers on the buttons, a list for each sublayer; empty if there are none."""

    def __init__(self, places: Sequence[str], heads: int, place: int, off: int) -> None:
        """A board with one head off.

        Args:
            places: the names of the attentions.
            heads: how many each has.
            place: the index of the attention that is chosen at first.
            off: which of its heads is off at first, counted from 1.
        """
        rows = ["1" * heads] * len(places)
        rows[place] = "".join(str(int(number != off)) for number in range(1, heads + 1))
        super().__init__(places=list(places), place=place, on="-".join(rows))

    @traitlets.validate("on")
    def _fits(self, proposal: Any) -> str:
        on: str = proposal["value"]
        if self.on and on.replace("0", "1") != self.on.replace("0", "1"):
            raise traitlets.TraitError(f"not a row of heads for each sublayer: {on}")
        return on

    @traitlets.validate("place")
    def _is_a_place(self, proposal: Any) -> int:
        place: int = proposal["value"]
        if not 0 <= place < len(self.places):
            raise traitlets.TraitError(
                f"there is no sublayer {place}: they are 0 to {len(self.places) - 1}"
            )
        return place
