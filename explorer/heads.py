"""Heads of a trained model: what each attends to, and what is lost without it."""

import marimo

app = marimo.App(
    width="full",
    app_title="Heads of a trained model",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    import difflib
    from collections.abc import Collection, Sequence
    from html import escape
    from typing import NamedTuple

    import marimo as mo

    from explorer import page
    from explorer.attending import lines, maps
    from explorer.board import HeadBoard
    from explorer.charts import cells
    from explorer.shipped_model import ENCODER, AttentionLayer, Head, Losses, Trained
    from training.inference.trained_model import AttentionMap

    SENTENCE = "The red car is old, but it is not clean."
    MAX_TOKENS = 24  # tokens of a sentence, and those of its translation that are drawn
    HEADS = (1, 2, 3, 4)
    ALL = "all"
    MISSED = Head(
        AttentionLayer(ENCODER, 2), 3
    )  # off at first: it tells the decoder what "it" stands for


@app.cell
def _():
    page.head("heads")
    return


@app.cell
def _():
    model = Trained()
    return (model,)


@app.cell
def _(model):
    controls = page.Controls()
    sentence = controls.text("sentence", "English sentence", SENTENCE)
    line_choice = controls.choice(
        "head", "draw the lines of head", (ALL, *map(str, HEADS)), str(MISSED.number)
    )
    _names = [f"{sublayer.kind}, {sublayer.layer}" for sublayer in model.attentions]
    _first = list(model.attentions).index(MISSED.place)
    board = controls.widget(HeadBoard(_names, len(HEADS), _first, MISSED.number), "place", "on")
    mo.vstack([page.beside(sentence, line_choice), board])
    return board, line_choice, sentence


# --- What is computed -----------------------------------------------------------------------------


@app.class_definition
class Whole(NamedTuple):
    """What the model makes of a sentence with all heads on."""

    translation: str
    losses: Losses


@app.class_definition
class Now(NamedTuple):
    """What it makes of the sentence with some heads off; the losses are those of the first translation."""

    translation: str
    losses: Losses
    maps: dict[AttentionLayer, AttentionMap]


@app.function
def refusal(model: Trained, sentence: str) -> str:
    """Why nothing can be drawn of a sentence; nothing if it can."""
    pieces = model.pieces(sentence)
    if not pieces:
        return "There is no sentence: write one, in English."
    if pieces > MAX_TOKENS:
        return (
            f"The sentence has {pieces:,} tokens, and this page draws at most {MAX_TOKENS}: "
            "write a shorter one."
        )
    return ""


@app.function
def whole_of(model: Trained, sentence: str) -> Whole | None:
    """What does not depend on the switches."""
    if refusal(model, sentence):
        return None
    translation = model.translation(sentence)
    return Whole(translation, model.losses(sentence, translation))


@app.function
def now_of(model: Trained, sentence: str, full: Whole, off: Collection[Head]) -> Now:
    """What does depend on them."""
    return Now(
        model.translation(sentence, off),
        model.losses(sentence, full.translation, off),
        model.maps(sentence, off),
    )


@app.cell
def _(model, sentence):
    full = whole_of(model, sentence.value)
    return (full,)


@app.cell
def _(board, full, model, sentence):
    off = [
        head
        for head, switch in zip(model.heads, board.on.replace("-", ""), strict=True)
        if switch == "0"
    ]
    now = full and now_of(model, sentence.value, full, off)
    return now, off


# --- The picture ----------------------------------------------------------------------------------


@app.function
def picture(
    full: Whole, now: Now, sublayer: AttentionLayer, heads: Sequence[int], off: Collection[Head]
) -> str:
    """What the heads of an attention look at and what comes out, with some heads off."""
    attention = fitted(now.maps[sublayer], sublayer)
    silent = {head.number for head in off if head.place == sublayer}
    parts = lines(attention, heads), maps(attention, heads, silent), tokens(full, now)
    return (
        f"{answers(full, now, len(off))}"
        f'<div class="three">{"".join(f"<div>{part}</div>" for part in parts)}</div>'
    )


@app.function
def answers(full: Whole, now: Now, off: int) -> str:
    """The translation with all heads, and the one with some off, its other words marked."""
    words = now.translation.split()
    alike = difflib.SequenceMatcher(None, full.translation.split(), words, autojunk=False)
    same = {block.b + step for block in alike.get_matching_blocks() for step in range(block.size)}
    marked = " ".join(
        escape(word) if index in same else f"<mark>{escape(word)}</mark>"
        for index, word in enumerate(words)
    )
    heads = "head" if off == 1 else "heads"
    return (
        f'<dl class="facts"><div><dt>with all heads</dt><dd>{escape(full.translation)}</dd></div>'
        f"<div><dt>with {off or 'no'} {heads} off</dt><dd>{marked}</dd></div></dl>"
    )


@app.function
def tokens(full: Whole, now: Now) -> str:
    """What each token of the whole model's translation costs, with all heads and now."""
    before, after = full.losses, now.losses
    both = [*zip(before.each, after.each, strict=True), (before.mean, after.mean)]
    names = [*before.tokens, "mean"]
    return cells(
        both, names, ("all on", "now"), "loss of each token", marked=len(names) - 1, most=5
    )


@app.function
def fitted(attention: AttentionMap, sublayer: AttentionLayer) -> AttentionMap:
    """As much as is drawn. In the decoder a row is named by the token read and the one written after it."""
    rows = attention.rows
    if sublayer.kind != ENCODER:
        rows = [
            f"{read} → {next_token}"
            for read, next_token in zip(rows, [*rows[1:], "<end>"], strict=True)
        ]
    return AttentionMap(
        attention.title,
        attention.weights[:, :MAX_TOKENS, :MAX_TOKENS],
        rows[:MAX_TOKENS],
        attention.columns[:MAX_TOKENS],
    )


@app.cell
def _(board, full, line_choice, model, now, off, sentence):
    def _draw() -> str:
        if full is None:
            return f'<p role="alert">{escape(refusal(model, sentence.value))}</p>'
        sublayer = list(model.attentions)[board.place]
        return picture(
            full,
            now,
            sublayer,
            HEADS if line_choice.value == ALL else [int(line_choice.value)],
            off,
        )

    page.shown(_draw)
    return


@app.cell
def _(board, full, model, sentence):
    # After the picture, which is shown before all heads have been switched off in turn.
    _costs = model.costs(sentence.value, full.translation) if full else {}
    board.costs = [
        [_costs[Head(sublayer, number)] for number in HEADS]
        for sublayer in model.attentions
        if _costs
    ]
    return


@app.cell
def _():
    mo.md(
        r"""
        The number on each head is the increase of the loss per token of the translation ($-\ln p$, mean) when
        that head alone is switched off. The output of a switched-off head is 0 before $W^O$ mixes the heads.
        In head 3 of the encoder's second layer, *it* attends to *car*. Most heads change little by
        themselves. Point at a token to see its row alone. A row of the decoder is labeled with the token read
        → the token written next; ␣ is a space. The model knows about 200 words and guesses at others.
        """
    )
    return


if __name__ == "__main__":
    app.run()
