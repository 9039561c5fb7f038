"""Pictures of a run: how it went, and what its model attends to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from training.inference import Attention
from training.monitor import read_metrics
from training.run import Run

TRAINING, VALIDATION = "#3b6fb6", "#d1495b"


def draw_curves(run: Run) -> None:
    """Loss, perplexity, throughput and learning rate over the steps, as `curves.png`."""
    rows = read_metrics(run)
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4), sharex=True, layout="constrained", dpi=130)
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
    perplexity.set_yscale("log")
    pace.set_ylim(bottom=0)
    for plot in (pace, rate):
        plot.set_xlabel("step")
    _write(figure, run.curves)


def _line(
    plot: Axes, rows: Sequence[dict[str, float | None]], name: str, colour: str, label: str
) -> None:
    points = [(row["step"], row[name]) for row in rows if row[name] is not None]
    steps, values = [step for step, _ in points], [value for _, value in points]
    mark = "." if len(points) < 60 else ""
    plot.plot(steps, values, color=colour, label=label, linewidth=1.4, marker=mark)  # type: ignore[arg-type]


def draw_attention(maps: Sequence[Attention], path: Path) -> None:
    """Every layer (a row) and head (a column), with the tokens on the axes."""
    heads = maps[0].weights.size(0)
    tallest = max(len(one.rows) for one in maps)
    widest = max(len(one.columns) for one in maps)
    size = 0.17 * max(tallest, widest, 9) + 0.9
    figure, axes = plt.subplots(
        len(maps),
        heads,
        figsize=(size * heads, size * len(maps)),
        squeeze=False,
        layout="constrained",
        dpi=max(40, min(130, 12_000 / (size * max(heads, len(maps))))),
    )
    for row, one in zip(axes, maps, strict=True):
        for head, plot in enumerate(row):
            image = plot.imshow(one.weights[head].numpy(), cmap="viridis", vmin=0, vmax=1)
            plot.set_xticks(range(len(one.columns)), one.columns, rotation=90, fontsize=7)
            plot.set_yticks(range(len(one.rows)), one.rows if head == 0 else [], fontsize=7)
            plot.tick_params(length=0)
            plot.set_title(f"{one.title} · head {head + 1}", fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.5, label="attention weight", fraction=0.02)
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
