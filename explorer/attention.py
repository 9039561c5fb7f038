"""Attention and masks: what each word attends to, and what the mask forbids."""

import marimo

app = marimo.App(
    width="full", app_title="Attention and masks", css_file="page.css", html_head_file="start.html"
)

with app.setup:
    import hashlib
    from html import escape

    import marimo as mo
    import numpy as np

    import numpy_reference
    from explorer import page
    from explorer.answer import Failed, NotWritten
    from explorer.charts import facts, number
    from explorer.grid import MaskGrid

    SENTENCE = "the dog chases the cat and the cat runs"
    MAX_WORDS = 10  # words: their columns fit beside the steps
    LETTERS = 16
    PAD, PADS = "<pad>", 2  # as if the batch had another sentence, longer by two
    D_K = 5  # few enough that the values fit beside the grid
    NOTHING = "One query here may attend to nothing: its weights and its output have to be 0."
    LENGTH = 2.7  # of a word's vector: with its like it scores 2.7² / √6 ≈ 3


@app.cell
def _():
    page.head("attention")
    return


@app.cell
def _():
    controls = page.Controls()
    sentence = controls.text("sentence", "sentence", SENTENCE)
    positions = controls.switch("positions", "add positional encoding")
    answers = controls.answers("attention")
    page.beside(sentence, positions, answers)
    return answers, controls, positions, sentence


@app.function
def words_of(sentence: str) -> list[str]:
    """What spaces separate, as much of it as is shown, and padding; nothing if there is no word."""
    words = sentence.split()[:MAX_WORDS]
    return words and [*words, *[PAD] * PADS]


@app.function
def short(word: str) -> str:
    """A word as it is shown: of a long one the beginning."""
    return word if len(word) <= LETTERS else f"{word[:LETTERS]}…"


@app.function
def vectors_of(words: list[str], positions: bool) -> np.ndarray:
    """A vector for each word, `(T, d_k)`: its direction drawn by the word's letters."""
    directions = [
        np.random.default_rng([*hashlib.sha256(word.casefold().encode()).digest()]).normal(size=D_K)
        for word in words
    ]
    vectors = LENGTH * np.array([vector / np.linalg.norm(vector) for vector in directions])
    return vectors + numpy_reference.positional_encoding(*vectors.shape) * positions


@app.function
def masks_of(words: list[str]) -> dict[str, np.ndarray]:
    """The masks that have a name, boolean `(T, T)`."""
    size = len(words)
    tokens = np.array([[int(word != PAD) for word in words]])  # 0 is padding
    return {
        "none": np.ones((size, size), dtype=bool),
        "padding": np.repeat(numpy_reference.padding_mask(tokens)[0], size, axis=0),
        "causal": numpy_reference.subsequent_mask(size)[0],
        "both": numpy_reference.target_mask(tokens)[0],
    }


@app.function
def grid_of(words: list[str]) -> MaskGrid:
    """The table to click, of the word in the middle at first."""
    middle = (len(words) - PADS) // 2
    return MaskGrid([short(word) for word in words], masks_of(words), "padding", middle)


@app.cell
def _(controls, sentence):
    words = words_of(sentence.value)
    grid = controls.widget(grid_of(words), "mask", "query") if words else None
    return grid, words


@app.cell
def _(answers):
    parts = page.parts("attention", answers.value)
    return (parts,)


@app.function
def scores_of(vectors: np.ndarray) -> np.ndarray:
    """Of each query with each key, `(T, T)`: asked of the reference's weights.

    They tell scores but for a constant of the row, which one key more takes away: all zeros, it scores 0.
    """
    keys = np.vstack([vectors, np.zeros(D_K)])
    _, weights = numpy_reference.attention(vectors, keys, keys)
    return np.log(weights[:, :-1] / weights[:, -1:])


@app.function
def steps(
    words: list[str],
    vectors: np.ndarray,
    allowed: np.ndarray,
    weights: np.ndarray,
    output: np.ndarray,
    query: int,
) -> str:
    """What one query does, key by key, and what it takes home."""
    scores = scores_of(vectors)[query]

    def numbers(vector: np.ndarray) -> str:
        return "".join(f"<td>{number(value, 2)}</td>" for value in vector)

    rows = "".join(
        f'<tr class="{"" if may else "forbidden"}"><th scope="row" dir="auto">{escape(short(word))}</th>'
        f"<td>{number(score, 2)}</td>"
        f'<td class="bar"><span style="width:{100 * min(max(weight, 0), 1):.2f}%"></span></td>'
        f'<td class="weight">{number(weight)}</td>{numbers(vector)}</tr>'
        for word, may, score, weight, vector in zip(
            words, allowed[query], scores, weights[query], vectors, strict=True
        )
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="steps of one query">'
        '<table class="steps"><caption>Steps of the query '
        f'<b dir="auto">{escape(named(words, query))}</b></caption>'
        '<thead><tr><th scope="col">key</th><th scope="col">q·k / √d<sub>k</sub></th>'
        '<th scope="col" colspan="2">weight</th>'
        f'<th scope="col" colspan="{D_K}">value</th></tr></thead><tbody>{rows}</tbody>'
        '<tfoot><tr><th scope="row" colspan="3">sum of weight × value: the output</th>'
        f'<td class="weight">{number(weights[query].sum())}</td>{numbers(output[query])}</tr></tfoot>'
        f"</table></div>{told(words, allowed[query], weights[query])}"
    )


@app.function
def named(words: list[str], index: int) -> str:
    """A word and its place, since equal words have several."""
    return f"{short(words[index])} ({index + 1})"


@app.function
def told(words: list[str], allowed: np.ndarray, weights: np.ndarray) -> str:
    """One query in words."""
    if not allowed.any():
        return (
            "<p>This query may attend to nothing: its weights and its output are exactly 0, "
            "where a softmax alone would share out 1 among forbidden keys.</p>"
        )
    most = np.flatnonzero(np.isclose(weights, weights.max()))  # equal words share the first place
    return facts(
        {
            "may attend to": f"{allowed.sum()} of {len(words)}",
            "attends most to": ", ".join(named(words, index) for index in most),
            "with the weight": number(weights.max()),
        }
    )


@app.function
def cut(sentence: str) -> str:
    """A note on the words of a long sentence that are not shown."""
    count = len(sentence.split())
    if count <= MAX_WORDS:
        return ""
    return (
        f'<p class="compared">Of {count:,} words the first {MAX_WORDS} are shown: no more fit.</p>'
    )


@app.function
def picture(parts, words: list[str], positions: bool, grid: MaskGrid) -> str:
    """The steps of the query that the grid marks; the grid itself is given all weights."""
    if not words:
        return "<p>There is no word to attend to: type a sentence.</p>"
    vectors = vectors_of(words, positions)
    try:
        output, weights = parts.attention(vectors, vectors, vectors, grid.allowed)
    except Failed as failure:
        grid.weights = []
        if isinstance(failure, NotWritten) or grid.allowed.any(axis=1).all():
            raise
        raise Failed(f"{failure}\n{NOTHING}") from failure
    grid.weights = weights.astype(float).tolist()
    return steps(words, vectors, grid.allowed, weights, output, grid.query)


@app.cell
def _(grid, parts, positions, sentence, words):
    _drawn = page.shown(lambda: picture(parts, words, positions.value, grid), parts)
    _table = grid.text if words else ""
    mo.Html(f'{cut(sentence.value)}<div class="beside attention">{_table}{_drawn.text}</div>')
    return


@app.cell
def _():
    mo.md(
        r"""
        $\mathrm{Attention}(Q, K, V) = \mathrm{softmax}(QK^{\mathsf T} / \sqrt{d_k})\,V$. Here each word has a
        random vector, the same for equal words, and it serves as query, key and value (a trained model
        computes the three with three matrices). So meaning plays no part: a word attends most to the same
        word, wherever it is, unless positional encoding distinguishes the positions. *padding*, *causal* and
        *both* are day 3's `padding_mask`, `subsequent_mask` and `target_mask`. A score that is struck out is
        set to $-\infty$ before the softmax. A padding mask hides keys: what a `<pad>` computes as a query is
        ignored later.
        """
    )
    return


if __name__ == "__main__":
    app.run()
