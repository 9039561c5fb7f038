"""Speculative decoding, step by step: a draft proposes words, and the target accepts or replaces them."""

import marimo

app = marimo.App(
    width="full",
    app_title="Speculative decoding, step by step",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    from collections import Counter
    from html import escape
    from typing import NamedTuple

    import marimo as mo
    import torch
    from torch import Tensor

    from explorer import page
    from explorer.bigrams import END, NUMBER, SAID, START, Bigrams
    from explorer.charts import bars, beside, facts, number
    from explorer.decoding import MAX_WORDS, can_go_on, text_of
    from variants.speculative import accept_draft

    SHARES = [twentieth / 20 for twentieth in range(21)]
    ROUNDS, AVERAGED = 2000, 100  # that are counted

    TARGET = Bigrams().log_probs[:, 1:].exp()  # of the next word after each word, `(V, V − 1)`


@app.class_definition
class Round(NamedTuple):
    """What the draft proposes after a text, and what the target makes of it."""

    proposed: list[str]
    draft: Tensor  # q, a row for each proposal
    target: Tensor  # p, one row more
    coins: list[float]
    accepted: int  # proposals
    output: list[str]  # what the text goes on with, up to its end


@app.cell
def _():
    page.head("drafting")
    return


@app.cell
def _():
    controls = page.Controls()
    k = controls.slider("k", "proposed words k", range(1, 6), 3)
    quality = controls.slider("quality", "how close the draft is to the target", SHARES, 0.6)
    page.beside(k, quality)
    return controls, k, quality


@app.cell
def _(controls):
    said, say = mo.state((text_of(controls.remembered("said", "")), drawn_of(controls)))
    return said, say


@app.cell
def _():
    using = []  # what the buttons draw with; a slider must not replace a button that is being pressed
    return (using,)


@app.cell
def _(k, quality, using):
    using[:] = k.value, quality.value
    return


@app.cell
def _(controls, say, using):
    def _keep(words: tuple[str, ...], draw: int) -> None:
        controls.remember("said", " ".join(words))
        controls.remember("drawn", draw)
        say((words, draw))

    def _write() -> None:
        words, draw = text_of(controls.remembered("said", "")), drawn_of(controls)
        if can_go_on(words):
            output = round_after(words, *using, draw).output
            _keep(text_of(" ".join((*words, *output))), draw)

    # The text is read from the address, not from the state: so a click leaves the buttons as they are.
    _presses = {
        "Write these words": lambda _: _write(),
        "Draw again": lambda _: _keep(
            text_of(controls.remembered("said", "")), drawn_of(controls) + 1
        ),
        "Start over": lambda _: _keep((), drawn_of(controls) + 1),
    }
    buttons = mo.ui.array(
        [mo.ui.button(label=label, on_click=press) for label, press in _presses.items()]
    )
    mo.hstack(list(buttons), justify="start", wrap=True)
    return (buttons,)


@app.function
def drawn_of(controls) -> int:
    """How many times this round was drawn again."""
    stored = controls.remembered("drawn", 0)
    return stored if isinstance(stored, int) and 0 <= stored < 1000 else 0


@app.function
def draft_of(target: Tensor, quality: float) -> Tensor:
    """The draft's distributions: the target's, mixed with all words alike."""
    return quality * target + (1 - quality) / target.size(-1)


@app.function
def round_after(words: tuple[str, ...], k: int, quality: float, draw: int) -> Round:
    """Propose at most k words, up to the end of the text, and let the reference check them."""
    seed = 1000 * len(words) + draw + 1
    source = torch.Generator().manual_seed(seed)
    target = TARGET[NUMBER[words[-1] if words else START]].unsqueeze(0)  # (1, V − 1)
    proposed: list[int] = []
    while len(proposed) < k and (not proposed or SAID[proposed[-1]] != END):
        share = draft_of(target[-1], quality)
        proposed.append(int(torch.multinomial(share, 1, generator=source)))
        last = NUMBER[SAID[proposed[-1]]]
        # Nothing follows the end: what the target says there is never asked.
        after = TARGET[last] if SAID[proposed[-1]] != END else TARGET[NUMBER[START]]
        target = torch.cat([target, after.unsqueeze(0)])
    draft = draft_of(target[:-1], quality)
    # The coins are the first numbers that `accept_draft` draws.
    coins = torch.rand(
        len(proposed), generator=torch.Generator().manual_seed(seed), dtype=draft.dtype
    )
    tokens = accept_draft(
        torch.tensor(proposed), draft, target, torch.Generator().manual_seed(seed)
    )
    output = [SAID[token] for token in tokens]
    if END in output:
        output = output[: output.index(END) + 1]
    words = [SAID[token] for token in proposed]
    return Round(words, draft, target, coins.tolist(), len(tokens) - 1, output)


@app.function
def counted(words: tuple[str, ...], quality: float) -> list[float]:
    """How often each word comes first in many rounds."""
    target = TARGET[NUMBER[words[-1] if words else START]]
    draft, source = draft_of(target, quality), torch.Generator().manual_seed(0)
    proposed = torch.multinomial(draft, ROUNDS, replacement=True, generator=source)
    both = torch.stack([target, target])
    first = Counter(
        int(accept_draft(token, draft.unsqueeze(0), both, source)[0]) for token in proposed.split(1)
    )
    return [first[token] / ROUNDS for token in range(len(SAID))]


@app.function
def checks(round_: Round) -> str:
    """A row for each proposal: both probabilities, the coin, and what became of it."""
    rows = ""
    for index, word in enumerate(round_.proposed):
        token = SAID.index(word)
        p, q = round_.target[index, token].item(), round_.draft[index, token].item()
        if index < round_.accepted:
            state, fate = "returned", "accepted"
        elif index == round_.accepted:
            state, fate = "cut", "rejected"
        else:
            state, fate = "cut", "after a rejection"
        # What comes after a rejection is not looked at.
        chance, coin = "", ""
        if index <= round_.accepted:
            chance, coin = number(min(1, p / q), 2), number(round_.coins[index], 2)
        rows += (
            f'<tr class="{state}"><th scope="row">{escape(word)}</th><td>{number(q)}</td>'
            f"<td>{number(p)}</td><td>{chance}</td><td>{coin}</td><td>{fate}</td></tr>"
        )
    return (
        '<table class="ended"><caption>What the draft proposes, checked in one pass of the target'
        '</caption><thead><tr><th scope="col">word</th><th scope="col">draft q</th>'
        '<th scope="col">target p</th><th scope="col">min(1, p/q)</th><th scope="col">coin</th>'
        f'<th scope="col"></th></tr></thead><tbody>{rows}</tbody></table>'
    )


@app.function
def follows(round_: Round) -> str:
    """The distribution of the last word of a round."""
    last = round_.target[round_.accepted]
    if round_.output[round_.accepted - 1 : round_.accepted] == [END]:
        return "<p>All are accepted, and the text has come to its end.</p>"
    if round_.accepted == len(round_.proposed):
        return bars(SAID, last.tolist(), "All are accepted: one more word, from p")
    residual = (last - round_.draft[round_.accepted]).clamp(min=0)
    # A draft that is the target is rejected nowhere, and so something is left.
    return bars(
        SAID,
        (residual / residual.sum()).tolist(),
        f"In place of “{round_.proposed[round_.accepted]}”: from max(0, p − q), made to sum to 1",
    )


@app.function
def text_with(words: tuple[str, ...], round_: Round | None) -> str:
    """The text so far, and the words of this round."""
    listed = "".join(f"<li>{escape(word)}</li>" for word in (START, *words))
    if round_ is not None:
        for index, word in enumerate(round_.output):
            fate = "the target's" if index == round_.accepted else "proposed"
            listed += f"<li><b>{escape(word)}</b> <small>{fate}</small></li>"
    elif words[-1:] != (END,):
        listed += f"<li>{MAX_WORDS} words: enough</li>"
    return f'<ol class="said" aria-label="the text, and this round">{listed}</ol>'


@app.function
def drawing(words: tuple[str, ...], k: int, quality: float, draw: int) -> str:
    """The round, and what rounds do on average."""
    if not can_go_on(words):
        return text_with(words, None) + "<p>The text is complete. “Start over” begins another.</p>"
    round_ = round_after(words, k, quality, draw)
    rate = torch.minimum(round_.target[0], round_.draft[0]).sum().item()
    lengths = [
        len(round_after(words, k, quality, other_draw).output) for other_draw in range(AVERAGED)
    ]
    average = sum(lengths) / AVERAGED
    summary = facts(
        {
            "words in this pass": f"{len(round_.output)}",
            "on average": f"{average:.1f} words per pass, instead of 1",
            "the first proposal is accepted": f"{rate:.0%} of the time: the sum of min(p, q)",
        }
    )
    return text_with(words, round_) + beside(
        checks(round_) + summary + follows(round_),
        agreeing(counted(words, quality), round_.target[0].tolist()),
    )


@app.function
def agreeing(shares: list[float], target: list[float]) -> str:
    """Of each word: how often rounds begin with it, above the target's probability."""
    rows = ""
    for word, share, p in zip(SAID, shares, target, strict=True):
        both = "".join(f'<span style="width:{100 * value:.1f}%"></span>' for value in (share, p))
        rows += (
            f'<tr><th scope="row">{escape(word)}</th><td>{number(share)}</td><td>{number(p)}</td>'
            f'<td class="bar">{both}</td></tr>'
        )
    caption = f"The first word of {ROUNDS:,} rounds, counted (blue), and the target's p (gray)"
    head = '<td></td><th scope="col">counted</th><th scope="col">p</th><td></td>'
    return (
        f'<table class="shares agreeing"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


@app.cell
def _(k, quality, said):
    page.shown(lambda: drawing(said()[0], k.value, quality.value, said()[1]))
    return


@app.cell
def _():
    mo.md(r"""
    The target reads all proposals in **one** pass. Each is accepted with probability $\min(1, p/q)$. After
    the first rejection the rest is dropped, and one word is sampled from what the draft proposes too
    rarely: $\max(0, p - q)$, scaled to sum to 1. If all are accepted, the pass gives one more word.
    Whatever the draft, the words have the target's distribution: compare each pair of bars. A
    worse draft only makes passes shorter.
    """)
    return


if __name__ == "__main__":
    app.run()
