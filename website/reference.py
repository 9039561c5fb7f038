"""The reference's pages: docstrings that were written to be read as they stand, and long signatures."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

SECTION = re.compile(r"(Args|Returns|Raises|Yields|Attributes):\s*$")
PARAMETERS = re.compile(r'<dl>\n(<dd><em class="sig-param">.*?)</dl>', re.DOTALL)
CODE = re.compile(r"(`[^`]+`)(?=(\w?))")


def as_rst(docstring: str) -> str:
    """The same in reStructuredText: what is indented is set as it stands, what is in backticks is code.

    Sections such as `Args:` stay as they are, for napoleon.
    """
    lines: list[str] = []
    heading = ""  # the last line that was not indented
    literal = False
    for line in _marked_up(docstring).splitlines():
        indented = line.startswith("    ")
        if indented and not literal and not SECTION.match(heading):
            lines += ["", ".. code-block:: text", ""]
            literal = True
        elif line and not indented:
            if literal:
                lines.append("")
            heading, literal = line, False
        lines.append(_plain(line) if literal else line)
    return "\n".join(lines)


def _marked_up(text: str) -> str:
    """Code in double backticks, apart from a letter that follows; and bars, which mean nothing else here."""
    pieces = CODE.split(text)  # text, code, the letter after it, text, …
    for index in range(0, len(pieces), 3):
        pieces[index] = pieces[index].replace("|", r"\|")
    for index in range(1, len(pieces), 3):
        code, letter = pieces[index : index + 2]
        pieces[index : index + 2] = f"`{code}`", "\\ " if letter else ""
    return "".join(pieces)


def _plain(line: str) -> str:
    """A literal block has no markup."""
    return line.replace("``", "`").replace("\\ ", "").replace(r"\|", "|")


def without_lists(body: str) -> str:
    """A page whose parameters, a line each, are no list without terms, which screen readers stumble over."""

    def lines(match: re.Match[str]) -> str:
        spans = match[1].replace("<dd>", "<span>").replace("</dd>", "</span>")
        return f'<span class="parameters">{spans}</span>'

    return PARAMETERS.sub(lines, body)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls; docstrings before napoleon has them, which reads their sections."""

    def docstring(_app, _what, _name, _object, _options, lines: list[str]) -> None:
        lines[:] = [*as_rst("\n".join(lines)).splitlines(), ""]

    def page(_app, _name, _template, context: dict, _tree) -> None:
        if "body" in context:
            context["body"] = without_lists(context["body"])

    app.connect("autodoc-process-docstring", docstring, priority=100)
    app.connect("html-page-context", page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
