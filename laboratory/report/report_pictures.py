"""Which pictures a study's report has, and their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from laboratory.report import induction_picture, panels
from laboratory.report.comparison import Compared
from laboratory.report.panels import levels
from laboratory.report.scaling import Cellwise, cellwise
from laboratory.report.style import MARKS, STYLE, WIDTH, as_svg, logarithmic, short
from laboratory.study.description import Picture, Study
from laboratory.study.results import Results
from training.checkpoints import write_whole

HEIGHT = 3.6  # inches
SHADES = 0.0, 0.82  # of viridis, whose lightest yellow is hardly seen on white


@dataclass(frozen=True)
class PictureFile:
    """A picture's file in the study's folder, and its alternative text."""

    file: str
    words: str


LAWS = PictureFile("loss_by_size.svg", "Loss against parameters, for each number of tokens")
HEADS = PictureFile(
    induction_picture.PICTURE, "Scores of each head over the steps, and what switching it off costs"
)


RATES = PictureFile(
    "loss_by_rate.svg", "Loss of the trial runs against the factor of the learning rate, by variant"
)


def pictures(study: Study, results: Results) -> list[PictureFile]:
    """The pictures that a study with these results has."""
    own = {"": [], "scaling": [LAWS], "induction": [HEADS]}[study.analysis]
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
        "lengths": f"loss against {panels.LENGTHS.get(picture.y, picture.y)}",
    }[picture.kind]
    return shown[:1].upper() + shown[1:]


# --- Sizes and budgets ----------------------------------------------------------------------------


def _by_size(cells: tuple[Cellwise, ...], counted: dict[str, float]) -> Figure:
    """Loss over size for each number of tokens: each seed a dot, a line through the means."""
    figure, plot = plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
    budgets = sorted({one.tokens for one in cells})
    for budget, (color, mark) in zip(budgets, _shades(len(budgets)), strict=True):
        row = sorted((one for one in cells if one.tokens == budget), key=lambda one: one.parameters)
        seeds = [(one.parameters, loss) for one in row for loss in one.losses]
        plot.plot(*zip(*seeds, strict=True), ".", color=color, markersize=3)
        plot.plot(
            [one.parameters for one in row],
            [one.loss for one in row],
            mark,
            linestyle="-",
            linewidth=1,
            color=color,
            label=f"D = {short(budget)}",
            markersize=6,
            mfc="none",
        )
    if cells:
        logarithmic(plot, "x")
        logarithmic(plot, "y", list(np.arange(1.0, 5.01, 0.25)))
        levels(plot, "y", counted)
        figure.legend(loc="outside upper left", ncols=3, frameon=False, handlelength=1.6)
    plot.set_xlabel("parameters without embeddings")
    plot.set_ylabel("loss in nats per character")
    return figure


def _shades(count: int) -> list[tuple[tuple[float, ...], str]]:
    """Colors from dark to light, in gray as well, and a mark for each."""
    shades = matplotlib.colormaps["viridis"](np.linspace(*SHADES, max(count, 2)))
    marks = ["o", *MARKS]
    return [(tuple(shades[i]), marks[i % len(marks)]) for i in range(count)]
