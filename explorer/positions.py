"""Positions: three ways to give them to a model."""

import marimo

app = marimo.App(
    width="full", app_title="Positions", css_file="page.css", html_head_file="start.html"
)

with app.setup:
    import math
    from html import escape

    import marimo as mo
    import numpy as np
    import torch

    from explorer import page
    from explorer.charts import LEFT, RIGHT, WIDTH, beside, curves, facts, tick
    from numpy_reference import positional_encoding, softmax

    ADDED, TURNED, PRICED = "sinusoids (added)", "RoPE (rotated)", "ALiBi (a bias)"
    DAY = {ADDED: 5, TURNED: 29, PRICED: 30}
    SLIDERS = {
        ADDED: ("place", "width"),
        TURNED: ("query", "key", "base"),
        PRICED: ("heads", "reader", "liking"),
    }

    PLACES = range(64)
    # Four pairs each, all of length 1, so that they differ in where they point alone.
    QUERY = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0]
    KEY = [0.6, 0.8, 1.0, 0.0, 0.8, -0.6, 0.6, 0.8]
    LIKED = 4  # the position of the key whose score can be raised


@app.cell
def _():
    page.head("positions")
    return


@app.cell
def _():
    controls = page.Controls()
    way = controls.one_of("way", "positions", tuple(DAY), ADDED)
    answers = controls.choice("answers", "computed by", (page.REFERENCE, page.OWN), page.REFERENCE)
    # All are made at once, so that each keeps its value while one looks at another way.
    sliders = mo.ui.dictionary(
        {
            "place": controls.slider("place", "position", PLACES, 5),
            "width": controls.slider("width", "width d_model", range(4, 17, 2), 16),
            "query": controls.slider("query", "position of the query, m", PLACES, 9),
            "key": controls.slider("key", "position of the key, n", PLACES, 4),
            "base": controls.slider("base", "base", (10, 100, 1000, 10_000, 500_000), 10_000),
            "heads": controls.slider("heads", "number of heads", range(1, 17), 8),
            "reader": controls.slider("reader", "position of the query", range(LIKED, 32), 20),
            "liking": controls.slider(
                "liking", f"score of the key at {LIKED}, all others 0", range(9), 3
            ),
        }
    )
    page.beside(way, answers)
    return answers, sliders, way


@app.cell
def _(sliders, way):
    page.beside(*(sliders[name] for name in SLIDERS[way.value]))
    return


@app.cell
def _(answers, way):
    parts = page.parts("positions", answers.value, DAY[way.value])
    return (parts,)


@app.function
def signed(value: float) -> str:
    """A number with its sign: a real minus, and none at a zero."""
    rounded = round(value, 2) + 0.0
    return f"{rounded:+.2f}".replace("-", "−") if rounded else "0.00"


@app.function
def clock(hands: dict[str, tuple[float, float]], below: list[str], says: str) -> str:
    """A dial with hands of length 1 or less.

    Args:
        hands: where each ends, to the right and upwards, by the name of its class.
        below: lines of text under it.
        says: what is seen, for those who do not see it.
    """
    ticks = "".join(
        f'<line class="tick" x1="0" y1="-46" x2="0" y2="-50" transform="rotate({30 * hour})"/>'
        for hour in range(12)
    )
    shapes = "".join(
        f'<line class="hand {name}" x1="0" y1="0" x2="{46 * right:.1f}" y2="{-46 * up:.1f}"/>'
        for name, (right, up) in hands.items()
    )
    caption = "".join(f"<div>{escape(line)}</div>" for line in below)
    return (
        f'<figure class="clock"><svg viewBox="-52 -52 104 104" role="img" aria-label="{escape(says)}">'
        f'<circle r="50"/>{ticks}{shapes}<circle class="pin" r="2.5"/></svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


@app.function
def legend(values: np.ndarray) -> str:
    """What the colors of a grid mean, to its right; minus is there only if any number is negative."""
    most = np.abs(values).max()
    entries = [("plus", most), ("ground", 0.0), *([("minus", -most)] if values.min() < 0 else [])]
    return "".join(
        f'<rect class="{kind}" x="492" y="{20 * row}" width="14" height="14"/>'
        f'<text class="legend" x="512" y="{20 * row + 12}">{tick(value)}</text>'
        for row, (kind, value) in enumerate(entries)
    )


@app.function
def heat(values: np.ndarray, rows: list[str], marked: int, across: str, says: str) -> str:
    """Numbers as a grid of colors, the darker the larger, with a column framed: too many to print.

    Args:
        values: a row for each of `rows`.
        marked: the column that is framed.
        across: what the columns are.
        says: what is seen, for those who do not see it.
    """
    height, columns = values.shape
    wide, tall = 480 / columns, max(180 / height, 13)
    # The same room on both sides as in `curves`, so that a position is at the same place in both; more where
    # the rows' names need it.
    scale = 480 / (WIDTH - LEFT - RIGHT)
    left, right = max(LEFT * scale, 8 * max(map(len, rows)) + 8), RIGHT * scale
    # One path for all squares of a shade: a browser draws twenty of them sooner than a thousand squares.
    shades = np.round(10 * values / (np.abs(values).max() or 1.0)).astype(int)
    squares = "".join(
        f'<path class="{"minus" if shade < 0 else "plus"}" opacity="{abs(shade) / 10:.1f}" d="'
        + "".join(
            f"M{column * wide:.1f},{row * tall:.1f}h{wide:.1f}v{tall:.1f}h{-wide:.1f}z"
            for row, column in np.argwhere(shades == shade)
        )
        + '"/>'
        for shade in np.unique(shades[shades != 0])
    )
    names = "".join(
        f'<text x="-6" y="{(row + 0.5) * tall + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        for row, name in enumerate(rows)
    )
    floor = height * tall
    return (
        f'<svg class="heat" viewBox="{-left:.1f} -4 {480 + left + right:.1f} {floor + 40:.0f}" role="img" '
        f'aria-label="{escape(says)}">{legend(values)}'
        f'<rect class="ground" width="480" height="{floor:.1f}"/>{squares}{names}'
        f'<rect class="frame" x="{marked * wide:.1f}" y="-2" width="{wide:.1f}" height="{floor + 4:.1f}"/>'
        f'<text x="0" y="{floor + 16:.0f}">0</text>'
        f'<text x="480" y="{floor + 16:.0f}" text-anchor="end">{columns - 1}</text>'
        f'<text x="240" y="{floor + 30:.0f}" text-anchor="middle">{escape(across)}</text></svg>'
    )


@app.function
def added(parts, position: int, width: int) -> str:
    """The sinusoids of a position: as hands of clocks, as a column of the table, and beside the others'."""
    table = parts.positional_encoding(len(PLACES), width)
    clocks = []
    for pair in range(width // 2):
        sine, cosine = table[position, 2 * pair : 2 * pair + 2]
        numbers = [f"{2 * pair}: {signed(sine)}", f"{2 * pair + 1}: {signed(cosine)}"]
        label = f"pair {pair} at position {position}: sine {sine:.2f}, cosine {cosine:.2f}"
        clocks.append(clock({"place": (sine, cosine)}, numbers, label))
    likeness = {"": (table @ table[position]).tolist()}
    rows = [str(row) for row in range(width)]
    says = f"the table: {width} features of {len(PLACES)} positions; {position} is framed"
    return beside(
        f'<p class="caption">Features of position {position}: sine to the right, cosine upwards</p>'
        f'<div class="clocks">{"".join(clocks)}</div>',
        '<p class="caption">A row for each feature, a column for each position</p>'
        + heat(table.T, rows, position, "position", says)
        + curves(PLACES, likeness, "position", f"product with position {position}", position),
    )


@app.function
def turned(parts, query: int, key: int, base: float) -> str:
    """A query and a key, turned by their positions, and their product there and elsewhere."""
    count = 2 * len(PLACES) - 1  # as far as the later of the two can come
    angles = parts.rope_angles(len(QUERY), count, base)
    # The query and the key at every position.
    queries = parts.apply_rope(torch.tensor(QUERY, dtype=torch.float64).expand(count, -1), angles)
    keys = parts.apply_rope(torch.tensor(KEY, dtype=torch.float64).expand(count, -1), angles)
    products = (queries[query] * keys[key]).unflatten(-1, (-1, 2)).sum(dim=-1)  # (pairs,)
    clocks = []
    for pair, product in enumerate(products.tolist()):
        two = slice(2 * pair, 2 * pair + 2)
        hands = {
            "query before": tuple(QUERY[two]),
            "key before": tuple(KEY[two]),
            "query": tuple(queries[query, two].tolist()),
            "key": tuple(keys[key, two].tolist()),
        }
        step = math.degrees(angles[1, pair])
        numbers = [f"{step:.3g}° per position", f"product {signed(product)}"]
        clocks.append(clock(hands, numbers, f"pair {pair}: {', '.join(numbers)}"))

    # The same two words, as far apart, from the start of the text on.
    starts = torch.tensor(PLACES)
    m, n = starts + max(query - key, 0), starts + max(key - query, 0)
    table = torch.from_numpy(positional_encoding(count, len(QUERY)))
    sums = (torch.tensor(QUERY) + table)[m] * (torch.tensor(KEY) + table)[n]
    moved = {
        "rotated": (queries[m] * keys[n]).sum(dim=-1).tolist(),
        "added": sums.sum(dim=-1).tolist(),
    }
    distances = range(1 - len(PLACES), len(PLACES))
    apart = [float(queries[max(distance, 0)] @ keys[max(-distance, 0)]) for distance in distances]
    summary = facts(
        {
            "m − n": str(query - key),
            "score, the sum of the products": f"{products.sum():.3f}",
            "score, not rotated": f"{np.dot(QUERY, KEY):.3f}",
        }
    )
    elsewhere = f"position of the earlier token; the other is {abs(query - key)} after it"
    return beside(
        f'<p class="caption"><span class="swatch query"></span>query at {query}, '
        f'<span class="swatch key"></span>key at {key}; faint: before the rotation</p>'
        f'<div class="clocks">{"".join(clocks)}</div>'
        + curves(distances, {"rotated": apart}, "distance m − n", "score", query - key),
        curves(PLACES, moved, elsewhere, "score", min(query, key)) + summary,
    )


@app.function
def priced(parts, heads: int, reader: int, liking: float) -> str:
    """What each head subtracts from a score, and the attention that results."""
    slopes = parts.alibi_slopes(heads).tolist()
    count = reader + 1  # a causal model: the query is the last
    bias = parts.alibi_bias(heads, 1, count)[:, 0].numpy()  # (heads, count)
    scores = np.zeros(count)
    scores[LIKED] = liking
    weights = softmax(scores + bias)
    back = bias[:, ::-1] + 0.0  # from the query on; and no zero with a minus
    lines = {f"head {head}": line.tolist() for head, line in enumerate(back, start=1)}
    rows = [f"{head}: {slope:.2g}" for head, slope in enumerate(slopes, start=1)]
    says = f"weights of {heads} heads on {count} keys; the key at {LIKED} is framed"
    liked = weights[:, LIKED]
    summary = facts(
        {
            "steepest slope": f"{max(slopes):.4g}",
            "flattest slope": f"{min(slopes):.4g}",
            f"weight of the key at {LIKED}": f"{liked.min():.3f} to {liked.max():.3f}",
        }
    )
    return beside(
        curves(range(count), lines, "positions back from the query", "added to the score"),
        f'<p class="caption">Weights of the query at {reader}, a row for each head with its slope</p>'
        + heat(weights, rows, LIKED, "position of the key", says)
        + summary,
    )


@app.cell
def _(parts, sliders, way):
    _draw = {ADDED: added, TURNED: turned, PRICED: priced}[way.value]
    _values = [sliders.value[name] for name in SLIDERS[way.value]]
    page.shown(lambda: _draw(parts, *_values), parts)
    return


@app.cell
def _(way):
    mo.md(
        {
            ADDED: r"""
            Pair $i$ rotates by $10000^{-2i/d}$ radians per position; $PE_{p,2i}$ is the sine of its angle,
            and $PE_{p,2i+1}$ the cosine. The fast pairs distinguish neighboring positions, and the slow ones
            distinguish early from late. This vector is added to the token's embedding. The dot
            product of two positions is large for neighbors, wherever they are. With so few pairs, it can be
            large again for positions far apart.
            """,
            TURNED: r"""
            Nothing is added. Pair $i$ of the query is rotated by $m\theta_i$, and pair $i$ of the key by
            $n\theta_i$, with $\theta_i = \text{base}^{-2i/d}$. The dot product of two vectors depends only on
            their lengths and the angle between them, so the score depends on $m - n$ only. It is a sum of
            one cosine of $m - n$ for each pair, and so it rises and falls with the distance. With sinusoids
            added to the same two vectors, the score also depends on where the two are.
            """,
            PRICED: r"""
            Nothing is added to the embeddings, and nothing is rotated: the head's slope is subtracted from
            the score once for each position between query and key. Heads with a steep slope attend to what
            is near, and those with a flat slope to the entire sequence. The bias forbids nothing: raise the
            score of a key that is far away, and the heads with a flat slope attend to it first.
            """,
        }[way.value]
    )
    return


if __name__ == "__main__":
    app.run()
