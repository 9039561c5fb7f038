"""A published model that generates text with a learner's own parts, in a worker, token by token.

Each piece of a reply is a request to the worker, so a reply stops when no more requests follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.workers.worker import NotStarted, Worker, WorkerStopped
from training.errors import Refused, TooLong

if TYPE_CHECKING:
    from training.generation.chat_templates import Message
    from training.generation.generate import Sampling

LOADING = 300.0  # seconds of the CPU: a model of some billion weights
READING = 120.0  # the same, for a prompt, or a token without a cache
LEFT = "The process that runs your code has ended: begin again"


class Remote:
    """The worker's model, as a `TextGenerator` in this process."""

    def __init__(self) -> None:
        self._worker = Worker("cpu", "course.assembly.spoken")
        self._requests = 0

    def load(self, answers: Path, model: Path, report: Callable[[str], None]) -> None:
        """Load parts and weights.

        Raises:
            Refused: one of them cannot be loaded, or no part is used.
        """
        request = {"answers": str(answers.resolve()), "named": str(answers), "model": str(model)}
        for line in self._asked({"load": request}, LOADING)["lines"]:
            report(line)

    def generate(self, prompt: str, tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield pieces of the continuation of a text."""
        return self._begun({"prompt": prompt}, tokens, sampling)

    def reply(self, messages: Sequence[Message], tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield pieces of the reply in a conversation.

        Raises:
            TooLong: a shorter conversation may fit.
        """
        return self._begun({"messages": list(messages)}, tokens, sampling)

    def end(self) -> None:
        """End the worker."""
        self._worker.end()

    def _begun(self, what: dict[str, Any], tokens: int, sampling: Sampling) -> Iterator[str]:
        self._asked({"begin": what | {"tokens": tokens, "sampling": asdict(sampling)}}, READING)
        return self._pieces()

    def _pieces(self) -> Iterator[str]:
        while (piece := self._asked({"next": True}, READING).get("piece")) is not None:
            yield str(piece)

    def _asked(self, request: dict[str, Any], computing: float) -> dict[str, Any]:
        """What the worker answers.

        Raises:
            Refused: it cannot, or it has ended.
        """
        if self._worker.ended:
            raise Refused(LEFT)
        self._requests += 1
        try:
            self._worker.send(request | {"number": self._requests})
            while True:
                reply, _ = self._worker.receive(computing, 4 * computing)
                if reply.get("number") == self._requests:  # else that of a reply that was stopped
                    break
        except (WorkerStopped, NotStarted) as stop:
            raise Refused(str(stop)) from stop
        if "too_long" in reply:
            raise TooLong(str(reply["too_long"]))
        if "refused" in reply:
            raise Refused(str(reply["refused"]))
        return reply
