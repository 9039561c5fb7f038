"""What `course assemble` shows: the progress of training, the origin of the parts, and the attention
weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from course.assembly.assembling import Assembled
from course.assembly.copy_task import HELD_OUT, CopyProgress
from course.judging.messages import describe_raised
from course.judging.results import DayResult
from course.terminal.display import printed, safe

SHADES = " ░▒▓█"
EVERY = 5  # rounds between two lines where there is no terminal


@contextmanager
def training(console: Console) -> Iterator[Callable[[CopyProgress], None]]:
    """Show a bar that follows the reports; without a terminal, print a plain line now and then."""
    if not console.is_terminal:
        reports: list[CopyProgress] = []

        def line(progress: CopyProgress) -> None:
            reports.append(progress)
            if len(reports) % EVERY == 1:
                console.print(f"step {progress.step}: {_words(progress)}")

        yield line
        return
    columns = TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bar(*columns, TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("the first steps", total=None)

        def move(progress: CopyProgress) -> None:
            bar.update(
                task,
                completed=progress.step,
                total=progress.max_steps,
                description=_words(progress),
            )

        yield move


def _words(progress: CopyProgress) -> str:
    return f"loss {progress.loss:.3f}, {progress.exact:.0%} of a sample copied"


def warning(failing: Sequence[DayResult]) -> RenderableType:
    """Name the days that fail, before training."""
    lines = [
        Text.assemble(
            ("✘ ", "failed"),
            f"Day {result.day.number} · {result.day.title}: "
            f"{result.passed} of {result.total} checks pass",
        )
        for result in failing
    ]
    numbers = " ".join(str(result.day.number) for result in failing)
    advice = f"What fails here may spoil the training. `course check {numbers}` tells more."
    return Group(*lines, Text(advice, "quiet"))


def report(result: Assembled) -> RenderableType:
    """Show whose parts they are, what went wrong, and what attention looks at."""
    lines: list[RenderableType] = []
    if result.own:
        lines.append(Text.assemble((f"Yours ({len(result.own)}): ", "bold"), ", ".join(result.own)))
    for reason, names in result.filled.items():
        head = safe(f"From the reference ({len(names)}), {reason}: ")
        lines.append(Text.assemble(head, (", ".join(names), "quiet")))
    if result.printed.strip():
        lines += printed(result.printed)
    if result.problem is not None:
        lines += ["", safe(describe_raised(result.problem))]
        lines.append(Text("`course check` tells which part is wrong.", "quiet"))
    if result.attention:
        lines += ["", *_attention(result.attention)]
    return Group(*lines)


def _attention(layers: list[Any]) -> Iterator[RenderableType]:
    """The decoder's attention to the source, the mean over the heads, one map for each layer."""
    yield Text("What each output token (rows) looked at in the source (columns), mean of the heads")
    maps = Table.grid(padding=(0, 4, 0, 0))
    maps.add_row(*(Text(f"layer {number}", "quiet") for number in range(1, len(layers) + 1)))
    maps.add_row(*(_shaded(np.asarray(layer).mean(axis=0)) for layer in layers))
    yield Padding(maps, (0, 0, 1, 2))


def _shaded(weights: Any) -> Text:
    """Weights as blocks, two characters each, so that a square looks square."""
    steps = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    return Text("\n".join("".join(2 * SHADES[step] for step in row) for row in steps))


def verdict(result: Assembled) -> Text:
    """Print the last line."""
    style = "passed" if result.exact == 1.0 else "failed"
    share = int(1000 * result.exact) / 10  # 999.9 of 1000 is not 100 %
    return Text(f"copy task: {share:.1f}% of {HELD_OUT} held-out sequences exact", style)


def draw(layers: list[Any], path: Path) -> None:
    """Draw every layer and head."""
    import matplotlib  # takes a second to import

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    heads = np.asarray(layers[0]).shape[0]
    figure, axes = plt.subplots(
        len(layers), heads, figsize=(2.2 * heads, 2.5 * len(layers)), squeeze=False, dpi=150
    )
    for number, (row, layer) in enumerate(zip(axes, layers, strict=True), 1):
        for head, (plot, weights) in enumerate(zip(row, np.asarray(layer), strict=True), 1):
            image = plot.imshow(weights, cmap="viridis", vmin=0, vmax=1)
            plot.set_title(f"layer {number}, head {head}", fontsize=9)
            plot.tick_params(labelsize=7)
            for axis in (plot.xaxis, plot.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))  # no token is at 2.5
    for plot in axes[-1]:
        plot.set_xlabel("source position", fontsize=8)
    for plot in axes[:, 0]:
        plot.set_ylabel("output position", fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.7, label="attention weight")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
