"""A day's lesson, or a paper's note, as a page: its formulas need no network, and it follows light and dark.

It replaces the site if that has not been built.
"""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from course.curriculum import LAST_DAY, ROOT, Day
from explorer.formulas import formula
from explorer.topics import TOPICS

STYLE = Path(__file__).with_name("page.css")
UNTOLD = "No description has been provided for this image"  # nbconvert's words
LIGHT, DARK = (
    HtmlFormatter(style=style).get_style_defs(".lesson .highlight")
    for style in ("default", "github-dark")
)
# Few machines have a font for mathematics, without which brackets and roots do not grow.
FONT = (
    '@font-face { font-family: "Latin Modern Math"; src: url("../font/latinmodern-math.woff2"); } '
    'math { font-family: "Latin Modern Math", math; font-size: 1.15em; } '
    "@media (max-width: 600px) { math { font-size: 1em; } }"
)
CODE = f"{LIGHT} @media (prefers-color-scheme: dark) {{ {DARK} }}"


class Renderer(IPythonRenderer):
    """Markdown whose formulas are MathML, and whose wide parts scroll by themselves."""

    def inline_math(self, body: str) -> str:
        return formula(body)

    def block_math(self, body: str) -> str:
        return f'<div class="scroll" tabindex="0">{formula(body, "block")}</div>'

    def table(self, text: str) -> str:
        return f'<div class="scroll" tabindex="0"><table>{text}</table></div>'


class Exporter(HTMLExporter):
    """A notebook's cells and outputs, without the scripts that nbconvert's own page loads."""

    def __init__(self) -> None:
        super().__init__(template_name="basic")

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return from_markdown(source)


def from_markdown(source: str) -> str:
    """HTML of a text in Markdown."""
    renderer = Renderer(escape=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer=renderer).render(source)


@functools.cache
def lesson(day: Day) -> str:
    """The page of a day's lesson, as it was executed."""
    body, _ = Exporter().from_filename(str(day.lesson))
    body = body.replace(UNTOLD, "Figure, described in the text beside it")
    pages = "".join(
        f' · <a href="../{topic.name}/">{escape(topic.title)}</a>'
        for topic in TOPICS
        if day.number in topic.days
    )
    before = f' · <a href="{day.number - 1}">← Day {day.number - 1}</a>' if day.number > 1 else ""
    after = (
        f' · <a href="{day.number + 1}">Day {day.number + 1} →</a>' if day.number < LAST_DAY else ""
    )
    return _page(f"Day {day.number} · {day.title}", f"{before}{after}{pages}", str(body))


@functools.cache
def note(name: str) -> str | None:
    """The page of a paper's note; None if there is no such note."""
    path = ROOT / "paper_notes" / name
    if path not in ROOT.glob("paper_notes/*.md"):
        return None
    text = path.read_text(encoding="utf-8")
    return _page(text.partition("\n")[0].removeprefix("# "), "", from_markdown(text))


def _page(title: str, links: str, body: str) -> str:
    scrolls = body.replace("<pre>", '<pre tabindex="0">')  # by the keyboard as well
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        '<link rel="icon" href="../favicon.svg">'
        f"<style>{STYLE.read_text(encoding='utf-8')}{CODE}{FONT}</style></head>"
        f'<body class="contents lesson"><main><nav><a href="../">All pages</a>{links}</nav>'
        f"{scrolls}</main></body></html>"
    )
