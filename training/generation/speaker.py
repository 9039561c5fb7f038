"""What speaks: a published model here, or one that a learner's parts compute elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from training.generation.chat_templates import Message
from training.generation.generate import Sampling


class Speaker(Protocol):
    """A model that is asked for text."""

    def generate(self, prompt: str, tokens: int, drawing: Sampling) -> Iterator[str]:
        """Pieces of what follows a text."""

    def reply(self, messages: Sequence[Message], tokens: int, drawing: Sampling) -> Iterator[str]:
        """Pieces of the reply in a conversation.

        Raises:
            TooLong: a shorter conversation may fit.
        """
