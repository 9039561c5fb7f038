"""A tiny Transformer that learns to copy, a few steps at a time: day 18's task, in the reference's loop."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from implementation import Batch, LabelSmoothing, greedy_decode, make_model, run_epoch

VOCAB, LENGTH, START = 11, 8, 1  # ten symbols, 0 is padding; every sequence begins with 1
BATCH, HELD_OUT = 32, 64  # sequences of a step, and of those that are never learned from
STEPS, EVERY = 300, 5  # of a whole run, and between two measurements

_drawing = (
    threading.Lock()
)  # two visitors' models must not draw their first weights from one another's seed


class CopyRun:
    """A run that advances on request. The same settings give the same numbers, whenever it pauses.

    Attributes:
        rates: of its steps, the first's first.
        step: how many it has made.
        losses: what a held-out token costs, −ln p, before the first step and after every `EVERY`.
        norms: of each step's gradient.
        source: a held-out sequence.
        said: what the model makes of it.
        weights: where its decoder looks meanwhile, `(h, T, S)`: a row for each symbol read.
    """

    def __init__(self, rates: Sequence[float], d_model: int, smoothing: float) -> None:
        self.rates = rates
        self.step = 0
        self.losses: list[float] = []
        self.norms: list[float] = []
        with _drawing, torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._model = make_model(
                VOCAB, VOCAB, n=1, d_model=d_model, d_ff=2 * d_model, h=2, dropout=0.0
            )
        self._data = torch.Generator().manual_seed(1)
        held_out = _sequences(HELD_OUT, torch.Generator().manual_seed(2))
        self._held_out = Batch(held_out, held_out)
        self.source: list[int] = held_out[0].tolist()
        # The paper's Adam (§5.3).
        self._optimizer = torch.optim.Adam(
            self._model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9
        )
        # A scheduler asks for the rate of one more step than there are.
        self._scheduler = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda step: rates[min(step, len(rates) - 1)]
        )
        self._smoothed = LabelSmoothing(VOCAB, padding_idx=0, smoothing=smoothing)
        self._plain = LabelSmoothing(VOCAB, padding_idx=0)
        self._measure()

    @property
    def ended(self) -> bool:
        """Whether all steps are done, or the loss is no longer finite."""
        return self.step >= len(self.rates) or not math.isfinite(self.losses[-1])

    def advance(self) -> None:
        """Make the steps up to the next measurement, and measure."""
        if self.ended:
            return
        for _ in range(EVERY):
            tokens = _sequences(BATCH, self._data)
            batch = Batch(tokens, tokens)
            run_epoch([batch], self._model, self._smoothed, self._optimizer, self._scheduler)
            gradients = [
                parameter.grad
                for parameter in self._model.parameters()
                if parameter.grad is not None
            ]
            self.norms.append(torch.nn.utils.get_total_norm(gradients).item())
        self.step += EVERY
        self._measure()

    def _measure(self) -> None:
        self.losses.append(run_epoch([self._held_out], self._model, self._plain))
        weights = self._model.decoder.layers[-1].src_attn.weights
        self.weights: Tensor = weights[0]
        source = self._held_out.src[:1]
        output = greedy_decode(self._model, source, self._held_out.src_mask[:1], LENGTH, START)
        self.said: list[int] = output[0].tolist()


def _sequences(number: int, generator: torch.Generator) -> Tensor:
    tokens = torch.randint(1, VOCAB, (number, LENGTH), generator=generator)  # (B, T)
    tokens[:, 0] = START
    return tokens
