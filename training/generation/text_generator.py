"""The interface of a model that generates text: a published model, or a learner's parts in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from training.generation.chat_templates import Message
from training.generation.generate import Sampling


class TextGenerator(Protocol):
    """A model that generates text."""

    def generate(self, prompt: str, tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the continuation of a text in pieces."""

    def reply(self, messages: Sequence[Message], tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the reply in a conversation in pieces.

        Raises:
            TooLong: the conversation exceeds the model's context.
        """
