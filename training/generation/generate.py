"""Going on with a text, token by token, whatever the language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from training.errors import Refused
from variants.sampling import sample


class Words(Protocol):
    """How text becomes ids and back."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature, top_k, top_p: as for `variants.sampling.distribution`.
        seed: where the draws come from.
        min_p: tokens with less than this share of the likeliest token's probability are not drawn
            (Nguyen et al. 2024, *Turning Up the Heat: Min-p Sampling*).
        repetition_penalty: what the scores of tokens that the text has already are divided by, or, where
            they are negative, multiplied by (Keskar et al. 2019, *CTRL*, §4.1). 1 changes nothing.

    Raises:
        Refused: a way of drawing that there is not.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise Refused(f"temperature must be a number of at least 0, not {self.temperature}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Refused(f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise Refused(f"min-p must be at least 0 and at most 1, not {self.min_p}")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise Refused(
                f"repetition-penalty must be a number above 0, not {self.repetition_penalty}"
            )


Ask = Callable[[Tensor], Tensor]
"""Asked with an ever longer text `(B, t)`, it gives scores `(B, T, V)`, the last row those of the next
token."""

Choose = Callable[[list[int]], int]
"""Chooses the token that follows some; it is asked with an ever longer text."""


class Sample(Protocol):
    """Draws a token from each row of logits, as `variants.sampling.sample` does."""

    def __call__(
        self,
        logits: Tensor,
        temperature: float = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        generator: torch.Generator | None = ...,
    ) -> Tensor:
        """Token ids."""


def choosing(
    ask: Ask,
    drawing: Sampling,
    *,
    context: int,
    device: torch.device,
    sampler: Sample = sample,
) -> Choose:
    """How a model chooses tokens.

    Args:
        ask: the model, which is given the last `context` tokens at most.
        drawing: how each is chosen.
        context: the most tokens that the model can read.
        device: where the model is.
        sampler: draws from logits.
    """
    generator = torch.Generator().manual_seed(drawing.seed)
    how = drawing.temperature, drawing.top_k, drawing.top_p

    def choose(ids: list[int]) -> int:
        seen = torch.tensor([ids[-context:]], device=device)
        with torch.no_grad():
            logits = ask(seen)[:, -1].cpu()  # (1, V), drawn from alike on all devices
            return int(sampler(adjusted(logits, ids, drawing), *how, generator))

    return choose


def adjusted(logits: Tensor, ids: list[int], drawing: Sampling) -> Tensor:
    """Scores `(1, V)` after the repetition penalty and min-p, which are applied before top-k and top-p."""
    if drawing.repetition_penalty != 1:
        seen = torch.tensor([sorted(set(ids))])  # (1, distinct tokens)
        scores = logits.gather(1, seen)
        penalty = drawing.repetition_penalty
        scores = torch.where(scores > 0, scores / penalty, scores * penalty)
        logits = logits.scatter(1, seen, scores)
    if drawing.min_p and drawing.temperature > 0:
        below = drawing.temperature * math.log(drawing.min_p)  # of the best score, in scores
        least = logits.amax(dim=-1, keepdim=True) + below
        logits = logits.masked_fill(logits < least, -math.inf)
    return logits


def until(found: Iterator[str], stops: Collection[str]) -> Iterator[str]:
    """Pieces of a text up to the first of some stops, which is not given."""
    waiting = ""
    for piece in found:
        waiting += piece
        places = [place for stop in stops if (place := waiting.find(stop)) >= 0]
        if places:
            yield waiting[: min(places)]
            return
        held = max((_begun(waiting, stop) for stop in stops), default=0)
        yield waiting[: len(waiting) - held]
        waiting = waiting[len(waiting) - held :]
    yield waiting


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the beginning of a stop."""
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(stop[:length])), 0)


def pieces(
    choose: Choose, words: Words, ids: list[int], tokens: int, ends: Collection[int] = ()
) -> Iterator[str]:
    """Pieces of what follows some tokens, as they come.

    Args:
        choose: the model.
        words: its vocabulary.
        ids: the tokens to continue; those that follow are appended.
        tokens: the most tokens to add.
        ends: tokens with which a text ends; they are not shown.
    """
    text = words.decode(ids)
    told = len(text)
    for _ in range(tokens):
        following = choose(ids)
        if following in ends:
            break
        ids.append(following)
        text = words.decode(ids)
        if not text.endswith("\ufffd"):  # a character of several bytes may not be whole yet
            yield text[told:]
            told = len(text)
    yield text[told:]


def continue_text(
    ask: Ask,
    words: Words,
    prompt: str,
    tokens: int,
    drawing: Sampling,
    *,
    context: int,
    device: torch.device,
    ends: Collection[int] = (),
) -> Iterator[str]:
    """Pieces of what follows a prompt, as they come.

    Args:
        ask: the model, which is given the last `context` tokens at most.
        words: its vocabulary.
        prompt: what to go on with.
        tokens: the most tokens to add.
        drawing: how each is chosen.
        context: the most tokens that the model can read.
        device: where the model is.
        ends: tokens with which a text ends; they are not shown.

    Raises:
        Refused: an empty prompt.
    """
    ids = words.encode(prompt)
    if not ids:
        raise Refused("The prompt is empty: there is nothing to go on with")
    yield from pieces(
        choosing(ask, drawing, context=context, device=device), words, ids, tokens, ends
    )
