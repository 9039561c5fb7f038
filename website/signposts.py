"""The drawing of the Transformer with signposts: at each part the days that are about it.

Two layers lie over the drawing of `website/drawing.py`. In round signs stand the days that build a part,
in square ones those after the paper, which change, train or inspect it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from course.curriculum import BY_NUMBER, LAST_DAY
from website.drawing import (
    ARROWS,
    BERT,
    BLOCKS,
    FONTS,
    FRAMES,
    GPT,
    HEIGHT,
    INSTEAD,
    LAYER,
    LOOKING_INTO,
    MODEL,
    POSITIONS,
    RESIDUALS,
    WIDTH,
    Box,
)

STRETCH = 1.6  # a block is high enough for its name with a row of signs below it
SIGN, PITCH = 24, 26  # the width of a sign, and from the middle of one to that of the next
NARROWEST = math.ceil(WIDTH * 24 / PITCH)  # signs are 24 px apart, as WCAG 2.2 (2.5.8) wants it
WHOLES = {*MODEL, *GPT, *BERT, *LAYER}  # their signs stand at what they build, not at all its parts

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1a1a1a",
    "line": "#767676",
    "block": "#f6f8fa",
    "built": "#0072b2",
    "later": "#ad4b00",
    "on-sign": "#ffffff",
}
DARK = {
    "paper": "#14181c",
    "ink": "#e8e8e8",
    "line": "#8b949e",
    "block": "#20272e",
    "built": "#56b4e9",
    "later": "#f0a030",
    "on-sign": "#101010",
}


@dataclass(frozen=True)
class Replacement:
    """What a day after the paper puts in place of parts of the drawing."""

    day: int
    parts: tuple[str, ...]
    idea: str


def replacements() -> list[Replacement]:
    """The days after the paper in their order, each with the parts at which its sign stands."""
    return [
        Replacement(day, tuple(dict.fromkeys(box.label for box in _standing_at(day))), idea)
        for day, idea in INSTEAD.items()
    ]


def signs(box: Box) -> tuple[int, ...]:
    """The days whose signs are at a part: a frame's are not repeated inside it."""
    elsewhere = {day for frame in FRAMES if _holds(frame, box) for day in frame.days} | WHOLES
    if not set(POSITIONS) <= set(box.days):
        elsewhere |= set(
            POSITIONS
        )  # T5 lights all of the model, and replaces how positions are told
    own = box.days if box in FRAMES else [day for day in box.days if day not in elsewhere]
    return tuple(sorted(own or box.days))


def linked_transformer(address: Callable[[int], str]) -> str:
    """The whole drawing for a page, each part and each sign a link to its day.

    It is an `<svg>` to be written into the page itself; as an image it would have no links. It is dark
    where the page says so (`data-theme="dark"` on one of its ancestors, as pydata, furo and marimo's
    pages have it) or, where that says nothing, where the reader's system does. It gets a little narrower
    with the page, never so narrow that a finger meets two signs at once: put it into an element with
    `overflow-x: auto` and `tabindex="0"`, in which a phone scrolls. `replacements()` has the table that
    belongs below it.

    Args:
        address: what to write into a link to a day, given its number.
    """
    return "\n".join(_svg(address)) + "\n"


def numbered_transformer() -> str:
    """The whole drawing with the days' numbers, for where no links can be: a picture of its own."""
    return "\n".join(_svg(None)) + "\n"


def _standing_at(day: int) -> list[Box]:
    return [box for box in FRAMES + BLOCKS if day in signs(box)]


def _holds(frame: Box, box: Box) -> bool:
    """Whether a part lies inside a frame."""
    return (
        frame != box
        and frame.x <= box.x
        and frame.y <= box.y
        and box.x + box.width <= frame.x + frame.width
        and box.y + box.height <= frame.y + frame.height
    )


def _svg(address: Callable[[int], str] | None) -> Iterator[str]:
    height = round(HEIGHT * STRETCH)
    fit = f"min-width:{NARROWEST}px;max-width:100%;height:auto"
    kind = (
        f'role="group" aria-label="The whole Transformer" style="{fit}"'
        if address
        else 'role="img"'
    )
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="signposts" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}" {kind} font-family="{FONTS}" '
        'font-size="12.5">'
    )
    if address is None:
        yield "<title>The whole Transformer, with the days that are about each part</title>"
    yield f"<style>{_style()}</style>"
    yield (
        '<defs><marker id="signposts-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    )
    yield f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>'
    yield '<text x="20" y="34" font-size="18" font-weight="bold">The whole Transformer</text>'
    for frame in FRAMES:
        yield _rectangle(frame, "frame")
    for path in LOOKING_INTO:
        yield f'<path class="look" d="{_stretched(path)}"/>'
    for path in RESIDUALS + ARROWS:
        yield f'<path class="arrow" d="{_stretched(path)}"/>'
    for box in FRAMES + BLOCKS:
        yield f'<g role="group" aria-label="{escape(box.label)}">'
        yield from _frame(box, address) if box in FRAMES else _block(box, address)
        yield "</g>"
    yield from _legend(address)
    yield "</svg>"


def _style() -> str:
    """Colors for light and dark: the page's word goes before the system's."""

    def colors(palette: dict[str, str]) -> str:
        return "{" + "".join(f"--{name}:{color};" for name, color in palette.items()) + "}"

    return (
        f".signposts{colors(LIGHT)}"
        f"@media(prefers-color-scheme:dark){{.signposts{colors(DARK)}}}"
        f'[data-theme="light"] .signposts{colors(LIGHT)}'
        f'[data-theme="dark"] .signposts{colors(DARK)}'
        ".signposts text{fill:var(--ink)}"
        ".signposts .paper{fill:var(--paper)}"
        ".signposts .frame{fill:none;stroke:var(--line)}"
        ".signposts .block{fill:var(--block);stroke:var(--line)}"
        ".signposts .arrow,.signposts .look{fill:none;stroke:var(--ink)}"
        ".signposts .arrow{marker-end:url(#signposts-tip)}"
        ".signposts .look{stroke:var(--line);stroke-dasharray:2 4}"
        ".signposts .tip{fill:var(--ink)}"
        ".signposts .built{fill:var(--built)}"
        ".signposts .later{fill:var(--later)}"
        ".signposts .sign text{fill:var(--on-sign);font-size:12px;font-weight:bold}"
        ".signposts a{text-decoration:none;outline:none}"
        ".signposts a:hover rect,.signposts a:focus-visible rect"
        "{stroke:var(--ink);stroke-width:2.5}"
    )


def _stretched(path: str) -> str:
    """A path, with all heights stretched: they come after a comma or a V."""
    return re.sub(r"(?<=[,V])\d+", lambda height: f"{int(height[0]) * STRETCH:g}", path)


def _rectangle(box: Box, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{box.x}" y="{box.y * STRETCH:g}" width="{box.width}" '
        f'height="{box.height * STRETCH:g}" rx="4"/>'
    )


def _frame(frame: Box, address: Callable[[int], str] | None) -> Iterator[str]:
    """Signs of the days that build it are on its upper edge, of those that replace it on the lower."""
    top, bottom = frame.y * STRETCH, (frame.y + frame.height) * STRETCH
    yield (
        f'<text x="{frame.x + 2}" y="{top - 6:g}" font-size="12" font-style="italic">'
        f"{escape(frame.label)}</text>"
    )
    built, later = _layers(signs(frame))
    yield from _row(built, frame.x + frame.width - 6 - PITCH * len(built), top, address)
    left = frame.x + frame.width / 2 - 3 * PITCH  # the arrow passes after the third
    yield from _row(later, left, bottom + 4, address)


def _block(block: Box, address: Callable[[int], str] | None) -> Iterator[str]:
    """Its name, and below it the signs: those that build it from the left, the later from the right."""
    top, middle = block.y * STRETCH, block.x + block.width / 2
    built, later = _layers(signs(block))
    body = (
        f'{_rectangle(block, "block")}<text x="{middle:g}" y="{top + 14.5:g}" '
        f'text-anchor="middle">{escape(block.label)}</text>'
    )
    # A large target for the mouse; by keyboard, the sign leads to the same day.
    yield (
        body
        if address is None
        else (
            f'<a href="{escape(address((built + later)[0]))}" tabindex="-1" aria-hidden="true">{body}</a>'
        )
    )
    row = top + 30.5
    yield from _row(built, block.x + 4, row, address)
    yield from _row(later, block.x + block.width - 2 - PITCH * len(later), row, address)


def _layers(days: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Days that build the paper's model, and days after it."""
    return [day for day in days if day not in INSTEAD], [day for day in days if day in INSTEAD]


def _row(
    days: list[int], left: float, middle: float, address: Callable[[int], str] | None
) -> Iterator[str]:
    for index, day in enumerate(days):
        yield _sign(day, left + index * PITCH, middle - SIGN / 2, address)


def _sign(day: int, x: float, y: float, address: Callable[[int], str] | None) -> str:
    kind, corner = ("later", 5) if day in INSTEAD else ("built", SIGN // 2)
    sign = (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{SIGN}" height="{SIGN}" rx="{corner}"/>'
        f'<text x="{x + SIGN / 2:g}" y="{y + SIGN / 2 + 4.2:g}" text-anchor="middle">{day}</text>'
    )
    if address is None:
        return f'<g class="sign">{sign}</g>'
    says = f"Day {day}, {BY_NUMBER[day].title}" + (f": {INSTEAD[day]}" if day in INSTEAD else "")
    return f'<a class="sign" href="{escape(address(day))}"><title>{escape(says)}</title>{sign}</a>'


def _legend(address: Callable[[int], str] | None) -> Iterator[str]:
    """What the signs mean, where the drawing is empty."""
    x, y = 20, 680
    for kind, corner, lines in (
        ("built", SIGN // 2, (f"days 1 to {min(INSTEAD) - 1}", "build this part")),
        ("later", 5, (f"days {min(INSTEAD)} to {LAST_DAY}", "change, train or inspect it")),
    ):
        yield (
            f'<rect class="{kind}" x="{x}" y="{y}" width="{SIGN}" height="{SIGN}" rx="{corner}"/>'
        )
        for index, line in enumerate(lines):
            yield f'<text x="{x + 34}" y="{y + 9 + 16 * index}">{line}</text>'
        y += 46
    if address is not None:
        yield f'<text x="{x}" y="{y + 10}">Each number leads to its day.</text>'
