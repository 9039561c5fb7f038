"""Markdown for narrow terminals: prose is wrapped, and a line of code stays on one line."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.segment import Segment
from rich.syntax import Syntax

INDENT = 2


class _Code(CodeBlock):
    """Code with its own line breaks. A long line wraps in the terminal, and is copied as one line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax("", self.lexer_name, theme=self.theme, background_color="default")
        lines = code.highlight(str(self.text).rstrip())
        lines.rstrip()
        lines.no_wrap, lines.overflow = True, "ignore"
        yield lines


class _Markdown(Markdown):
    elements = Markdown.elements | {"fence": _Code, "code_block": _Code}


@dataclass(frozen=True)
class Prose:
    """An indented Markdown text; print it with `crop=False`."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update(width=options.max_width - INDENT)
        for line in Segment.split_lines(console.render(_Markdown(self.text), narrower)):
            yield from (Segment(" " * INDENT), *line, Segment.line())
        yield Segment.line()
