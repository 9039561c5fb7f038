"""Generate text token by token from any language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from training.errors import Refused
from variants.sampling import sample


class Tokenizer(Protocol):
    """Encodes text as token ids, and decodes them."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is sampled.

    Attributes:
        temperature, top_k, top_p: as for `variants.sampling.distribution`.
        seed: random seed.
        min_p: tokens with less than this fraction of the top token's probability are never sampled
            (Nguyen et al. 2024, *Turning Up the Heat: Min-p Sampling*).
        repetition_penalty: positive logits of tokens already in the text are divided by it, negative ones
            multiplied (Keskar et al. 2019, *CTRL*, §4.1); 1 changes nothing.

    Raises:
        Refused: a value out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise Refused(f"temperature must be a number of at least 0, got {self.temperature}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Refused(f"top-p must be above 0 and at most 1, got {self.top_p}")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise Refused(f"min-p must be at least 0 and at most 1, got {self.min_p}")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise Refused(
                f"repetition-penalty must be a number above 0, got {self.repetition_penalty}"
            )


NextLogits = Callable[[Tensor], Tensor]
"""Maps a growing text `(B, t)` to logits `(B, T, V)`, whose last row is for the next token."""

NextToken = Callable[[list[int]], int]
"""Returns the token that follows a growing list of ids."""


class Sample(Protocol):
    """Samples a token from each row of logits, like `variants.sampling.sample`."""

    def __call__(
        self,
        logits: Tensor,
        temperature: float = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        generator: torch.Generator | None = ...,
    ) -> Tensor:
        """Token ids."""


def make_sampler(
    next_logits: NextLogits,
    sampling: Sampling,
    *,
    context: int,
    device: torch.device,
    sampler: Sample = sample,
) -> NextToken:
    """Return a function that samples a model's next token.

    Args:
        next_logits: the model; it gets at most the last `context` tokens.
        context: the maximum number of tokens that the model can read.
    """
    generator = torch.Generator().manual_seed(sampling.seed)
    how = sampling.temperature, sampling.top_k, sampling.top_p

    def next_token(ids: list[int]) -> int:
        window = torch.tensor([ids[-context:]], device=device)
        with torch.no_grad():
            logits = next_logits(window)[:, -1]  # (1, V)
            logits = logits.cpu()  # so that all devices draw the same
            return int(sampler(adjusted(logits, ids, sampling), *how, generator))

    return next_token


def adjusted(logits: Tensor, ids: list[int], sampling: Sampling) -> Tensor:
    """Apply the repetition penalty and min-p to logits `(1, V)`, before top-k and top-p."""
    if sampling.repetition_penalty != 1:
        present = torch.tensor([sorted(set(ids))])  # (1, distinct tokens)
        scores = logits.gather(1, present)
        penalty = sampling.repetition_penalty
        scores = torch.where(scores > 0, scores / penalty, scores * penalty)
        logits = logits.scatter(1, present, scores)
    if sampling.min_p and sampling.temperature > 0:
        below = sampling.temperature * math.log(sampling.min_p)  # as a difference of logits
        least = logits.amax(dim=-1, keepdim=True) + below
        logits = logits.masked_fill(logits < least, -math.inf)
    return logits


def stop_at(texts: Iterator[str], stops: Collection[str]) -> Iterator[str]:
    """Yield the pieces of a text up to the first stop string, without it."""
    waiting = ""
    for piece in texts:
        waiting += piece
        places = [position for stop in stops if (position := waiting.find(stop)) >= 0]
        if places:
            yield waiting[: min(places)]
            return
        withheld = max((_begun(waiting, stop) for stop in stops), default=0)
        yield waiting[: len(waiting) - withheld]
        waiting = waiting[len(waiting) - withheld :]
    yield waiting


def _begun(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string."""
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(stop[:length])), 0)


def stream_text(
    next_token: NextToken,
    tokenizer: Tokenizer,
    ids: list[int],
    tokens: int,
    ends: Collection[int] = (),
) -> Iterator[str]:
    """Yield the generated text in pieces.

    Args:
        ids: the tokens to continue; new tokens are appended.
        ends: end-of-text tokens; they are not shown.
    """
    text = tokenizer.decode(ids)
    printed = len(text)
    for _ in range(tokens):
        following = next_token(ids)
        if following in ends:
            break
        ids.append(following)
        text = tokenizer.decode(ids)
        if not text.endswith("\ufffd"):  # a character of several bytes may be incomplete
            yield text[printed:]
            printed = len(text)
    yield text[printed:]


def continue_text(
    next_logits: NextLogits,
    tokenizer: Tokenizer,
    prompt: str,
    tokens: int,
    sampling: Sampling,
    *,
    context: int,
    device: torch.device,
    ends: Collection[int] = (),
) -> Iterator[str]:
    """Yield the continuation of a prompt in pieces.

    Args:
        next_logits: the model; it gets at most the last `context` tokens.
        context: the maximum number of tokens that the model can read.
        ends: end-of-text tokens; they are not shown.

    Raises:
        Refused: the prompt is empty.
    """
    ids = tokenizer.encode(prompt)
    if not ids:
        raise Refused("The prompt must not be empty")
    yield from stream_text(
        make_sampler(next_logits, sampling, context=context, device=device),
        tokenizer,
        ids,
        tokens,
        ends,
    )
