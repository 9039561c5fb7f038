"""Which pictures a study's report has, and their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib

from laboratory.report import headmaps, panels, profiles
from laboratory.report.comparison import Compared
from laboratory.report.style import STYLE, as_svg
from laboratory.study.description import Picture, Study
from laboratory.study.results import Results
from training.checkpoints import write_whole


@dataclass(frozen=True)
class PictureFile:
    """A picture: its file in the study's folder, and what it shows, for those who do not see it."""

    file: str
    words: str


LAWS = PictureFile(
    "loss_by_size.svg", "Loss against parameters, for each number of tokens, with the law that fits"
)
PROFILES = PictureFile(
    "equal_compute.svg", "Loss against parameters at equal compute, with parabolas and minima"
)
HEADS = PictureFile(
    headmaps.PICTURE, "Scores of each head over the steps, and what switching it off costs"
)


def pictures(study: Study) -> list[PictureFile]:
    """The pictures that a study has."""
    own = {"": [], "scaling": [PROFILES, LAWS], "induction": [HEADS]}[study.analysis]
    return [*own, *(PictureFile(_file(one), _words(study, one)) for one in study.pictures)]


def draw(study: Study, results: Results, folder: Path) -> None:
    """Write them all into a folder, without dates: the same results are the same bytes.

    Raises:
        Refused: results of another study.
        OSError: one could not be written.
    """
    compared = Compared(study, results)
    if study.analysis == "induction":
        headmaps.draw(results, folder)
    with matplotlib.rc_context(STYLE):
        if study.analysis == "scaling":
            cells = profiles.sound(study, results)
            write_whole(
                folder / PROFILES.file, as_svg(profiles.equal_compute(cells, results.counted))
            )
            write_whole(folder / LAWS.file, as_svg(profiles.by_size(cells, results.counted)))
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
