"""Softmax and temperature: what a temperature does to a choice."""

import marimo

app = marimo.App(
    width="full",
    app_title="Softmax and temperature",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    import math

    import marimo as mo
    import numpy as np

    from explorer import page
    from explorer.charts import bars, beside, curves, facts, number

    WORDS = ("cat", "dog", "bird", "stone")
    # 0.1 to 10, by a fifth each
    TEMPERATURES = [round(0.1 * 10 ** (step / 12), 3) for step in range(25)]
    SCORES = [score / 4 for score in range(-16, 17)]


@app.cell
def _():
    page.head("softmax")
    return


@app.cell
def _():
    controls = page.Controls()
    temperature = controls.slider("temperature", "temperature T", TEMPERATURES, 1.0)
    scores = mo.ui.array(
        [
            controls.slider(word, f"score of {word}", SCORES, start)
            for word, start in zip(WORDS, (2.0, 1.0, 0.5, -1.0), strict=True)
        ]
    )
    answers = controls.answers("softmax")
    page.beside(temperature, *scores, answers)
    return answers, scores, temperature


@app.cell
def _(answers):
    parts = page.parts("softmax", answers.value)
    return (parts,)


@app.function
def probabilities(parts, scores: list[float], temperature: float) -> np.ndarray:
    """Of each word, `(words,)`: the softmax of its score over the temperature."""
    return parts.softmax(np.array(scores) / temperature)


@app.function
def hundred(shares: np.ndarray) -> str:
    """A hundred draws as they come on average: a square for each, in the color of its word."""
    # An answer of one's own may return anything; what is missing from 1 stays empty.
    ends = np.rint(np.nan_to_num(100 * np.cumsum(shares)).clip(0, 100))
    squares = "".join(
        f'<rect class="hue-{np.searchsorted(ends, n, side="right")}" '
        f'x="{n // 5 * 18}" y="{n % 5 * 18}" width="16" height="16"/>'
        for n in range(int(ends[-1]))
    )
    return (
        '<p class="caption">100 draws, on average</p><svg class="hundred" viewBox="0 0 358 88" role="img" '
        f'aria-label="100 draws, on average">{squares}</svg>'
    )


@app.function
def picture(parts, scores: list[float], temperature: float) -> str:
    """The choice at this temperature, and at all others."""
    now = probabilities(parts, scores, temperature)
    # All temperatures in one call, a row each: a learner's own function is asked in another process.
    rows = parts.softmax(np.array(scores) / np.array(TEMPERATURES)[:, None])
    entropy = -sum(p * math.log2(p) for p in now if p > 0)
    lines = {word: rows[:, column].tolist() for column, word in enumerate(WORDS)}
    summary = facts(
        {
            "most likely": f"{WORDS[int(now.argmax())]}, {number(now.max())}",
            "entropy": f"{number(entropy, 2)} of {math.log2(len(WORDS)):.0f} bits",
            "sum": number(now.sum()),
        }
    )
    return beside(
        bars(WORDS, now.tolist(), f"softmax(scores / {temperature:g})") + summary + hundred(now),
        curves(TEMPERATURES, lines, "temperature T", "probability", temperature, math.log),
    )


@app.cell
def _(parts, scores, temperature):
    page.shown(lambda: picture(parts, scores.value, temperature.value), parts)
    return


@app.cell
def _():
    mo.md(
        r"""
        $p_i = e^{s_i/T} \,/\, \sum_j e^{s_j/T}$. A small $T$ magnifies the differences between scores
        until one word has almost all of the probability; a large $T$ shrinks them until all words are almost
        equally likely. The order never changes. Only differences between scores count. The entropy is 2 bits
        where all four words are equally likely, and 0 where one has all of the probability.
        """
    )
    return


if __name__ == "__main__":
    app.run()
