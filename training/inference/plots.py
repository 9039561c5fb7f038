"""Pictures of a run: its metrics, and what its model attends to."""

from __future__ import annotations

import functools
import io
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from training.checkpoints import write_atomically
from training.inference.trained_model import AttentionMap
from training.loop.monitor import read_metrics
from training.loop.run_folder import Run

TRAINING, VALIDATION = "#3b6fb6", "#d1495b"
DPI = 130
MAX_PIXELS = 12_000  # of a picture's longer side
MAX_TOKENS, MAX_HEADS, MAX_MAPS = 24, 16, 24  # that are drawn
MAX_LABEL_LENGTH = 12  # characters of a token's name
CELL, LETTER, GAP = 0.17, 0.075, 0.3  # inches: a weight, a letter of a label, between two panels
HEAD = 0.35  # inches above a panel, for its title

# Without dates, so that the same picture is the same file.
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


# --- How it went ----------------------------------------------------------------------------------


def draw_curves(run: Run) -> None:
    """Draw loss, perplexity, throughput and learning rate over the steps, as `curves.png`.

    Raises:
        OSError: the picture could not be written.
    """
    rows = read_metrics(run)
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4), sharex=True, layout="constrained", dpi=DPI)
    (loss, perplexity), (pace, rate) = axes
    for plot, title, name in (
        (loss, "loss per token", "loss"),
        (perplexity, "perplexity", "perplexity"),
        (pace, "tokens per second", "tokens_per_second"),
        (rate, "learning rate", "learning_rate"),
    ):
        _line(plot, rows, name, TRAINING, "training")
        if name in ("loss", "perplexity"):
            _line(plot, rows, f"validation_{name}", VALIDATION, "validation")
            plot.legend(frameon=False)
        plot.set_title(title, loc="left", fontsize=11)
        plot.grid(alpha=0.25)
        plot.spines[["top", "right"]].set_visible(False)
    low, high = perplexity.dataLim.intervaly
    if high > 4 * low > 0:  # else there might be nothing to read on the axis
        perplexity.set_yscale("log")
        perplexity.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        perplexity.yaxis.set_minor_formatter(NullFormatter())
    pace.set_ylim(bottom=0)
    for axis in (perplexity.yaxis, pace.yaxis, pace.xaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    rate.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    for plot in (pace, rate):
        plot.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
        plot.set_xlabel("step")
    write_figure(figure, run.curves)


def _line(
    plot: Axes, rows: Sequence[dict[str, float | None]], name: str, color: str, label: str
) -> None:
    points = [(row["step"], row[name]) for row in rows if row[name] is not None]
    steps, values = [step for step, _ in points], [value for _, value in points]
    mark = "." if len(points) < 60 else ""
    plot.plot(steps, values, color=color, label=label, linewidth=1.4, marker=mark)  # type: ignore[arg-type]


# --- What it attends to ---------------------------------------------------------------------------


def draw_attention(maps: Sequence[AttentionMap], path: Path) -> None:
    """Draw every layer (a row) and head (a column), with the tokens on the axes: a row of a panel
    is a query position, a column a key position.

    Raises:
        OSError: the picture could not be written.
    """
    shown = [_cut(attention) for attention in maps[:MAX_MAPS]]
    heads = min(maps[0].weights.size(0), MAX_HEADS)
    beside = 0.6 + LETTER * max(len(name) for attention in shown for name in attention.rows)
    below = [0.15 + LETTER * max(map(len, attention.columns)) for attention in shown]
    pitch = CELL * max(max(len(attention.columns) for attention in shown), 9) + GAP
    heights = [
        HEAD + CELL * len(attention.rows) + under
        for attention, under in zip(shown, below, strict=True)
    ]
    width, height = beside + heads * pitch + 1.0, 0.5 + sum(heights)
    figure = plt.figure(
        figsize=(width, height), dpi=max(30, min(DPI, MAX_PIXELS / max(width, height)))
    )
    words = ["rows: the position that looks · columns: what it looks at", *_left_out(maps)]
    figure.text(0.15 / width, 1 - 0.12 / height, "\n".join(words), va="top", fontsize=9)
    top = height - 0.4
    for attention, tall in zip(shown, heights, strict=True):
        for head in range(heads):
            size = CELL * len(attention.columns), CELL * len(attention.rows)
            corner = beside + head * pitch, top - HEAD - size[1]
            plot = figure.add_axes(
                (corner[0] / width, corner[1] / height, size[0] / width, size[1] / height)
            )
            image = _panel(plot, attention, head)
        top -= tall
    bar = figure.add_axes((1 - 0.75 / width, 1 - 2.6 / height, 0.12 / width, 1.8 / height))
    figure.colorbar(image, cax=bar)
    bar.tick_params(labelsize=7)
    bar.set_title("weight", fontsize=8)
    write_figure(figure, path)


def _panel(plot: Axes, attention: AttentionMap, head: int) -> matplotlib.image.AxesImage:
    image = plot.imshow(
        attention.weights[head].numpy(), cmap="viridis", vmin=0, vmax=1, aspect="auto"
    )
    rows = attention.rows if head == 0 else []
    # Tokens are no formulas, whatever dollars are in them.
    plot.set_xticks(
        range(len(attention.columns)), attention.columns, rotation=90, fontsize=7, parse_math=False
    )
    plot.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
    plot.tick_params(length=0)
    title = f"{attention.title} · head {head + 1}" if head == 0 else f"head {head + 1}"
    plot.set_title(title, fontsize=8, loc="left")
    return image


def _cut(attention: AttentionMap) -> AttentionMap:
    """The first tokens, with names that can be drawn."""
    rows, columns = attention.rows[:MAX_TOKENS], attention.columns[:MAX_TOKENS]
    weights = attention.weights[:, : len(rows), : len(columns)].float()
    return AttentionMap(attention.title, weights, list(map(label, rows)), list(map(label, columns)))


def _left_out(maps: Sequence[AttentionMap]) -> list[str]:
    """What is not drawn, in a line, if anything is not."""
    counts = {
        "tokens": (
            MAX_TOKENS,
            max(max(len(attention.rows), len(attention.columns)) for attention in maps),
        ),
        "heads": (MAX_HEADS, maps[0].weights.size(0)),
        "kinds of attention": (MAX_MAPS, len(maps)),
    }
    some = [f"{most} of {n} {what}" for what, (most, n) in counts.items() if n > most]
    return [f"only the first {', '.join(some)}"] if some else []


def label(token: str) -> str:
    """Return a printable label of a token: characters that are invisible or missing in the font are
    shown by number."""
    signs = {"\t": "⇥", "\n": "⏎", "\r": "␍", " ": "␣"}
    text = "".join(signs.get(sign) or _drawable(sign) for sign in token)
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 1]}…"


def _drawable(sign: str) -> str:
    visible = unicodedata.category(sign)[0] not in "CMZ"
    return sign if visible and ord(sign) in _glyphs() else f"U+{ord(sign):X}"


@functools.cache
def _glyphs() -> frozenset[int]:
    """What the usual font can draw."""
    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure completely or not at all, so that a full disk leaves no partial picture."""
    ending = path.suffix.lower()
    body = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")
            figure.savefig(body, format=ending[1:], metadata=METADATA[ending])
    finally:
        plt.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, body.getvalue())
