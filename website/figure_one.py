"""Figure 1 of Vaswani et al. 2017, with the classes of days 9 to 14 and the shapes of their tensors."""

from __future__ import annotations

from collections.abc import Iterator

from website.drawing import FONTS, INK, LIT, QUIET, TINT, Diagram

WIDTH, HEIGHT = 960, 624
BOX_WIDTH, BOX_HEIGHT = 264, 36
MIDDLE = BOX_WIDTH // 2
ENCODER, DECODER = 172, 530  # where the columns begin
SAYS = (
    "Figure 1 of the paper in classes. Left, from below: source ids (B, S); Embeddings and "
    "PositionalEncoding make (B, S, d_model); n encoder layers of MultiHeadedAttention and "
    "PositionwiseFeedForward, each followed by SublayerConnection, make the memory (B, S, d_model). "
    "Right, from below: target ids (B, T); Embeddings and PositionalEncoding make (B, T, d_model); n "
    "decoder layers, with a second MultiHeadedAttention that attends to the memory, make states "
    "(B, T, d_model); Generator makes log-probabilities (B, T, V)."
)

# Each column from the bottom up: the class, its day, and the top of its box.
EMBEDDING = [("Embeddings", 10, 534), ("PositionalEncoding", 10, 484)]
ENCODER_LAYER = [
    ("MultiHeadedAttention", 9, 386),
    ("SublayerConnection", 11, 336),
    ("PositionwiseFeedForward", 10, 276),
    ("SublayerConnection", 11, 226),
]
DECODER_LAYER = [
    ("MultiHeadedAttention", 9, 386),
    ("SublayerConnection", 11, 336),
    ("MultiHeadedAttention", 9, 281),
    ("SublayerConnection", 11, 231),
    ("PositionwiseFeedForward", 10, 176),
    ("SublayerConnection", 11, 126),
]


def figure_one() -> Diagram:
    """The whole model in classes; today's are highlighted."""
    return Diagram("\n".join(_svg()) + "\n", SAYS)


def _svg() -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="{FONTS}" font-size="15">'
    )
    yield f"<title>{SAYS}</title>"
    yield (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="white"/>'
    yield from _frame(12, 34, WIDTH - 24, 556, is_lit=True)
    yield from _names(26, 56, "EncoderDecoder,", "built by make_model", is_bold=True)
    for left, margin, height, which in (
        (ENCODER, 26, 230, "encoder"),
        (DECODER, 824, 330, "decoder"),
    ):
        layer, day = f"{which.capitalize()}Layer", 12 if which == "encoder" else 13
        yield from _frame(left - 30, 440 - height, BOX_WIDTH + 44, height)
        yield from _frame(left - 30, 474, BOX_WIDTH + 44, 104)
        yield from _names(margin, 310, which, "n ×", layer, f"day {day}")
        yield from _names(margin, 531, "src_embed" if which == "encoder" else "tgt_embed")
    for left, boxes in ((ENCODER, EMBEDDING + ENCODER_LAYER), (DECODER, EMBEDDING + DECODER_LAYER)):
        for index, (name, day, top) in enumerate(boxes):
            yield from _box(left, top, name, f"day {day}")
            if index:
                below = boxes[index - 1][2]
                yield from _arrow(f"M{left + MIDDLE},{below} V{top + BOX_HEIGHT}")
            if name == "SublayerConnection":  # what goes past the sublayer
                y = below + BOX_HEIGHT + 10
                yield from _arrow(f"M{left + MIDDLE},{y} H{left - 16} V{top + 18} H{left}")
        yield from _arrow(f"M{left + MIDDLE},614 V570")
    yield from _box(DECODER, 54, "Generator", "today", is_lit=True)
    yield from _arrow(f"M{DECODER + MIDDLE},126 V90")
    yield from _arrow(f"M{DECODER + MIDDLE},54 V14")
    yield from _arrow(f"M{ENCODER + MIDDLE},226 V182 H476 V299 H{DECODER}")
    for left, y, text in (
        (ENCODER - 40, 174, "memory (B, S, d_model)"),
        (ENCODER, 607, "source ids (B, S)"),
        (ENCODER, 462, "(B, S, d_model)"),
        (DECODER, 607, "target ids (B, T)"),
        (DECODER, 462, "(B, T, d_model)"),
        (DECODER, 104, "states (B, T, d_model)"),
        (DECODER, 27, "log-probabilities (B, T, V)"),
    ):
        yield (
            f'<text x="{left + MIDDLE + 8}" y="{y}" fill="{LIT}" font-weight="bold">{text}</text>'
        )
    yield "</svg>"


def _box(left: int, top: int, name: str, day: str, *, is_lit: bool = False) -> Iterator[str]:
    fill, ink, quiet = (LIT, "white", "white") if is_lit else ("white", INK, "#5a5a5a")
    yield (
        f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" fill="{fill}" '
        f'stroke="{INK}"/>'
        f'<text x="{left + 10}" y="{top + 23}" fill="{ink}">{name}</text>'
        f'<text x="{left + BOX_WIDTH - 10}" y="{top + 23}" text-anchor="end" font-size="12.5" '
        f'fill="{quiet}">{day}</text>'
    )


def _frame(x: int, y: int, width: int, height: int, *, is_lit: bool = False) -> Iterator[str]:
    fill, stroke, weight = (TINT, LIT, 2.5) if is_lit else ("white", QUIET, 1)
    yield (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="{weight}"/>'
    )


def _names(x: int, y: int, *lines: str, is_bold: bool = False) -> Iterator[str]:
    weight = ' font-weight="bold"' if is_bold else ""
    for number, line in enumerate(lines):
        yield f'<text x="{x}" y="{y + 18 * number}"{weight} fill="{INK}">{line}</text>'


def _arrow(path: str) -> Iterator[str]:
    yield f'<path d="{path}" fill="none" stroke="{INK}" marker-end="url(#end)"/>'
