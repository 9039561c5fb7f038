"""Which pictures a study's report has, and their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib

from laboratory.report import induction_picture, panels
from laboratory.report.comparison import Compared
from laboratory.report.style import STYLE, as_svg
from laboratory.study.description import Picture, Study
from laboratory.study.results import Results
from training.checkpoints import write_atomically


@dataclass(frozen=True)
class PictureFile:
    """A picture's file in the study's folder, and its alternative text."""

    file: str
    words: str


HEADS = [
    PictureFile(
        induction_picture.ABLATED, "What replacing each head's output costs, against its score"
    ),
    PictureFile(induction_picture.PICTURE, "Scores of each head, and the loss, over the steps"),
]
RATES = PictureFile(
    "loss_by_rate.svg", "Loss of the trial runs against the factor of the learning rate, by variant"
)


def pictures(study: Study, results: Results) -> list[PictureFile]:
    """The pictures that a study with these results has."""
    own = HEADS if study.of_repeats else []
    files = [PictureFile(_file(picture), _words(study, picture)) for picture in study.pictures]
    return [*own, *files, *([RATES] if _all_tried(results) else [])]


def _all_tried(results: Results) -> bool:
    """Whether the trial runs of every variant are known: a picture of some of them would mislead."""
    return bool(results.trials) and results.trials.keys() >= results.rates.keys()


def draw(study: Study, results: Results, folder: Path) -> None:
    """Write all pictures into a folder, without dates: equal results give equal bytes.

    Raises:
        Refused: results of another study.
        OSError: a file could not be written.
    """
    compared = Compared(study, results)
    if study.of_repeats:
        induction_picture.draw(results, folder)
    with matplotlib.rc_context(STYLE):
        if _all_tried(results):
            write_atomically(folder / RATES.file, as_svg(panels.rates(compared)))
        for picture in study.pictures:
            write_atomically(
                folder / _file(picture), as_svg(panels.KINDS[picture.kind](compared, picture))
            )


def _file(picture: Picture) -> str:
    return f"{picture.y}_{f'against_{picture.x}' if picture.x else picture.kind}.svg"


def _words(study: Study, picture: Picture) -> str:
    words = {figure.name: figure.label for figure in study.figures}
    y, x = (words.get(name, name.replace("_", " ")) for name in (picture.y, picture.x))
    part = ", on a part of the split" if study.cells[0].settings.validate_tokens else ""
    shown = {
        "against": f"{y} against {x}",
        "differences": f"{y}: differences from {study.baseline} in each seed, with intervals",
        "curves": f"validation loss over the steps{part}",
        "scatter": f"{y} against {x}, each seed a dot",
        "lengths": f"loss against {panels.LENGTHS.get(picture.y, picture.y)}",
    }[picture.kind]
    return shown[:1].upper() + shown[1:]
