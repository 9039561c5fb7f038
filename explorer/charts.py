"""What pages draw, as HTML and SVG that follow the page's colors: bars, a table of cells, curves.

Written as text, since a page is drawn again at every move of a slider, and as tables and labeled graphics,
since not everybody sees them. A library that draws takes some 0.1 s a picture on two cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from statistics import fmean

Rows = Sequence[Sequence[float]]


def number(value: float, digits: int = 3) -> str:
    """A number for people: short, too, where a wrong answer gave one of many digits."""
    return (f"{value:z.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}").replace("-", "−")


def tick(value: float) -> str:
    """A number at an axis."""
    return f"{value:z.3g}".replace("-", "−")


def bars(labels: Sequence[str], values: Sequence[float], caption: str, digits: int = 3) -> str:
    """Shares from 0 to 1 as horizontal bars, each beside its number, in the colors of `curves`."""
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        f'<td class="bar"><span class="hue-{index % HUES}" '
        f'style="width:{100 * min(max(value, 0), 1):.2f}%"></span></td>'
        f'<td class="number">{number(value, digits)}</td></tr>'
        for index, (label, value) in enumerate(zip(labels, values, strict=True))
    )
    return f'<table class="bars"><caption>{escape(caption)}</caption><tbody>{rows}</tbody></table>'


def cells(
    values: Rows,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    digits: int = 2,
    marked: int | None = None,
    most: float | None = None,
) -> str:
    """Numbers as a table of cells, the darker the larger; of signed numbers, one color for each sign.

    Args:
        values: a row for each of `rows`, a number for each of `columns`.
        rows: names of the rows.
        columns: names of the columns.
        caption: what is seen.
        digits: after the point; an exact 0 is a dot, so that it is told from a small number. An infinite
            number has no color.
        marked: the index of a row that is framed.
        most: the number that is darkest; the largest there is if left out.
    """
    finite = [abs(value) for row in values for value in row if math.isfinite(value)]
    most = most or max(finite, default=0) or 1
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr class="{"marked" if index == marked else ""}">'
        f'<th scope="row">{escape(name)}</th>{numbers(row, most, digits)}</tr>'
        for index, (name, row) in enumerate(zip(rows, values, strict=True))
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="cells"><caption>{escape(caption)}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def numbers(row: Sequence[float], most: float, digits: int) -> str:
    """Numbers as cells of a table's row, the darker the larger up to `most`."""
    return "".join(_cell(value, most, digits) for value in row)


def _cell(value: float, most: float, digits: int) -> str:
    if math.isinf(value):
        return f"<td>{'−' if value < 0 else ''}∞</td>"
    if not value:
        return "<td>·</td>"
    share = 100 * min(abs(value) / most, 1)
    sign = "minus" if value < 0 else "plus"
    return f'<td class="{sign}" style="--share:{share:.0f}%">{number(value, digits)}</td>'


HUES = 6  # of lines, in page.css
WIDTH, HEIGHT, LEFT, RIGHT, BELOW, ABOVE = 560, 270, 46, 90, 38, 24


def curves(
    x: Sequence[float],
    lines: dict[str, Sequence[float]],
    x_label: str,
    y_label: str,
    at: float | None = None,
    transform: Callable[[float], float] = float,
) -> str:
    """Lines over a common axis, each named at its end, with a mark at a place.

    More lines than there are hues are shades of one, in their order.

    Args:
        x: where they are known.
        lines: their heights there, by their names.
        x_label: what is to the right.
        y_label: what is upwards.
        at: where the mark stands.
        transform: what is laid off in equal steps, such as `math.log`.
    """
    flat = [height for line in lines.values() for height in line]
    low, high = min(*flat, 0.0), max(flat)
    start, end = transform(x[0]), transform(x[-1])

    def across(value: float) -> float:
        return LEFT + (transform(value) - start) / ((end - start) or 1) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return ABOVE + (high - value) / ((high - low) or 1) * (HEIGHT - ABOVE - BELOW)

    shapes = []
    tips = [up(line[-1]) for line in lines.values()]
    ends = _apart([tip + 4 for tip in tips])
    # A name that had to move is tied to the end of its line.
    far = any(abs(name_at - tip - 4) > 2 for name_at, tip in zip(ends, tips, strict=True))
    name_x = across(x[-1]) + (20 if far else 5)
    for index, ((name, line), end_at) in enumerate(zip(lines.items(), ends, strict=True)):
        points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, line, strict=True))
        hue = f'hue-{index}"'
        if len(lines) > HUES:
            hue = f'ramp" style="--share:{100 * index / (len(lines) - 1):.0f}%"'
        shapes.append(f'<polyline class="line {hue} points="{points}"/>')
        if far:
            shapes.append(
                f'<path class="leader {hue} d="M{across(x[-1]) + 3:.1f},{tips[index]:.1f}'
                f'L{name_x - 3:.1f},{end_at - 4:.1f}"/>'
            )
        shapes.append(
            f'<text class="name {hue} x="{name_x:.1f}" y="{end_at:.1f}">{escape(name)}</text>'
        )
    floor = HEIGHT - BELOW
    ticks = [(x[0], "start"), (x[len(x) // 2], "middle"), (x[-1], "end")]
    shapes += [
        f'<text x="{across(value):.1f}" y="{floor + 16}" text-anchor="{anchor}">{tick(value)}</text>'
        for value, anchor in ticks
    ]
    shapes += [
        f'<text x="{LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{tick(value)}</text>'
        for value in (low, high)
    ]
    if at is not None:
        shapes.append(
            f'<line class="mark" x1="{across(at):.1f}" x2="{across(at):.1f}" y1="{ABOVE}" y2="{floor}"/>'
        )
    says = f"{y_label} against {x_label}: {', '.join(lines)}"
    return (
        f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(says)}">'
        f'<path class="axis" d="M{LEFT},{ABOVE} V{floor} H{WIDTH - RIGHT}"/>{"".join(shapes)}'
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 5}" text-anchor="middle">{escape(x_label)}'
        f'</text><text x="{LEFT - 6}" y="{ABOVE - 10}">{escape(y_label)}</text></svg>'
    )


def _apart(heights: Sequence[float], least: float = 16) -> list[float]:
    """The heights, moved as little as keeps names from touching each other and inside the picture."""
    last, floor = len(heights) - 1, HEIGHT - BELOW
    least = min(least, (floor - ABOVE) / max(last, 1))
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    groups: list[list[float]] = []  # names that touch: each group is centered on its lines' ends
    for rank, index in enumerate(order):
        groups.append([heights[index] - rank * least])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    starts = [fmean(group) for group in groups for _ in group]
    placed = {
        index: min(max(start, ABOVE), floor - last * least) + rank * least
        for rank, (index, start) in enumerate(zip(order, starts, strict=True))
    }
    return [placed[index] for index in range(len(heights))]


def facts(values: dict[str, str]) -> str:
    """Some numbers, each under its name."""
    rows = "".join(
        f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in values.items()
    )
    return f'<dl class="facts">{rows}</dl>'


def beside(*parts: str) -> str:
    """Parts next to each other where there is room, below each other on a phone."""
    return f'<div class="beside">{"".join(f"<div>{part}</div>" for part in parts)}</div>'
