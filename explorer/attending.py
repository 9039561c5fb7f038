"""What heads attend to, drawn: lines from each query to its keys, and a small map of each head."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from training.inference.trained_model import AttentionMap

FAINTEST = 0.01  # weight that is drawn
MAX_NAMED_TOKENS = 3  # tokens looked at that a row names in words
MAX_NAME_LENGTH = 18  # letters of a name

ROW, HALF, GAP, ABOVE, APART = 22, 134, 80, 20, 3  # of the lines: APART is between two heads'
CELL, BETWEEN, TITLE, LETTER = 10, 12, 18, 6.2  # of the maps: LETTER is what one of a name needs


def lines(attention: AttentionMap, heads: Sequence[int]) -> str:
    """Tokens that look on the left, those looked at on the right, the lines the denser the larger the weight.

    A row that has the pointer or the focus is shown alone, with its numbers.

    Args:
        attention: weights `(h, rows, columns)` and their names.
        heads: those that are drawn, counted from 1, a color each.
    """
    height = ABOVE + ROW * max(len(attention.rows), len(attention.columns))
    width = 2 * HALF + GAP
    shapes = "".join(_row(attention, row, heads) for row in range(len(attention.rows)))
    names = "".join(
        f'<text x="{HALF + GAP + 6}" y="{_up(column) + 4}">{_short(name)}</text>'
        for column, name in enumerate(attention.columns)
    )
    return (
        f'<svg class="lines" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="What each token attends to">'
        f'<text class="quiet" x="{HALF - 6}" y="12" text-anchor="end">query</text>'
        f'<text class="quiet" x="{HALF + GAP + 6}" y="12">key</text>{names}{shapes}</svg>'
    )


def _row(attention: AttentionMap, row: int, heads: Sequence[int]) -> str:
    name = _short(attention.rows[row])
    chosen = attention.weights[[head - 1 for head in heads], row]  # (heads, columns)
    mean = chosen.mean(dim=0).tolist()
    largest = sorted(range(len(mean)), key=lambda column: -mean[column])[:MAX_NAMED_TOKENS]
    says = ", ".join(f"{attention.columns[column]} {mean[column]:.2f}" for column in largest)
    paths = "".join(
        _line(row, column, weight, index - (len(heads) - 1) / 2, head)
        for index, (head, weights) in enumerate(zip(heads, chosen.tolist(), strict=True))
        for column, weight in enumerate(weights)
        if weight >= FAINTEST
    )
    labels = "".join(
        f'<text class="told" x="{2 * HALF + GAP}" y="{_up(column) + 4}" text-anchor="end">{weight:.2f}</text>'
        for column, weight in enumerate(mean)
        if weight >= FAINTEST
    )
    return (
        f'<g class="looks" tabindex="0" role="img" '
        f'aria-label="{escape(attention.rows[row])} attends to {escape(says)}">'
        f'<rect x="1" y="{_up(row) - ROW / 2:g}" width="{HALF - 1}" height="{ROW}"/>'
        f'<text x="{HALF - 6}" y="{_up(row) + 4}" text-anchor="end">{name}</text>{paths}{labels}</g>'
    )


def _line(row: int, column: int, weight: float, offset: float, head: int) -> str:
    start, end = _up(row) + APART * offset, _up(column) + APART * offset
    middle = HALF + GAP / 2
    return (
        f'<path class="hue-{head - 1}" opacity="{weight:.2f}" '
        f'd="M{HALF},{start:g} C{middle:g},{start:g} {middle:g},{end:g} {HALF + GAP},{end:g}"/>'
    )


def _up(position: int) -> int:
    return ABOVE + ROW * position + ROW // 2


def maps(attention: AttentionMap, marked: Collection[int], silent: Collection[int]) -> str:
    """Every head's weights as a square of cells, two squares a row, the darker the larger.

    Args:
        attention: weights `(h, rows, columns)` and their names.
        marked: heads that are framed, counted from 1.
        silent: those that are switched off.
    """
    heads = attention.weights.size(0)
    left, above = _room(attention.rows), _room(attention.columns)
    across = CELL * len(attention.columns) + BETWEEN
    down = TITLE + CELL * len(attention.rows) + BETWEEN
    width, height = left + 2 * across, above + (heads + 1) // 2 * down
    shapes = "".join(
        f'<g transform="translate({left + index % 2 * across:g},{above + TITLE + index // 2 * down:g})">'
        f"{_rows(attention) if index % 2 == 0 else ''}{_columns(attention) if index < 2 else ''}"
        f"{_map(attention, index + 1, index + 1 in marked, index + 1 in silent)}</g>"
        for index in range(heads)
    )
    return (
        f'<svg class="maps" viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="The weights of each head: rows are queries, columns are keys">{shapes}</svg>'
    )


def _room(names: Sequence[str]) -> float:
    """How much the longest name needs."""
    return 6 + LETTER * max(len(_cut(name)) for name in names)


def _rows(attention: AttentionMap) -> str:
    return "".join(
        f'<text class="name" x="-4" y="{CELL * row + 8}" text-anchor="end">{_short(name)}</text>'
        for row, name in list(enumerate(attention.rows))[::2]  # all would run into each other
    )


def _columns(attention: AttentionMap) -> str:
    return "".join(
        f'<text class="name" transform="translate({CELL * column + 8},{-TITLE}) rotate(-90)">'
        f"{_short(name)}</text>"
        for column, name in enumerate(attention.columns)
    )


def _map(attention: AttentionMap, head: int, is_marked: bool, is_silent: bool) -> str:
    filled = "".join(
        f'<rect x="{CELL * column}" y="{CELL * row}" width="{CELL}" height="{CELL}" '
        f'opacity="{weight:.2f}"/>'
        for row, weights in enumerate(attention.weights[head - 1].tolist())
        for column, weight in enumerate(weights)
        if weight >= FAINTEST
    )
    kind = "silent" if is_silent else ""
    frame = "marked frame" if is_marked else "frame"
    return (
        f'<g class="{kind}"><text y="-5">head {head}{", off" if is_silent else ""}</text>{filled}'
        f'<rect class="{frame}" width="{CELL * len(attention.columns)}" '
        f'height="{CELL * len(attention.rows)}"/></g>'
    )


def _short(name: str) -> str:
    return escape(_cut(name))


def _cut(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"
