"""Which pictures a study's report has, and their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laboratory.report import induction_picture, panels
from laboratory.report.comparison import Compared
from laboratory.report.digits import significant
from laboratory.report.isoflop import Cellwise, cellwise, joint, spend
from laboratory.report.panels import levels
from laboratory.report.style import INK, MARKS, STYLE, WIDTH, as_svg, logarithmic, short
from laboratory.study.description import Picture, Study
from laboratory.study.results import Results
from training.checkpoints import write_whole
from training.errors import Refused

HEIGHT = 3.6  # inches
SHADES = 0.0, 0.82  # of viridis, whose lightest yellow is hardly seen on white


@dataclass(frozen=True)
class PictureFile:
    """A picture's file in the study's folder, and its alternative text."""

    file: str
    words: str


LAWS = PictureFile(
    "loss_by_size.svg", "Loss against parameters, for each number of tokens, with the law that fits"
)
PROFILES = PictureFile(
    "equal_compute.svg", "Loss against parameters at equal compute, with parabolas and minima"
)
HEADS = PictureFile(
    induction_picture.PICTURE, "Scores of each head over the steps, and what switching it off costs"
)


RATES = PictureFile(
    "loss_by_rate.svg", "Loss of the trial runs against the factor of the learning rate, by variant"
)


def pictures(study: Study, results: Results) -> list[PictureFile]:
    """The pictures that a study with these results has."""
    own = {"": [], "scaling": [PROFILES, LAWS], "induction": [HEADS]}[study.analysis]
    asked = [PictureFile(_file(one), _words(study, one)) for one in study.pictures]
    return [*own, *asked, *([RATES] if results.trials else [])]


def draw(study: Study, results: Results, folder: Path) -> None:
    """Write all pictures into a folder, without dates: equal results give equal bytes.

    Raises:
        Refused: results of another study.
        OSError: a file could not be written.
    """
    compared = Compared(study, results)
    if study.analysis == "induction":
        induction_picture.draw(results, folder)
    with matplotlib.rc_context(STYLE):
        if study.analysis == "scaling":
            cells = cellwise(study, results)[0]
            write_whole(folder / PROFILES.file, as_svg(_equal_compute(cells, results.counted)))
            write_whole(folder / LAWS.file, as_svg(_by_size(cells, results.counted)))
        if results.trials:
            write_whole(folder / RATES.file, as_svg(panels.rates(compared)))
        for one in study.pictures:
            write_whole(folder / _file(one), as_svg(panels.KINDS[one.kind](compared, one)))


def _file(picture: Picture) -> str:
    return f"{picture.y}_{f'against_{picture.x}' if picture.x else picture.kind}.svg"


def _words(study: Study, picture: Picture) -> str:
    words = {figure.name: figure.label for figure in study.figures}
    y, x = (words.get(name, name.replace("_", " ")) for name in (picture.y, picture.x))
    shown = {
        "against": f"{y} against {x}",
        "dots": f"{y} of each seed, by variant",
        "differences": f"{y}: differences from {study.baseline} in each seed, with intervals",
        "curves": "validation loss over the steps",
        "scatter": f"{y} against {x}, each seed a dot",
    }[picture.kind]
    return shown[:1].upper() + shown[1:]


# --- Sizes and budgets ----------------------------------------------------------------------------


def _equal_compute(cells: Sequence[Cellwise], counted: dict[str, float]) -> Figure:
    """Loss over size for each budget of compute, the parabola through it, its minimum with the interval."""
    profiles = spend(cells).profiles
    figure, plot = _panel()
    for one, (color, mark) in zip(profiles, _shades(len(profiles)), strict=True):
        plot.plot(
            one.parameters,
            one.losses,
            mark,
            color=color,
            label=f"C = {significant(one.compute)}",
            markersize=5.5,
        )
        first, last = np.log(one.parameters[[0, -1]]).tolist()
        x = np.linspace(first, last, 60)
        plot.plot(np.exp(x), np.exp(np.polyval(one.parabola, x)), color=color, linewidth=1.2)
        if one.inside:
            lowest = float(np.exp(np.polyval(one.parabola, np.log(one.best.value))))
            sides = np.clip([one.best.low, one.best.high], *one.parameters[[0, -1]])
            plot.hlines(lowest, *sides, color=INK, linewidth=2.5)
            plot.plot(one.best.value, lowest, "*", color=INK, markersize=11)
    if profiles:
        plot.plot([], [], "*-", color=INK, label="least, with its interval", markersize=9)
    _finish(figure, plot, bool(profiles), counted)
    return figure


def _by_size(cells: tuple[Cellwise, ...], counted: dict[str, float]) -> Figure:
    """Loss over size for each number of tokens, each seed a dot, with the law of both where one fits."""
    figure, plot = _panel()
    try:
        law = joint(cells).law
    except Refused:
        law = None
    budgets = sorted({one.tokens for one in cells})
    for budget, (color, mark) in zip(budgets, _shades(len(budgets)), strict=True):
        row = sorted((one for one in cells if one.tokens == budget), key=lambda one: one.parameters)
        seeds = [(one.parameters, loss) for one in row for loss in one.losses]
        plot.plot(*zip(*seeds, strict=True), ".", color=color, markersize=3)
        sizes = np.array([one.parameters for one in row])
        losses = [one.loss for one in row]
        plot.plot(
            sizes,
            losses,
            mark,
            color=color,
            label=f"D = {short(budget)}",
            markersize=6,
            mfc="none",
        )
        if law is not None and len(row) > 1:
            x = np.geomspace(sizes[0], sizes[-1], 40)
            plot.plot(x, law.loss(x, np.full_like(x, budget)), color=color, linewidth=1)
    if law is not None:
        plot.plot([], [], color=INK, linewidth=1, label="the law")
    _finish(figure, plot, bool(cells), counted)
    return figure


def _panel() -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")


def _shades(count: int) -> list[tuple[tuple[float, ...], str]]:
    """Colors from dark to light, in gray as well, and a mark for each."""
    shades = matplotlib.colormaps["viridis"](np.linspace(*SHADES, max(count, 2)))
    marks = ["o", *MARKS]
    return [(tuple(shades[i]), marks[i % len(marks)]) for i in range(count)]


def _finish(figure: Figure, plot: Axes, labeled: bool, counted: dict[str, float]) -> None:
    if labeled:
        logarithmic(plot, "x")
        logarithmic(plot, "y", list(np.arange(1.0, 5.01, 0.25)))
        levels(plot, "y", counted)
        figure.legend(loc="outside upper left", ncols=3, frameon=False, handlelength=1.6)
    plot.set_xlabel("parameters without embeddings")
    plot.set_ylabel("loss in nats per character")
