"""Every study that ships: a small form of it is run, and its report is what its results give."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from course.curriculum import ROOT
from laboratory.report import document
from laboratory.running import cell
from laboratory.study import description, timed
from laboratory.study.description import Study
from laboratory.study.results import FILE, CellResult, Results, read
from laboratory.study.sharpening import NAME, read_grid
from training.settings import OF_LANGUAGE

SMALL = {
    **{"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "context": 16, "batch": 2, "steps": 4},
    **{"warmup": 2, "validate_every": 2, "validate_tokens": 50, "save_every": 4},
}
MADE_UP = re.compile(r"\b[a-z][0-9a-f]{10}\b")  # Matplotlib makes them of what they name
COORDINATE = re.compile(r"-?\d+(?:\.\d+)?")
SIZES = ("layers", "d_model", "heads", "d_ff", "context", "batch", "steps", "validate_every")
MADE: dict[str, str | int | float] = {
    **{"torch": "2", "machine": "here", "device": "cpu", "threads": 1, "commit": "none"},
    **{"data": "a file"},
}

each_study = pytest.mark.parametrize("name", description.names())
each_shipped = pytest.mark.parametrize(
    "name",
    [name for name in description.names() if (description.STUDIES / name / FILE).exists()],
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed is timed once, on a few tokens."""
    monkeypatch.setattr(timed, "LENGTHS", (16, 32))
    monkeypatch.setattr(timed, "TOKENS", 32)
    monkeypatch.setattr(timed, "ROUNDS", 1)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is read in Shakespeare's place."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text((ROOT / "implementation.py").read_text()[:8000])
    return path


def small(name: str, text: Path) -> Study:
    """The study with models of a few numbers, at the first of its points."""
    definition: dict[str, Any] = yaml.safe_load(
        (description.STUDIES / name / "study.yaml").read_text()
    )
    definition["settings"] |= SMALL | {
        "accumulate": min(2, definition["settings"].get("accumulate", 1)),
    }
    if definition["task"] in OF_LANGUAGE:
        definition["task"] = "text"
        definition["settings"]["data"] = str(text)
    definition["grid"] = {key: values[:1] for key, values in definition.get("grid", {}).items()}
    definition["grid"] |= {key: [SMALL[key]] for key in definition["grid"] if key in SIZES}
    definition["seeds"] = definition["seeds"][:3]
    definition["leave_out"] = []
    for changes in definition["variants"].values():
        for key in SIZES:
            if key in (changes or {}):
                changes[key] = SMALL[key]
    return description.of(definition, name, Path("study.yaml"))


@pytest.mark.slow
@each_study
def test_a_small_form_of_it_gives_a_report(name: str, text: Path, tmp_path: Path) -> None:
    study = small(name, text)
    performed: list[CellResult] = []
    for number, which in enumerate(study.cells):
        performed.append(cell.perform(which, tmp_path / str(number), "cpu"))
    expected = {figure.name for figure in study.figures}
    measured = {key for cell_seen in performed for key in {**cell_seen.figures, **cell_seen.timed}}
    sized = {figure for figure in expected if figure.rpartition("_")[2].isdigit()}
    assert expected - sized - set(study.why) <= measured
    report = document.report(study, Results(name, MADE, performed))
    assert study.question in report
    assert all(variant in report for variant in study.variants)


@pytest.mark.slow
@each_study
def test_a_cell_repeats_bit_for_bit(name: str, text: Path, tmp_path: Path) -> None:
    which = small(name, text).cells[-1]
    first, again = (cell.perform(which, tmp_path / str(number), "cpu") for number in range(2))
    assert dataclasses.replace(first, timed={}) == dataclasses.replace(again, timed={})


@pytest.mark.slow
@each_shipped
def test_the_shipped_report_is_what_the_results_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = description.read(name)
    assert study.answer
    results = read(study.folder)
    assert {
        (result.variant, tuple(result.point.items()), result.seed) for result in results.cells
    } == {(which.variant, which.point, which.seed) for which in study.cells}
    shipped = study.folder
    monkeypatch.setattr(Study, "folder", tmp_path)
    report = document.write(study, results).read_text(encoding="utf-8")
    assert report == (shipped / "report.md").read_text(encoding="utf-8")
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert_drawn_alike(tmp_path / picture, shipped / picture)


def assert_drawn_alike(drawn_file: Path, shipped: Path) -> None:
    """The same words and the same lines: coordinates, of which other CPUs round the last digits otherwise, to
    a hundredth of a point."""
    words = [list(ElementTree.parse(path).getroot().itertext()) for path in (drawn_file, shipped)]
    assert words[0] == words[1], drawn_file.name
    files = [MADE_UP.sub("", path.read_text(encoding="utf-8")) for path in (drawn_file, shipped)]
    without = [COORDINATE.sub("", file) for file in files]
    assert without[0] == without[1], drawn_file.name
    points = [np.array(COORDINATE.findall(file), dtype=float) for file in files]
    np.testing.assert_allclose(*points, rtol=0, atol=0.01, err_msg=drawn_file.name)


@pytest.mark.parametrize(
    ("line", "alike"),
    [
        ('<path id="p0123456789" d="M 12.000001 7">one</path>', True),
        ('<path id="pabcdefabcd" d="M 12 7.5">one</path>', False),
        ('<path id="pabcdefabcd" d="M 12 7">0.99</path>', False),
        ('<path id="pabcdefabcd" d="M 12 7 9">one</path>', False),
    ],
)
def test_pictures_are_held_to_their_words_and_lines(line: str, alike: bool, tmp_path: Path) -> None:
    drawn_file, shipped = tmp_path / "drawn.svg", tmp_path / "shipped.svg"
    drawn_file.write_text(line, encoding="utf-8")
    shipped.write_text('<path id="pabcdefabcd" d="M 12 7">one</path>', encoding="utf-8")
    with contextlib.nullcontext() if alike else pytest.raises(AssertionError):
        assert_drawn_alike(drawn_file, shipped)


def numbers(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])\d+\.\d+", text)


def unsupported(reading: str, report: str) -> list[str]:
    """The numbers of a reading that no number of the report rounds to; those of cited papers excepted."""
    known = numbers(report)
    missing = []
    for paragraph in reading.split("\n\n"):
        flat = " ".join(paragraph.split())
        for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z`*])", flat):
            if not paragraph.startswith("**Expected") and not re.search(
                r"\b20\d\d\b|Shazeer", sentence
            ):
                missing += [
                    number
                    for number in numbers(sentence)
                    if not any(is_rounded(number, finer) for finer in known)
                ]
    return missing


def is_rounded(number: str, finer: str) -> bool:
    """Whether a number is a finer one, or that one rounded; a tie may go either way."""
    unit = 10.0 ** -len(number.partition(".")[2])
    return len(finer) >= len(number) and abs(float(number) - float(finer)) <= unit / 2 + 1e-9


@pytest.mark.parametrize("name", [*description.names(), NAME])
def test_a_reading_and_an_answer_cite_numbers_of_the_report(name: str) -> None:
    folder = description.STUDIES / name
    report, reading = ((folder / file).read_text() for file in ("report.md", "reading.md"))
    answer = (read_grid() if name == NAME else description.read(name)).answer
    below = report.replace(" ".join(answer.split()), "")  # the report begins with the answer
    assert not unsupported(f"{reading}\n\n{answer}", below)


def test_a_number_that_no_table_has_is_found() -> None:
    report = "| `muon` | −0.087 (−0.100 to −0.075) |"
    assert not unsupported("Better by 0.087 (0.09, 0.1). Liu et al. 2025 find 0.5.", report)
    assert unsupported("Better by 0.087, at 0.0871 and 0.06.", report) == ["0.0871", "0.06"]


@pytest.mark.slow
def test_the_page_of_all_is_what_the_results_give() -> None:
    page = (description.STUDIES / "README.md").read_text(encoding="utf-8")
    assert page == document.index()
