"""Random symbols in which a segment occurs twice, so that the first occurrence predicts the second.

By sequences like these Olsson et al. 2022, *In-context Learning and Induction Heads*, tell which heads of a
language model are induction heads. Here they are learned as well.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from training.data.batches import Rows, draws
from training.data.vocabulary import Languages, Symbols
from training.errors import Refused
from training.settings import Settings

SYMBOLS = 32
MIN_CONTEXT = 16  # with fewer symbols, rows that were held out might be drawn again
HELD_OUT = {"validation": 256, "test": 512}


@dataclass(frozen=True)
class Repeated:
    """Random symbols in which a segment comes twice.

    Attributes:
        tokens: `(B, T)`.
        second: where the segment comes again, `(B,)`.
        lag: how far after its first place, `(B,)`.
        length: of the segment, `(B,)`; at most the lag.
    """

    tokens: Tensor
    second: Tensor
    lag: Tensor
    length: Tensor


def repeated(rows: int, width: int, symbols: int, source: torch.Generator) -> Repeated:
    """Draw rows of symbols, each as likely as any other, with a segment of each said again later.

    Where a segment lies, how long it is (a quarter to half of the row), and how much later it comes again
    differ from row to row: neither a position nor a distance tells what is next.

    Args:
        rows: how many.
        width: symbols of a row.
        symbols: kinds of them.
        source: what is drawn from.
    """

    def up_to(most: Tensor) -> Tensor:  # whole numbers from 0 to `most`, both included
        return (torch.rand(rows, generator=source, dtype=torch.float64) * (most + 1)).long()

    random_tokens = torch.randint(symbols, (rows, width), generator=source)
    shortest = torch.full((rows,), width // 4)
    length = shortest + up_to(width // 2 - shortest)
    first = up_to(width - 2 * length)
    second = first + length + up_to(width - 2 * length - first)
    lag = second - first
    positions = torch.arange(width)
    again = (positions >= second[:, None]) & (positions < (second + length)[:, None])  # (B, T)
    tokens = random_tokens.gather(1, positions - again * lag[:, None])
    return Repeated(tokens, second, lag, length)


class Repeats:
    """Endless rows with repeated segments, which only the context predicts.

    Args:
        settings: of the run: seed, batch and context.

    Raises:
        Refused: a context in which too little can be repeated.
    """

    splits = ("validation", "test")
    per_epoch = None

    def __init__(self, settings: Settings):
        if settings.context < MIN_CONTEXT:
            raise Refused(
                f"context must be at least {MIN_CONTEXT} for repeats, and is {settings.context}"
            )
        words = Symbols([str(number) for number in range(SYMBOLS)], " ")
        self.languages = Languages(None, words, None)
        self._settings = settings
        self._held_out = {
            split: self._drawn(rows, draws("held out", "repeats", split))
            for split, rows in HELD_OUT.items()
        }
        # Who draws otherwise, by other code, learns something else, and another run must not go on with it.
        held_out = torch.cat([self.repeated(split).tokens for split in self.splits])
        self.held_out_bytes = None
        self.fingerprint = hashlib.sha256(held_out.numpy().tobytes()).hexdigest()

    def batch(self, number: int) -> Rows:
        """Fresh rows of context + 1 symbols."""
        settings = self._settings
        source = draws(settings.seed, "batch", number)
        return Rows(None, self._drawn(settings.batch, source).tokens)

    def held_out(self, split: str) -> list[Rows]:
        """Rows that are the same for every seed. None of them is trained on: two rows of random symbols
        this long are practically never equal."""
        return [Rows(None, self.repeated(split).tokens)]

    def repeated(self, split: str) -> Repeated:
        """The rows of a split, and where each repeats itself."""
        return self._held_out[split]

    def texts(self, split: str) -> list[tuple[str, str]]:
        """None: nothing is asked of a language model."""
        return []

    def _drawn(self, rows: int, source: torch.Generator) -> Repeated:
        return repeated(rows, self._settings.context + 1, SYMBOLS, source)
