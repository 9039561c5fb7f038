"""Pictures that move, for lessons: a figure of matplotlib as an SVG that plays and then stands still.

A picture plays twice and rests at its last frame, which must make sense by itself: it is what paper shows,
and who has asked their system for less motion. It needs no script, so any page can show it.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from website.drawing import Diagram

TIMES = 2  # one to see that it moves, one to follow; what never stops takes the eye from the text


def moving(
    figure: Figure, frames: Sequence[Sequence[Artist]], seconds: float, says: str
) -> Diagram:
    """A figure in which some artists show in some frames only; all others show in every frame.

    Args:
        figure: closed by this, so that a notebook does not show it once more.
        frames: for each frame the artists that show in it, as for matplotlib's `ArtistAnimation`.
        seconds: how long each frame shows.
        says: what is to be seen, for whoever cannot see it.

    Raises:
        ValueError: there are fewer than two frames.
    """
    if len(frames) < 2:
        raise ValueError(f"a picture moves with two frames or more, not with {len(frames)}")
    turns: dict[Artist, list[int]] = defaultdict(list)
    for number, artists in enumerate(frames):
        for artist in artists:
            turns[artist].append(number)
    kinds = sorted(set(map(tuple, turns.values())))
    for artist, turn in turns.items():
        artist.set_gid(f"kind-{kinds.index(tuple(turn))}")
    svg = _still(figure)
    plt.close(figure)
    # Names of its own: what an SVG's style says holds for all pictures of a page.
    name = f"moving-{hashlib.sha256(svg.encode()).hexdigest()[:8]}"
    svg = re.sub(r'id="kind-(\d+)"', rf'class="{name}-\1"', svg)
    style = "".join(_style(name, kinds, len(frames), seconds))
    head, body = svg.split(">", 1)
    says = f"In motion: {says}"
    return Diagram(
        f'{head} role="img" aria-label="{escape(says)}">\n<style>{style}</style>{body}', says
    )


def _still(figure: Figure) -> str:
    """The figure with all its frames at once, the same bytes each time, its letters as letters."""
    file = io.StringIO()
    with plt.rc_context({"svg.hashsalt": "moving", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="(?!kind-)[^"]*"', "<g", svg)  # figure_1 would be in every picture
    return re.sub(r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{3,}", _shorter, tag[0]), svg)


def _shorter(number: re.Match[str]) -> str:
    """A place to a hundredth of a point: on another processor the millionths may be others."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _style(name: str, kinds: list[tuple[int, ...]], count: int, seconds: float) -> Iterator[str]:
    """Artists of one kind show in the same frames; at rest those of the last frame do."""
    for number, turn in enumerate(kinds):
        own = f"{name}-{number}"
        visibility = ["visible" if frame in turn else "hidden" for frame in range(count)]
        stops = (
            f"{100 * n / count:.4g}%{{visibility:{value}}}" for n, value in enumerate(visibility)
        )
        plays = f"{own} {count * seconds:g}s step-end {TIMES}"
        yield f".{own}{{visibility:{visibility[-1]};animation:{plays}}}\n"
        yield f"@keyframes {own}{{{''.join(stops)}}}\n"
    rest = f'[class^="{name}"]{{animation:none}}'
    yield f"@media print{{{rest}}}\n@media(prefers-reduced-motion:reduce){{{rest}}}\n"
