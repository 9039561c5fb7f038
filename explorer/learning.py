"""Learning rate: its curve, and a small run that lives or dies by it."""

import marimo

app = marimo.App(
    width="full", app_title="Learning rate", css_file="page.css", html_head_file="start.html"
)

with app.setup:
    import functools
    import math
    from html import escape

    import marimo as mo

    from explorer import page
    from explorer.charts import beside, facts
    from explorer.copying import EVERY, STEPS, VOCAB, CopyRun
    from explorer.runner import Runner

    FACTORS = [0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16]
    WARMUPS = [1, 3, 10, 30, 60, 100, 200, 400, 800]
    WIDTHS = [16, 32, 64]
    SMOOTHINGS = [0, 0.1, 0.2, 0.3, 0.4]
    COMPARED = 10 * EVERY  # steps after which a run is worth comparing the next one with
    WIDE, HIGH, LEFT, RIGHT = 560, 106, 46, 14  # a strip, and what its curve leaves free beside it
    CELL = 24
    GUESS = math.log(VOCAB - 1)  # the loss of a uniform guess among ten symbols


@app.cell
def _():
    page.head("learning")
    return


@app.cell
def _():
    controls = page.Controls()
    factor = controls.slider("factor", "factor", FACTORS, 0.5)
    warmup = controls.slider("warmup", "warm-up, in steps", WARMUPS, 100)
    d_model = controls.slider("d_model", "d_model", WIDTHS, 32)
    smoothing = controls.slider("smoothing", "label smoothing ε", SMOOTHINGS, 0.1)
    answers = controls.answers("learning")
    runner = mo.ui.anywidget(Runner())
    anew = mo.ui.button(label="Reset", value=0, on_click=lambda times: times + 1)
    runs = []  # this one, and before it the last that is worth a comparison
    page.beside(
        factor, warmup, d_model, smoothing, answers, mo.hstack([runner, anew], justify="start")
    )
    return anew, answers, d_model, factor, runner, runs, smoothing, warmup


@app.cell
def _(answers):
    parts = page.parts("learning", answers.value)
    return (parts,)


@app.cell
def _(anew, d_model, factor, parts, smoothing, warmup):
    anew.value  # noqa: B018 (the button makes another run of the same settings)
    begun = functools.cache(
        lambda: CopyRun(
            schedule(parts, d_model.value, factor.value, warmup.value),
            d_model.value,
            smoothing.value,
        )
    )
    return (begun,)


@app.cell
def _(begun, parts, runner, runs):
    page.shown(lambda: live(runner.widget, begun, runs), parts)
    return


@app.function
def schedule(parts, d_model: int, factor: float, warmup: int) -> list[float]:
    """The learning rates of all steps."""
    return list(
        page.each(parts, "rate", [(step, d_model, factor, warmup) for step in range(1, STEPS + 1)])
    )


@app.function
def live(runner: Runner, begun, runs: list[CopyRun]) -> str:
    """The run as it is now, and where it is running a few steps later."""
    step, ended = 0, True
    try:
        run = begun()
        if run not in runs:
            runs[:] = [*[old for old in runs if old.step >= COMPARED][-1:], run]
        if runner.running:
            run.advance()
        step, ended = run.step, run.ended
        return picture(run, runs[0] if runs[0] is not run else None)
    finally:
        runner.answer(step > 0, ended)


@app.function
def picture(run: CopyRun, before: CopyRun | None = None) -> str:
    """Its rate, loss and gradients over the steps; what it copies, and where it looks meanwhile."""
    norm = f"{run.norms[-1]:.3g}" if run.norms else "none yet"
    rate = run.rates[min(run.step, len(run.rates) - 1)]
    summary = facts(
        {
            "step": f"{run.step} of {len(run.rates)}",
            "next learning rate": f"{rate:.2g}",
            "loss": f"{run.losses[-1]:.3f}",
            "gradient's norm": norm,
        }
    )
    return f'<div aria-live="off">{beside(strips(run, before), summary + copied(run) + looks(run))}</div>'


@app.function
def strips(run: CopyRun, before: CopyRun | None) -> str:
    """Three curves over the same steps, one above the other."""

    both = [run, before] if before else [run]

    def losses(copy_run: CopyRun) -> list[tuple[int, float]]:
        return [(EVERY * index, loss) for index, loss in enumerate(copy_run.losses)]

    def steps(numbers: list[float]) -> list[tuple[int, float]]:
        return list(enumerate(numbers, start=1))

    def past(lines: list[list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
        return dict(zip(("line hue-0", "before"), lines, strict=False))

    rates = past([steps(copy_run.rates) for copy_run in both])
    rates = {"planned": rates["line hue-0"], **rates, "line hue-0": steps(run.rates[: run.step])}
    # The rate's scale ends at a power of ten, so that its curve is seen to move with the factor.
    highest = max(rate for copy_run in both for rate in copy_run.rates)
    decade = 10.0 ** math.ceil(math.log10(highest)) if highest > 0 else 1.0
    shapes = [
        strip(0, "learning rate", rates, decade),
        strip(
            1,
            "loss on new sequences, −ln p",
            past([losses(copy_run) for copy_run in both]),
            GUESS,
            GUESS,
        ),
        strip(2, "norm of the gradient", past([steps(copy_run.norms) for copy_run in both]), 1),
    ]
    end = 3 * HIGH
    ticks = "".join(
        f'<text x="{across(step)}" y="{end + 14}" text-anchor="middle">{step}</text>'
        for step in range(0, STEPS + 1, 100)
    )
    mark = (
        f'<line class="mark" x1="{across(run.step)}" x2="{across(run.step)}" y1="20" y2="{end}"/>'
    )
    dashes = '<p class="caption">Dashed: the run before.</p>' if before else ""
    says = f"Learning rate, loss and norm of the gradient at each of {STEPS} steps, up to step {run.step}"
    return (
        f'<svg class="curves strips" viewBox="0 0 {WIDE} {end + 34}" role="img" aria-label="{says}">'
        f"{mark}{''.join(shapes)}{ticks}"
        f'<text x="{(LEFT + WIDE - RIGHT) / 2:g}" y="{end + 29}" text-anchor="middle">optimizer step</text>'
        f"</svg>{dashes}"
    )


@app.function
def across(step: int) -> str:
    """Where a step is, from the left."""
    return f"{LEFT + step / STEPS * (WIDE - LEFT - RIGHT):.1f}"


@app.function
def strip(
    row: int,
    name: str,
    lines: dict[str, list[tuple[int, float]]],
    least: float,
    level: float | None = None,
) -> str:
    """Curves of one kind: their heights at each step.

    Args:
        row: which strip it is, counted from above.
        name: what is drawn.
        lines: the points of each line, by its class.
        least: the scale goes from 0 to this at least, and to the largest height.
        level: a height to compare with, that of guessing.
    """
    floor, room = (row + 1) * HIGH - 6, HIGH - 30
    finite = {
        kind: [(step, height) for step, height in points if math.isfinite(height)]
        for kind, points in lines.items()
    }
    high = max([least, *(height for points in finite.values() for _, height in points)])

    def up(height: float) -> str:
        return f"{floor - height / high * room:.1f}"

    shapes = "".join(
        f'<polyline class="{kind}" points="'
        f'{" ".join(f"{across(step)},{up(height)}" for step, height in points)}"/>'
        for kind, points in finite.items()
    )
    if level is not None:
        shapes += (
            f'<line class="level" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{up(level)}" y2="{up(level)}"/>'
            f'<text x="{WIDE - RIGHT}" y="{float(up(level)) - 3:g}" text-anchor="end">guessing</text>'
        )
    return (
        f'<path class="axis" d="M{LEFT},{floor - room} V{floor} H{WIDE - RIGHT}"/>{shapes}'
        f'<text class="title" x="{LEFT + 6}" y="{floor - room - 8}">{escape(name)}</text>'
        f'<text x="{LEFT - 5}" y="{floor - room + 9}" text-anchor="end">{high:.2g}</text>'
        f'<text x="{LEFT - 5}" y="{floor}" text-anchor="end">0</text>'
    )


@app.function
def copied(run: CopyRun) -> str:
    """What it was given, and what it says, the wrong symbols marked."""
    output = " ".join(
        str(symbol) if symbol == expected else f"<mark>{symbol}</mark>"
        for symbol, expected in zip(run.said, run.source, strict=True)
    )
    pairs = list(zip(run.said, run.source, strict=True))[1:]  # the first symbol is always the same
    right = sum(symbol == expected for symbol, expected in pairs)
    return (
        f'<p class="copied"><span>source</span> <code>{" ".join(map(str, run.source))}</code><br>'
        f"<span>output</span> <code>{output}</code> <small>{right} of {len(pairs)} right</small></p>"
    )


@app.function
def looks(run: CopyRun) -> str:
    """The decoder's attention to the source, a square of cells for each head."""
    read, source = run.source[:-1], run.source
    across_all, down = CELL * (len(source) + 2), CELL * len(read)
    shapes = []
    for head, weights in enumerate(run.weights.tolist()):
        x = CELL + head * across_all
        shapes.append(f'<text x="{x}" y="12">head {head + 1}</text>')
        for row, line in enumerate(weights):
            y = 36 + CELL * row
            shapes.append(f'<text x="{x - 6}" y="{y + 16}" text-anchor="end">{read[row]}</text>')
            shapes += [
                f'<rect x="{x + CELL * column}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
                f'fill-opacity="{0.06 + 0.94 * weight if math.isfinite(weight) else 0:.2f}"/>'
                for column, weight in enumerate(line)
            ]
        shapes += [
            f'<text x="{x + CELL * column + CELL / 2:g}" y="30" text-anchor="middle">{symbol}</text>'
            for column, symbol in enumerate(source)
        ]
    says = "Cross-attention of the two heads: rows are target tokens, columns are source tokens"
    return (
        '<p class="caption">Cross-attention: a row for each target token, a column for each source token. To '
        "predict the next token, it must attend one position to the right.</p>"
        f'<svg class="curves looks-at" viewBox="0 0 {2 * across_all} {down + 38}" role="img" '
        f'aria-label="{says}">{"".join(shapes)}</svg>'
    )


@app.cell
def _():
    mo.md(
        r"""
        $\text{lrate} = \text{factor} \cdot d_\text{model}^{-0.5} \cdot
        \min(\text{step}^{-0.5},\; \text{step} \cdot \text{warmup}^{-1.5})$. A Transformer with one layer
        learns to copy sequences of eight symbols out of ten. The first symbol is given, so seven count. Stop
        the run to look at its attention. With a factor of 0.1 the model learns, but later. A different
        setting starts a new run; the same settings give the same run. With label smoothing the loss settles
        near $-\ln(1 - ε)$.
        """
    )
    return


if __name__ == "__main__":
    app.run()
