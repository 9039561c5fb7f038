"""`course chat`: a conversation with a published model, in its chat template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from training.errors import Refused, TooLong
from training.generation.chat_templates import Message
from training.generation.generate import Sampling
from training.generation.text_generator import TextGenerator

PROMPT = "> "
HELP = (
    "/reset starts a new conversation, /temperature 0.7 changes the temperature, /exit or Ctrl-D "
    "ends. Ctrl-C stops a reply."
)


class ChatSession:
    """A conversation, and how its replies are sampled."""

    def __init__(
        self,
        speaker: TextGenerator,
        sampling: Sampling,
        tokens: int,
        console: Console,
        write: Callable[[str], None],
        system: str | None = None,
    ):
        """Start a conversation.

        Args:
            sampling: how replies are sampled; each reply has its own seed.
            tokens: the maximum number of tokens in a reply.
        """
        self._speaker, self._sampling, self._tokens = speaker, sampling, tokens
        self._console, self._write = console, write
        self._first: list[Message] = [{"role": "system", "content": system}] if system else []
        self._said: list[Message] = []

    def receive(self, line: str) -> bool:
        """Process a line, a command or a message; return False to end."""
        text = line.strip()
        command, _, argument = text.partition(" ")
        if command in ("/exit", "/quit"):
            return False
        if command == "/reset":
            self._said = []
            self._tell("A new conversation.")
        elif command == "/temperature":
            self._change(argument)
        elif text.startswith("/"):
            self._tell(HELP)
        elif text:
            self._reply(text)
        return True

    def _change(self, argument: str) -> None:
        try:
            self._sampling = replace(self._sampling, temperature=float(argument))
        except ValueError:
            self._tell(f"/temperature must be a number such as 0.7, got {argument!r}")
        except Refused as error:
            self._tell(str(error))

    def _reply(self, text: str) -> None:
        """Reply to a message, and record both, even if the reply was interrupted."""
        self._said.append({"role": "user", "content": text})
        parts: list[str] = []
        try:
            for piece in self._pieces():
                parts.append(piece)
                self._write(piece)
        except KeyboardInterrupt:
            self._write(" …")
        except Refused as error:
            self._said.pop()
            self._tell(str(error))
            return
        self._write("\n")
        self._said.append({"role": "assistant", "content": "".join(parts)})
        self._sampling = replace(self._sampling, seed=self._sampling.seed + 1)

    def _pieces(self) -> Iterator[str]:
        """Yield the reply to the latest message, dropping old messages while the conversation is too long."""
        dropped = False
        while True:
            try:
                pieces = self._speaker.reply(self._first + self._said, self._tokens, self._sampling)
                if dropped:
                    self._tell("The model's context is full: the oldest messages are dropped.")
                return pieces
            except TooLong:
                if len(self._said) < 3:  # only the latest message is left
                    raise
                del self._said[:2]
                dropped = True

    def _tell(self, words: str) -> None:
        self._console.print(Text(words, "quiet"), soft_wrap=True)


def converse(chat: ChatSession, ask: Callable[[], str]) -> None:
    """Read lines to the end of input.

    Args:
        ask: returns the next line; raises EOFError at the end.
    """
    while True:
        try:
            line = ask()
        except EOFError:
            return
        except KeyboardInterrupt:  # at the prompt there is no reply to interrupt
            chat.receive("/help")
            continue
        if not chat.receive(line):
            return
