"""`course chat`: a conversation with a published model, in its own template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from training.errors import Refused, TooLong
from training.generation.chat_templates import Message
from training.generation.generate import Sampling
from training.generation.speaker import Speaker

PROMPT = "> "
HELP = (
    "/reset begins a new conversation, /temperature 0.7 changes how replies are drawn, /exit or Ctrl-D "
    "ends. Ctrl-C stops a reply."
)


class Chat:
    """A conversation: what was said, and how replies are drawn."""

    def __init__(
        self,
        speaker: Speaker,
        drawing: Sampling,
        tokens: int,
        console: Console,
        write: Callable[[str], None],
        system: str | None = None,
    ):
        """Begin one.

        Args:
            speaker: the model.
            drawing: how replies are drawn; each with a seed of its own.
            tokens: the most tokens of a reply.
            console: for what the program reports.
            write: prints pieces of a reply.
            system: what the model is told first.
        """
        self._speaker, self._drawing, self._tokens = speaker, drawing, tokens
        self._console, self._write = console, write
        self._first: list[Message] = [{"role": "system", "content": system}] if system else []
        self._said: list[Message] = []

    def hear(self, line: str) -> bool:
        """Take in a line: a command, or a message that is replied to. False where it was the last."""
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
            self._drawing = replace(self._drawing, temperature=float(argument))
        except ValueError:
            self._tell(f"/temperature takes a number, such as 0.7, and not {argument!r}")
        except Refused as error:
            self._tell(str(error))

    def _reply(self, text: str) -> None:
        """Reply to a message, and keep both; a reply that was stopped is kept as far as it came."""
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
        self._drawing = replace(self._drawing, seed=self._drawing.seed + 1)

    def _pieces(self) -> Iterator[str]:
        """The reply to the latest message. While the conversation is too long, its beginning is dropped."""
        dropped = False
        while True:
            try:
                found = self._speaker.reply(self._first + self._said, self._tokens, self._drawing)
                if dropped:
                    self._tell("The model's context is full: the oldest messages are dropped.")
                return found
            except TooLong:
                if len(self._said) < 3:  # the latest message alone
                    raise
                del self._said[:2]
                dropped = True

    def _tell(self, words: str) -> None:
        self._console.print(Text(words, "quiet"), soft_wrap=True)


def converse(chat: Chat, ask: Callable[[], str]) -> None:
    """Hear lines to the end of input.

    Args:
        chat: the conversation.
        ask: waits for a line; EOFError where there is no more.
    """
    while True:
        try:
            line = ask()
        except EOFError:
            return
        except KeyboardInterrupt:  # at the prompt, where there is no reply to stop
            chat.hear("/help")
            continue
        if not chat.hear(line):
            return
