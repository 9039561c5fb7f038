"""The whole Transformer as one drawing, from source text to translation, with a day's parts lit.

Drawn after figure 1 of Vaswani et al. 2017, with what surrounds the model: text and batches below it, one
head looked into at its left, training and decoding at its right. In a notebook: `transformer(day=13)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from course.curriculum import BY_NUMBER

WIDTH, HEIGHT = 860, 560
SMALL, LARGE = 620, 860  # widths on the screen
LARGE_DAYS = (12, 13, 14)  # the days that put the whole together

INK, QUIET, LIT, TINT = "#1a1a1a", "#8a8a8a", "#0072b2", "#d6e9f5"
FONTS = "Helvetica, Arial, 'DejaVu Sans', sans-serif"

MODEL = (14, 18, 22)  # the days whose subject is the model from end to end
GPT, BERT = (23, 32, 40), (26,)  # those whose subject is one of its halves
POSITIONS = (27, 29, 30)  # those that know positions by other means
LAYER = (36, 37)  # those that build another layer of a decoder alone

INSTEAD = {
    23: "the decoder alone, pre-norm, with learned positions",
    24: "the next token sampled, not the most likely one taken",
    25: "keys and values of earlier tokens cached, not computed again",
    26: "the encoder alone, which predicts masked tokens",
    27: "nothing added to the embeddings; a learned bias for each distance",
    28: "different norms and activations, and a gate",
    29: "nothing added to the embeddings; queries and keys rotated",
    30: "nothing added to the embeddings; scores lowered with distance",
    31: "several query heads share one key/value head",
    32: "the decoder alone, with the parts of days 28, 29 and 31",
    33: "the same outputs, tile by tile, by an online softmax",
    34: "a product of feature maps, or a sliding window of keys",
    35: "a few of many feed-forward networks, chosen for each token",
    36: "both sublayers at once; or some tokens skip a layer",
    37: "a selective state space in place of attention",
    38: "activations recomputed, half precision, loss scaling",
    39: "gradients averaged around a ring, parameters sharded",
    40: "the decoder alone, its weights in int8",
    41: "decoupled weight decay; steps of matrices orthogonalized",
    42: "a small model proposes tokens; one pass checks all of them",
    43: "keys and values from one small latent per token",
    44: "a state whose keys are overwritten, in place of the scores",
    45: "conversations, with a loss on the answers alone",
    46: "frozen matrices, with low-rank updates beside them",
    47: "two answers to each prompt, and a loss on their difference",
    48: "answers that the model samples, and a reward in place of labels",
    49: "many texts with their steps are sampled; a vote picks the answer",
    50: "hooks that read what the parts compute, and replace it",
}
"""What the days after the paper put in place of the parts that are lit."""


@dataclass(frozen=True)
class Box:
    """A part of the drawing: its label, its rectangle, and the days that are about it."""

    label: str
    x: int
    y: int
    width: int
    height: int
    days: tuple[int, ...]


def _block(label: str, x: int, y: int, *days: int) -> Box:
    """A part in a column: all are equally wide and high."""
    return Box(label, x, y, 160, 28, days)


HEAD, ENCODER, DECODER, AROUND = 44, 272, 472, 680  # where the columns begin

FRAMES = (
    Box("multi-head attention", 20, 66, 208, 318, (4, 9, 31, 43)),
    Box("each head", 32, 122, 184, 206, (2, 7, 8, 33, 34, 44)),
    Box("encoder × N", 260, 166, 184, 178, (6, 12, 14, 26)),
    Box("decoder × N", 460, 86, 184, 258, (13, 14, 23, 32, 36, 37, 40, 50)),
    Box("training loop", 672, 196, 176, 148, (18, 38, 39)),
    Box("decoding", 672, 46, 176, 92, (19, 20, 24, 25, 42, 49)),
)
BLOCKS = (
    # one head
    _block("concatenate, project", HEAD, 76, 4, 9, 46),
    _block("weights · values", HEAD, 138, 2, 7, 8, 25, 33, 34, 44, 50),
    _block("softmax", HEAD, 184, 1, 2, 7, 8, 33, 34, 44),
    _block("mask", HEAD, 230, 2, 3, 8, 33, 34, 44),
    _block("scores: q · k / √d_k", HEAD, 276, 2, 7, 8, 25, 27, 29, 30, 33, 34, 44),
    _block("project and split", HEAD, 344, 4, 9, 31, 43, 46),
    # the encoder
    _block("add & norm", ENCODER, 180, 6, 11, 12, *MODEL, *BERT, 27, 28),
    _block("feed-forward", ENCODER, 218, 6, 10, 12, *MODEL, *BERT, 27, 28, 35),
    _block("add & norm", ENCODER, 262, 6, 11, 12, *MODEL, *BERT, 27, 28),
    _block("self-attention", ENCODER, 300, 4, 6, 9, 12, *MODEL, *BERT, 27),
    # the decoder
    _block("add & norm", DECODER, 100, 11, 13, *MODEL, *GPT, 27, 28, *LAYER),
    _block("feed-forward", DECODER, 138, 10, 13, *MODEL, *GPT, 27, 28, *LAYER, 35, 46),
    _block("add & norm", DECODER, 182, 11, 13, *MODEL, 27, 28),
    _block("cross-attention", DECODER, 220, 4, 9, 13, *MODEL, 27),
    _block("add & norm", DECODER, 262, 11, 13, *MODEL, *GPT, 27, 28, *LAYER),
    _block("masked self-attention", DECODER, 300, 3, 4, 9, 13, *MODEL, *GPT, 25, 27, *LAYER),
    _block("linear, log-softmax", DECODER, 40, 1, *MODEL, *GPT, 24, 27, 42, 49, 50),
    # below both
    _block("+ positional encoding", ENCODER, 362, 5, 10, *MODEL, *BERT, *POSITIONS),
    _block("+ positional encoding", DECODER, 362, 5, 10, *MODEL, *GPT, *POSITIONS),
    _block("embedding · √d_model", ENCODER, 400, 10, *MODEL, *BERT),
    _block("embedding · √d_model", DECODER, 400, 10, *MODEL, *GPT),
    Box(
        "batch: padding, masks, target shifted by one",
        ENCODER,
        444,
        360,
        28,
        (3, 15, 18, 22, 39, 45),
    ),
    _block("BPE tokens", ENCODER, 488, 21, 22),
    _block("BPE tokens", DECODER, 488, 21, 22),
    _block("source text", ENCODER, 526, 21, 22),
    _block("target text", DECODER, 526, 21, 22),
    # around it
    _block("greedy decoding", AROUND, 58, 19, 22),
    _block("beam search", AROUND, 96, 20, 22),
    _block("loss, smoothed labels", AROUND, 216, 16, 18, 38, 47, 48),
    _block("gradients", AROUND, 258, 7, 18, 38, 39),
    _block("Adam, learning rate", AROUND, 300, 17, 18, 38, 39, 41),
    _block("translation, BLEU", AROUND, 4, 22),
)


def _up(x: int, *heights: int) -> list[str]:
    """Arrows that go up a column: from a first height to a second, from a third to a fourth, …"""
    pairs = zip(heights[::2], heights[1::2], strict=True)
    return [f"M{x},{start} V{end}" for start, end in pairs]


HEAD_MIDDLE, ENCODER_MIDDLE, DECODER_MIDDLE, AROUND_MIDDLE = 124, 352, 552, 760
ARROWS = [
    *_up(HEAD_MIDDLE, 344, 328, 276, 258, 230, 212, 184, 166, 122, 104),
    *_up(ENCODER_MIDDLE, 526, 516, 488, 472, 444, 428, 400, 390, 362, 328),
    *_up(ENCODER_MIDDLE, 300, 290, 262, 246, 218, 208),
    *_up(DECODER_MIDDLE, 526, 516, 488, 472, 444, 428, 400, 390, 362, 328),
    *_up(DECODER_MIDDLE, 300, 290, 262, 248, 220, 210, 182, 166, 138, 128, 100, 68),
    f"M{ENCODER_MIDDLE},180 V148 H452 V234 H{DECODER}",  # the encoder's memory
    "M204,358 H210 V152 H204",  # values, past scores and softmax
    f"M{DECODER + 160},50 H672",  # log-probabilities to decoding
    f"M{DECODER + 160},58 H660 V230 H680",  # and to the loss
    *_up(AROUND_MIDDLE, 46, 32),
    "M760,244 V258",
    "M760,286 V300",
    "M848,92 H854 V540 H632",  # the chosen token goes in next
    "M760,344 V458 H632",  # the next batch
]
# What one head looks like is seen from the encoder's self-attention.
LOOKING_INTO = ("M228,66 L272,300", "M228,384 L272,328")
# What goes past a part and is added to what comes out of it.
RESIDUALS = [
    f"M{middle},{below} H{edge} V{norm} H{edge + 8}"
    for middle, edge, rungs in (
        (ENCODER_MIDDLE, 264, ((336, 276), (254, 194))),
        (DECODER_MIDDLE, 464, ((336, 276), (256, 196), (174, 114))),
    )
    for below, norm in rungs
]


class Diagram:
    """An SVG image that a notebook displays."""

    def __init__(self, svg: str, says: str) -> None:
        self.svg = svg
        self._says = says

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self._says


def transformer(day: int | None = None) -> Diagram:
    """The whole Transformer, with the parts lit that a day is about.

    Args:
        day: its number; without one, nothing is lit.

    Raises:
        ValueError: no part of the drawing is that day's.
    """
    lit = {box for box in FRAMES + BLOCKS if day in box.days}
    if day is not None and not lit:
        raise ValueError(f"no part of the drawing belongs to day {day}")
    title = f"You are here: day {day}, {BY_NUMBER[day].title}" if day else "The whole Transformer"
    width = LARGE if day is None or day in LARGE_DAYS else SMALL
    names = ", ".join(dict.fromkeys(box.label for box in FRAMES + BLOCKS if box in lit))
    says = f"{title} ({names})" if names else title
    instead = INSTEAD.get(day or 0, "")
    return Diagram("\n".join(_svg(title, instead, says, lit, width)) + "\n", says)


def _svg(title: str, instead: str, says: str, lit: set[Box], width: int) -> Iterator[str]:
    height = round(width * HEIGHT / WIDTH)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="{FONTS}" font-size="12.5">'
    )
    yield f"<title>{escape(says)}</title>"
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="white"/>'
    yield f'<text x="20" y="30" font-size="17" font-weight="bold" fill="{INK}">{escape(title)}</text>'
    if instead:
        yield f'<text x="20" y="47" font-size="13" fill="{LIT}">Here: {escape(instead)}</text>'
    for frame in FRAMES:
        yield from _frame(frame, frame in lit)
    for path in LOOKING_INTO:
        yield f'<path d="{path}" fill="none" stroke="{QUIET}" stroke-dasharray="2 4"/>'
    for path in RESIDUALS + ARROWS:
        yield f'<path d="{path}" fill="none" stroke="{INK}" marker-end="url(#tip)"/>'
    for box in BLOCKS:
        yield from _part(box, box in lit)
    yield "</svg>"


def _frame(box: Box, is_lit: bool) -> Iterator[str]:
    """What holds several parts. Where it is lit its border is, so that it shows in print as well."""
    fill, stroke, weight = (TINT, LIT, 2.5) if is_lit else ("none", QUIET, 1)
    yield _rectangle(box, fill, stroke, weight)
    yield (
        f'<text x="{box.x + 2}" y="{box.y - 5}" font-size="11.5" font-style="italic" '
        f'fill="{INK}">{escape(box.label)}</text>'
    )


def _part(box: Box, is_lit: bool) -> Iterator[str]:
    fill, stroke, weight = (LIT, INK, 2) if is_lit else ("white", QUIET, 1)
    letters = 'fill="white" font-weight="bold"' if is_lit else f'fill="{INK}"'
    yield _rectangle(box, fill, stroke, weight)
    yield (
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + box.height / 2 + 4.5:g}" '
        f'text-anchor="middle" {letters}>{escape(box.label)}</text>'
    )


def _rectangle(box: Box, fill: str, stroke: str, weight: float) -> str:
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="4" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="{weight:g}"/>'
    )
