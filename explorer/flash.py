"""Flash attention: a softmax that is computed tile by tile."""

import marimo

app = marimo.App(
    width="full",
    app_title="Flash attention, tile by tile",
    css_file="page.css",
    html_head_file="start.html",
)

with app.setup:
    import math
    from dataclasses import dataclass

    import marimo as mo
    import numpy as np
    import torch
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    from explorer import page
    from explorer.charts import facts, numbers
    from implementation import attention, subsequent_mask
    from variants import flash

    LENGTHS = range(4, 17)
    BLOCKS = range(1, 5)
    DRAWS = range(1, 10)
    WIDTH = 4  # of queries, keys and values
    # Of the queries: with less, scores differ too little for a maximum to be seen rising
    SPREAD = 2.5


@app.cell
def _():
    page.head("flash")
    return


@app.cell
def _():
    controls = page.Controls()
    length = controls.slider("length", "tokens T", LENGTHS, 12)
    block = controls.slider("block", "block, the side of a tile", BLOCKS, 3)
    draw = controls.slider("draw", "random seed", DRAWS, 1)
    causal = controls.switch("causal", "causal mask")
    answers = controls.answers("flash")
    page.beside(length, block, draw, mo.vstack([causal, answers], gap=0))
    return answers, block, causal, controls, draw, length


@app.cell
def _(block, causal, draw, length):
    inputs = vectors(length.value, draw.value)
    tiles = tiles_of(inputs, block.value, causal.value)
    return inputs, tiles


@app.cell
def _(controls, tiles):
    pressed, press = mo.state(0)
    previous, following = (
        mo.ui.button(
            label=label,
            on_click=lambda _, by=by: press(controls.move("tile", by, range(1, len(tiles) + 1), 1)),
        )
        for label, by in (("previous tile", -1), ("next tile", 1))
    )
    return following, pressed, previous


@app.cell
def _(controls, following, pressed, previous, tiles):
    pressed()  # a button has moved the slider
    at = controls.slider("tile", "tile", range(1, len(tiles) + 1), 1)
    _stepper = page.beside(at, mo.hstack([previous, following], justify="start"))
    mo.Html(f'<div class="stepper">{_stepper.text}</div>')
    return (at,)


@app.cell
def _(answers):
    parts = page.parts("flash", answers.value)
    return (parts,)


@app.function
def vectors(length: int, draw: int) -> Tensor:
    """Queries, keys and values, `(3, length, WIDTH)`: always the same ones of a number."""
    inputs = torch.randn(3, length, WIDTH, generator=torch.Generator().manual_seed(draw))
    inputs[0] *= SPREAD
    return inputs


@app.class_definition
@dataclass(frozen=True)
class Tile:
    """What the reference has in hand after one tile, in its own names.

    `scores` and `weights` are of the tile, `(B_r, B_c)`; `before`, `highest`, `shrink` and `total` are of its
    queries, `(B_r, 1)`, `before` being the highest score of earlier tiles; `mixed` is `(B_r, WIDTH)`.
    """

    rows: slice
    columns: slice
    scores: Tensor
    before: Tensor
    highest: Tensor
    shrink: Tensor
    weights: Tensor
    total: Tensor
    mixed: Tensor


@app.class_definition
class TileRecorder(TorchFunctionMode):
    """Record the tiles that the reference's `flash_attention` computes within the context.

    The reference does not return its running values, so they are copied as its operations compute them.
    """

    def __init__(self):
        super().__init__()
        self.tiles: list[Tile] = []
        self._taken = slice(0)  # what was last cut from queries, keys or values
        self._now: dict = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name, now = function.__name__, self._now
        if name == "__getitem__":
            self._taken = args[1][-1]
        elif name == "new_full":  # a block of queries begins
            now["rows"] = self._taken
        elif name == "amax":
            now["columns"], now["scores"] = self._taken, args[0][0].clone()
        elif name == "maximum":
            now["before"] = args[0][0].clone()
        result = function(*args, **(kwargs or {}))
        if name == "maximum":
            now["highest"] = result[0].clone()
        elif name == "exp":  # first the factor that scales down, then the weights
            now["weights" if "shrink" in now else "shrink"] = result[0].clone()
        elif name == "add" and "weights" in now and "total" not in now:  # the normalizer
            now["total"] = result[0].clone()
        elif name == "add" and "total" in now:  # the accumulator
            self.tiles.append(Tile(**now, mixed=result[0].clone()))
            self._now = {"rows": now["rows"]}
        return result


@app.function
def tiles_of(inputs: Tensor, block: int, causal: bool) -> list[Tile]:
    """All tiles, in the order in which the reference computes them."""
    with TileRecorder() as recorder:
        flash.flash_attention(*inputs, block, causal)
    return recorder.tiles


@app.function
def compared(parts, inputs: Tensor, rows: slice, keys: slice, block: int, causal: bool) -> tuple:
    """The output of some queries over the first keys; and how far it is from day 8's, at most."""
    query, key, value = inputs[0, rows], inputs[1, keys], inputs[2, keys]
    output = parts.flash_attention(query, key, value, block, causal)
    mask = subsequent_mask(inputs.size(1))[0, rows, keys] if causal else None
    expected, _ = attention(query, key, value, mask)
    return output, (output - expected).abs().max().item()


@app.function
def numbered(name: str, some: slice) -> str:
    """Such as `queries 3 to 5`."""
    plural = {"query": "queries", "key": "keys"}[name]
    last = some.stop - 1
    return f"{name} {last}" if some.start == last else f"{plural} {some.start} to {last}"


@app.function
def told(tiles: list[Tile], at: int) -> str:
    """What happens in this tile, in words."""
    tile = tiles[at]
    words = [f"Tile {at + 1} of {len(tiles)}: {numbered('query', tile.rows)}"]
    words[0] += f" against {numbered('key', tile.columns)}."
    risen = [
        f"query {row} by {shrink:.2f}"
        for row, shrink in enumerate(tile.shrink[:, 0].tolist(), tile.rows.start)
        if shrink < 1
    ]
    if tile.columns.start == 0:
        words.append("Nothing has been summed yet, and the first maximum is taken as it is.")
    elif risen:
        words.append(f"A higher score comes, and scales down what was summed: {', '.join(risen)}.")
    else:
        words.append("No score is higher than those before: what was summed stays as it is.")
    if at + 1 == len(tiles) or tiles[at + 1].rows != tile.rows:
        words.append("These queries have met all their keys: O / ℓ is their output.")
    return " ".join(words)


@app.function
def grid(tiles: list[Tile], at: int, length: int) -> str:
    """Every score there is: the tile in hand in the colors of its weights, those forgotten, those to come.

    Around them lie keys and values (above), queries (left) and outputs (right), those in hand lit.
    """
    side, edge, now = 300 / length, 26, tiles[at]

    def square(kind: str, rows: slice, columns: slice, style: str = "") -> str:
        x, y = edge + columns.start * side, edge + rows.start * side
        width, height = (columns.stop - columns.start) * side, (rows.stop - rows.start) * side
        return (
            f'<rect class="{kind}" {style} x="{x:.1f}" y="{y:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}"/>'
        )

    def strip(taken: slice, done: int, attributes: str) -> str:
        kinds = ["done"] * done + [""] * (length - done)
        kinds[taken] = ["taken"] * (taken.stop - taken.start)
        return "".join(
            f'<rect class="{kind}" {attributes.format(f"{edge + step * side:.1f}")}/>'
            for step, kind in enumerate(kinds)
        )

    upright = f'y="{{}}" width="12" height="{side:.1f}"'
    finished = length if at + 1 == len(tiles) else now.rows.start
    shapes = [
        '<defs><pattern id="never" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0,6 L6,0"/></pattern></defs>',
        strip(now.columns, 0, f'x="{{}}" y="6" height="12" width="{side:.1f}"'),
        strip(now.rows, 0, f'x="6" {upright}'),
        strip(now.rows, finished, f'x="{edge + 308}" {upright}'),
        square("never", slice(0, length), slice(0, length)),
    ]
    for index, tile in enumerate(tiles):
        shapes.append(square("done" if index < at else "", tile.rows, tile.columns))
        for row, column in tile.scores.isinf().nonzero().tolist():
            row, column = tile.rows.start + row, tile.columns.start + column
            shapes.append(square("never", slice(row, row + 1), slice(column, column + 1)))
    for (row, column), weight in np.ndenumerate(now.weights.numpy()):
        row, column = now.rows.start + row, now.columns.start + column
        style = f'style="--share:{100 * weight:.0f}%"'
        shapes.append(square("cell", slice(row, row + 1), slice(column, column + 1), style))
    shapes.append(square("frame", now.rows, now.columns))
    says = f"{numbered('query', now.rows)} against {numbered('key', now.columns)}"
    return (
        f'<svg class="tiles" viewBox="0 0 352 346" role="img" aria-label="{says}">{"".join(shapes)}'
        '<text x="26" y="342">left: Q; above: K and V; right: O</text></svg>'
    )


@app.function
def steps(tile: Tile, previous: Tile | None, output: Tensor) -> str:
    """A tile's numbers: a row for each query, in which one step follows another from left to right."""
    keys = [f"k{column}" for column in range(tile.columns.start, tile.columns.stop)]
    features = [f"{feature}" for feature in range(WIDTH)]
    lowest = torch.finfo(tile.before.dtype).min  # where the reference begins
    before = tile.before.masked_fill(tile.before == lowest, -torch.inf)
    total = torch.zeros_like(tile.total) if previous is None else previous.total
    plain = math.inf  # numbers of different kinds: no colors
    groups = (
        (
            "1. Scores S",
            keys,
            tile.scores,
            tile.scores.nan_to_num(neginf=0).abs().max().item() or 1,
        ),
        (
            "2. Maximum",
            ("m", "m′", "e<sup>m−m′</sup>"),
            torch.cat([before, tile.highest, tile.shrink], -1),
            plain,
        ),
        ("3. P = e<sup>S−m′</sup>", keys, tile.weights, 1),
        ("4. Sum", ("ℓ", "ℓ′"), torch.cat([total, tile.total], -1), plain),
        ("5. O, the mixed values", features, tile.mixed, tile.mixed.abs().max().item()),
        ("6. O / ℓ′, the output", features, output, output.abs().max().item()),
    )
    captions = "".join(f'<th colspan="{len(names)}">{title}</th>' for title, names, _, _ in groups)
    columns = "".join(f'<th scope="col">{name}</th>' for _, names, _, _ in groups for name in names)
    body = "".join(
        f'<tr><th scope="row">q{row}</th>'
        + "".join(
            numbers(values[index].tolist(), most, 2).replace("<td", f'<td data-step="{step}"')
            for step, (_, _, values, most) in enumerate(groups, 1)
        )
        + "</tr>"
        for index, row in enumerate(range(tile.rows.start, tile.rows.stop))
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="the steps of this tile">'
        f'<table class="cells tile-numbers"><thead><tr><td></td>{captions}</tr><tr><td></td>{columns}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


@app.function
def picture(parts, inputs: Tensor, tiles: list[Tile], at: int, block: int, causal: bool) -> str:
    """Tile number `at`, counted from 0: where it is, what is computed from it, and what is in memory."""
    tile = tiles[at]
    met = slice(0, tile.columns.stop)
    later = bool(
        tile.scores.isinf().any()
    )  # keys that the tile's queries may not see: at their end
    output, apart = compared(parts, inputs, tile.rows, met, block, later)
    stored = {"tile": tile.scores, "m": tile.highest, "ℓ": tile.total, "O": tile.mixed}
    counts = ", ".join(f"{name} {tensor.numel()}" for name, tensor in stored.items())
    _, weights = attention(*inputs)
    told_of = {
        "held besides Q, K, V": f"{sum(tensor.numel() for tensor in stored.values())} numbers: {counts}",
        "ordinary attention holds": f"{weights.numel()} weights",
        "step 6 differs from it by at most": f"{apart:.0e}",
    }
    if at + 1 == len(tiles):
        everything = slice(0, inputs.size(1))
        _, apart = compared(parts, inputs, everything, everything, block, causal)
        told_of["all outputs differ by at most"] = f"{apart:.0e}"
    table = steps(tile, tiles[at - 1] if tile.columns.start else None, output)
    return (
        f'<p class="happens">{told(tiles, at)}</p><div class="tiled">'
        f"{grid(tiles, at, inputs.size(1))}<div>{table}{facts(told_of)}</div></div>"
    )


@app.cell
def _(at, block, causal, inputs, parts, tiles):
    page.shown(
        lambda: picture(parts, inputs, tiles, at.value - 1, block.value, causal.value), parts
    )
    return


@app.cell
def _():
    mo.md(
        r"""
        $m' = \max(m, \text{rowmax } S)$, and the sums computed with $m$ are multiplied by $e^{m-m'}$: then
        they are what they would be if $m'$ had been subtracted from the start. So a block of queries needs
        only one tile at a time and never returns to it. Steps 1 to 5 are read from the reference while it
        runs; step 6 is what `flash_attention` returns if the keys end here. Day 8's attention over the same
        keys gives the same result up to rounding.
        """
    )
    return


if __name__ == "__main__":
    app.run()
