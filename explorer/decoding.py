"""Decoding, step by step: a word drawn from a distribution, or the beginnings that a beam follows."""

import marimo

app = marimo.App(
    width="full",
    app_title="Decoding, step by step",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    import math
    from contextlib import suppress
    from html import escape

    import marimo as mo
    from torch import Tensor

    from explorer import page
    from explorer.answer import Failed
    from explorer.bigrams import END, FOLLOWS, NUMBER, SAID, START, Bigrams, Branch, searched
    from explorer.charts import beside, cells, facts, number
    from variants.sampling import sample

    DRAWN, SEARCHED = "sampling", "beam search"
    TEMPERATURES = [tenth / 10 for tenth in (*range(20), *range(20, 51, 5))]
    SHARES = [twentieth / 20 for twentieth in range(21)]
    BOX = 56  # width of a word's box in the tree
    MAX_WORDS = 16  # words of a text, which could go on forever
    UNLIKELY = 0.02

    MODEL = Bigrams()


@app.cell
def _():
    page.head("decoding")
    return


@app.cell
def _():
    controls = page.Controls()
    way = controls.one_of("way", "decoding by", (DRAWN, SEARCHED), DRAWN)
    way  # noqa: B018 - a cell shows its last expression
    return controls, way


@app.cell
def _(controls):
    # All are made at once, so that each keeps its value while one looks at the other way.
    temperature = controls.slider("temperature", "temperature", TEMPERATURES, 1.0)
    top_k = controls.slider("top_k", "top-k", range(1, len(SAID) + 1), len(SAID))
    top_p = controls.slider("top_p", "top-p", SHARES, 1.0)
    answers = controls.answers("decoding")
    beam = controls.slider("beam", "beam width", range(1, 6), 2)
    alpha = controls.slider("alpha", "length penalty α", [tenth / 10 for tenth in range(21)], 0.6)
    most = controls.slider("most", "maximum length, `</s>` included", range(2, 9), 7)
    return alpha, answers, beam, most, temperature, top_k, top_p


@app.cell
def _(answers):
    parts = page.parts("decoding", answers.value)
    return (parts,)


@app.cell
def _(controls):
    said, say = mo.state(text_of(controls.remembered("said", "")))
    return said, say


@app.cell
def _():
    using = []  # what the buttons draw with; a slider must not replace a button that is being pressed
    return (using,)


@app.cell
def _(parts, temperature, top_k, top_p, using):
    using[:] = parts, temperature.value, top_k.value, top_p.value
    return


@app.cell
def _(controls, say, using):
    def _go_on(most: int) -> None:
        """Draw words until the end, at most `most`; after the end, of a new text."""
        parts, *settings = using
        words = text_of(controls.remembered("said", ""))
        words = words if can_go_on(words) else ()
        with suppress(Failed):  # the page says why
            for _ in range(most):
                if can_go_on(words):
                    words = (*words, drawn_word(parts, words, *settings))
        _keep(words)

    def _keep(words: tuple[str, ...]) -> None:
        controls.remember("said", " ".join(words))
        say(words)

    # The text is read from the address, not from the state: so a click leaves the buttons as they are.
    _presses = {
        "Sample a word": lambda _: _go_on(1),
        "Sample to the end": lambda _: _go_on(MAX_WORDS),
        "Undo": lambda _: _keep(text_of(controls.remembered("said", ""))[:-1]),
        "Start over": lambda _: _keep(()),
    }
    buttons = mo.ui.array(
        [mo.ui.button(label=label, on_click=press) for label, press in _presses.items()]
    )
    return (buttons,)


@app.cell
def _(alpha, answers, beam, buttons, most, temperature, top_k, top_p, way):
    _drawing = [
        page.beside(temperature, top_k, top_p, answers),
        mo.hstack(list(buttons), justify="start", wrap=True),
    ]
    mo.vstack(_drawing) if way.value == DRAWN else page.beside(beam, alpha, most)
    return


@app.function
def text_of(text: str) -> tuple[str, ...]:
    """The words that an address holds, as far as they are some of the language, and not beyond the end."""
    words: tuple[str, ...] = ()
    for word in str(text).split():
        if word not in SAID or not can_go_on(words):
            break
        words = (*words, word)
    return words


@app.function
def can_go_on(words: tuple[str, ...]) -> bool:
    return words[-1:] != (END,) and len(words) < MAX_WORDS


@app.function
def logits_after(words: tuple[str, ...]) -> Tensor:
    """The model's scores of all that can be said next, `(V,)`: they are log-probabilities here."""
    return MODEL.log_probs[NUMBER[words[-1] if words else START], 1:]


@app.function
def distribution(parts, words: tuple[str, ...], *settings: float) -> Tensor:
    """`distribution` of the next word, `(V,)`.

    Raises:
        Failed: a learner's own gave something that nothing can be drawn from.
    """
    shares = parts.distribution(logits_after(words), *settings)
    if (shares < 0).any() or not shares.sum() > 0:
        raise Failed(
            "`distribution` returned no probabilities: one is below 0, or all of them are 0."
        )
    return shares


@app.function
def drawn_word(parts, words: tuple[str, ...], temperature: float, top_k: int, top_p: float) -> str:
    """A word, drawn with what `distribution` has left."""
    shares = distribution(parts, words, temperature, top_k, top_p)
    return SAID[sample(shares.log())]


@app.function
def choices(parts, words: tuple[str, ...], temperature: float, top_k: int, top_p: float) -> str:
    """All words, the most likely first: the probability at this temperature, and after the cuts."""
    full = distribution(parts, words, temperature)
    few = distribution(parts, words, temperature, top_k)
    allowed = distribution(parts, words, temperature, top_k, top_p)
    order = logits_after(words).argsort(descending=True, stable=True).tolist()
    rows = ""
    for number in order:
        before, after = full[number].item(), allowed[number].item()
        cut = "" if after else "cut by top-p" if few[number] else "cut by top-k"
        cut = "" if not before else cut
        bar = "" if cut else f'<span style="width:{100 * min(after, 1):.2f}%"></span>'
        rows += (
            f'<tr class="{"cut" if cut else ""}"><th scope="row">{escape(SAID[number])}</th>'
            f'<td class="number">{before:.3f}</td>'
            f'<td class="bar"><span class="before" style="width:{100 * min(before, 1):.2f}%"></span>'
            f"{bar}</td>"
            f'<td class="number">{cut or f"{after:.3f}"}</td></tr>'
        )
    lost = full[allowed == 0].sum().item()
    summary = facts(
        {
            "can be sampled": f"{int((allowed > 0).sum())} of {len(SAID)} words",
            "cut off": f"{lost:.3f}",
        }
    )
    return (
        '<table class="bars choices"><thead><tr><th scope="col">next word</th>'
        '<th scope="col">probability<i class="before"></i></th><td></td>'
        '<th scope="col">after the cuts<i></i></th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{summary}"
    )


@app.function
def text_so_far(words: tuple[str, ...]) -> str:
    """The words, each with the model's own probability of it, and that of all."""
    listed, log_prob = f"<li>{escape(START)}</li>", 0.0
    for index, word in enumerate(words):
        log_p = logits_after(words[:index])[SAID.index(word)].item()
        log_prob += log_p
        rare = ' class="rare"' if math.exp(log_p) < UNLIKELY else ""
        listed += f"<li{rare}>{escape(word)} <small>{math.exp(log_p):.2f}</small></li>"
    if can_go_on(words):
        end = "<li>…</li>"
    else:
        end = "" if words[-1] == END else f"<li>{MAX_WORDS} words: enough</li>"
    probability = f"P(text) = {math.exp(log_prob):.3g}, log P = {log_prob:.2f}".replace("-", "−")
    return (
        f'<ol class="said" aria-label="the text so far">{listed}{end}</ol>'
        f'<p class="caption">{probability}, of the model itself: at temperature 1, nothing cut.</p>'
    )


@app.function
def drawing(parts, words: tuple[str, ...], temperature: float, top_k: int, top_p: float) -> str:
    """The text so far, what can follow, and the language."""
    names = list(FOLLOWS)
    table = MODEL.log_probs[:-1, 1:].exp().tolist()
    last = names.index(words[-1] if words else START) if can_go_on(words) else None
    language = cells(
        table,
        names,
        SAID,
        "The model: the probability of each word after each other word",
        marked=last,
    )
    if can_go_on(words):
        next_word = choices(parts, words, temperature, top_k, top_p)
    else:
        next_word = "<p>The text is complete. Undo, or start over.</p>"
    return text_so_far(words) + beside(next_word, language)


@app.function
def tree(
    rounds: list[list[Branch]], best: tuple[str, ...], greedy: tuple[str, ...], beam: int
) -> str:
    """The beginnings that the search met, a column for each round: kept, ended, or cut."""
    wide, tall = BOX + 24, 42
    shown = [round_[: beam + 3] for round_ in rounds]
    width, height = len(rounds) * wide + BOX, tall * max(len(round_) for round_ in shown)
    middle = {(): height / 2}
    nodes, edges = node(START, None, "kept", 0, height / 2), ""
    for number, branches in enumerate(shown, start=1):
        branches = sorted(
            branches, key=lambda branch: (middle[branch.words[:-1]], -branch.log_prob)
        )
        for row, branch in enumerate(branches):
            y = height * (row + 0.5) / len(branches)
            middle[branch.words] = y
            x, from_y = number * wide, middle[branch.words[:-1]]
            state = f"{branch.fate} {'best' if branch.words == best[:number] else ''}"
            if branch.words == greedy[:number]:
                edges += edge("greedy", x - wide + BOX, from_y, x, y)
            edges += edge(state, x - wide + BOX, from_y, x, y)
            nodes += node(branch.words[-1], branch.log_prob, state, x, y)
    says = "; ".join(
        f"round {number}: "
        + ", ".join(" ".join(branch.words) for branch in round_ if branch.fate != "cut")
        for number, round_ in enumerate(rounds, start=1)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="the tree">'
        f'<svg class="tree" viewBox="-2 -4 {width + 4} {height + 8}" role="img" '
        f'style="min-width:{0.8 * width:.0f}px;max-width:{1.2 * width:.0f}px" '
        f'aria-label="What the beam keeps. {escape(says)}">{edges}{nodes}</svg></div>'
    )


@app.function
def node(word: str, log_prob: float | None, state: str, x: float, y: float) -> str:
    number = "" if log_prob is None else f"{log_prob:.2f}".replace("-", "−")
    return (
        f'<g class="{state}"><rect x="{x}" y="{y - 18:.1f}" width="{BOX}" height="36" rx="4"/>'
        f'<text x="{x + BOX / 2:g}" y="{y - 3:.1f}">{escape(word)}</text>'
        f'<text x="{x + BOX / 2:g}" y="{y + 13:.1f}">{number}</text></g>'
    )


@app.function
def edge(state: str, x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f'<path class="{state}" d="M{x},{y:.1f}C{half},{y:.1f} {half},{to_y:.1f} {to_x},{to_y:.1f}"/>'


@app.function
def searching(beam: int, alpha: float, most: int) -> str:
    """The tree, and all that ended, the best first."""
    rounds, best = searched(MODEL, beam, alpha, most)
    _, greedy = searched(MODEL, 1, alpha, most)  # a beam of one is greedy decoding
    ended = [branch for round_ in rounds for branch in round_ if branch.worth is not None]
    ended.sort(key=lambda branch: -branch.worth)
    rows = "".join(
        f'<tr class="{"returned" if branch.words == best else ""}">'
        f'<th scope="row">{escape(" ".join(branch.words))}</th>'
        f"<td>{number(branch.log_prob)}</td><td>{len(branch.words)}</td>"
        f"<td>{number(branch.worth)}</td></tr>"
        for branch in ended
    ).replace("-", "−")
    table = (
        '<table class="ended"><caption>Finished hypotheses, the best first</caption><thead><tr>'
        '<th scope="col">words</th><th scope="col">log P</th><th scope="col">n</th>'
        f'<th scope="col">log P / ((5 + n) / 6)<sup>{alpha:g}</sup></th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    legend = "".join(
        f'<li class="{fate}">{escape(words)}</li>'
        for fate, words in {
            "kept": "kept in the beam",
            "ended": "finished",
            "best": "the hypothesis that is returned",
            "cut": "dropped (only the three most likely of each step are drawn), or abandoned: it cannot win",
            "greedy": f"greedy decoding: {' '.join(greedy)}",
        }.items()
    )
    return tree(rounds, best, greedy, beam) + beside(table, f'<ul class="legend">{legend}</ul>')


@app.cell
def _(alpha, beam, most, parts, said, temperature, top_k, top_p, way):
    page.shown(
        lambda: (
            drawing(parts, said(), temperature.value, top_k.value, top_p.value)
            if way.value == DRAWN
            else searching(beam.value, alpha.value, most.value)
        ),
        parts if way.value == DRAWN else None,
    )
    return


@app.cell
def _(way):
    mo.md(
        {
            DRAWN: r"""
            The model gives every word some probability, wrong words included. Temperature sharpens or
            flattens the distribution; **top-k** keeps the $k$ most likely words, and **top-p** then the
            fewest whose probabilities sum to at least $p$. The rest is scaled to sum to 1, and one word is
            sampled. A top-k of 1 is greedy decoding.
            """,
            SEARCHED: r"""
            At each step, every hypothesis in the beam is continued with every word, and the most likely
            continuations are kept, as many as the beam is wide. Greedy decoding takes the most likely word
            at once, and misses sentences that begin with a less likely one. Finished hypotheses leave the
            beam and are compared by $\log P \,/\, \left((5 + n)/6\right)^\alpha$: a larger $\alpha$ favors
            longer sentences.
            """,
        }[way.value]
    )
    return


if __name__ == "__main__":
    app.run()
