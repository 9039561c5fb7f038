"""Results come back as they were written, and what is none is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from laboratory.study.results import FILE, CellResult, Results, read, write
from training.errors import Refused

MADE: dict[str, str | int | float] = {
    "torch": "2.13.0",
    "threads": 1,
    "machine": "x86_64, 48 Kerne",
}


def cell(
    variant: str = "pre", layers: int = 2, seed: int = 0, loss: float = 0.1 + 0.2
) -> CellResult:
    return CellResult(
        variant,
        {"layers": layers},
        seed,
        {"loss": loss, "parameters": 123.0},
        {"seconds": 1 / 3},
        [(10, 2.5), (20, 1e-17)],
        {"scores": [[0.1, None], ["a", True]]},
    )


def several() -> Results:
    cells = [cell(v, n, s, 1 / (n + s + 7)) for v in ("a", "b") for n in (2, 12) for s in (0, 1)]
    return Results("norms", MADE, cells)


def test_floats_come_back_exactly(tmp_path: Path) -> None:
    results = several()
    write(results, tmp_path)
    assert read(tmp_path) == results


def test_what_was_counted_and_chosen_comes_back(tmp_path: Path) -> None:
    results = replace(
        several(),
        counted={"unigram": 3.3, "bigram": 2.5},
        rates={"a": 0.5},
        trials={"a": {0.5: [2.25, 2.5], 1.0: [3.0, 2.75]}},
    )
    write(results, tmp_path)
    assert read(tmp_path) == results
    write(replace(results, trials={"a": {0.5: [math.nan, math.inf]}}), tmp_path)
    assert all(map(math.isnan, read(tmp_path).trials["a"][0.5]))


def test_the_order_in_which_cells_end_leaves_no_trace(tmp_path: Path) -> None:
    results = several()
    write(results, tmp_path / "one")
    write(replace(results, cells=results.cells[::-1]), tmp_path / "two")
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "two" / FILE).read_bytes()


def test_points_are_sorted_as_numbers(tmp_path: Path) -> None:
    write(Results("norms", MADE, [cell(layers=12), cell(layers=2)]), tmp_path)
    layers = [result.point["layers"] for result in read(tmp_path).cells]
    assert layers == [2, 12]


def test_a_point_keeps_the_order_of_its_keys(tmp_path: Path) -> None:
    point: dict[str, int | float | str | bool] = {"warmup": 1, "layers": 2}
    write(Results("norms", MADE, [replace(cell(), point=point)]), tmp_path)
    [restored] = read(tmp_path).cells
    assert list(restored.point) == ["warmup", "layers"]


def test_a_change_of_one_cell_changes_one_line(tmp_path: Path) -> None:
    results = several()
    write(results, tmp_path)
    before = (tmp_path / FILE).read_text().splitlines()
    changed = replace(results.cells[3], figures={"loss": 9.0, "parameters": 123.0})
    write(replace(results, cells=[*results.cells[:3], changed, *results.cells[4:]]), tmp_path)
    after = (tmp_path / FILE).read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_the_clock_changes_no_line_of_a_cell(tmp_path: Path) -> None:
    results = several()
    write(results, tmp_path)
    before = (tmp_path / FILE).read_text().splitlines()
    slower = [replace(result, timed={"seconds": 99.0}) for result in results.cells]
    write(replace(results, cells=slower), tmp_path)
    after = (tmp_path / FILE).read_text().splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == len(slower)
    assert all(json.loads(line.rstrip(",")) == {"seconds": 99.0} for line in changed)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_plain_json(tmp_path: Path, loss: float) -> None:
    write(Results("norms", MADE, [cell(loss=loss)]), tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads((tmp_path / FILE).read_text(), parse_constant=refuse)
    [restored] = read(tmp_path).cells
    assert restored.diverged and math.isnan(restored.figures["loss"])
    assert not cell().diverged


def test_no_results_yet(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no results yet"):
        read(tmp_path)


def damage(text: str) -> dict[str, str]:
    """Ways in which a file is no results."""
    return {
        "cut": text[: len(text) // 2],
        "empty": "",
        "a list": "[]",
        "a word": '"results"',
        "another's": '{"learned": 3}',
        "no loss": text.replace('"loss"', '"lost"'),
        "a seed of words": text.replace('"seed": 1', '"seed": "one"'),
        "a figure of words": text.replace('"parameters": 123.0', '"parameters": "many"'),
        "a curve of words": text.replace("[10, 2.5]", "7"),
        "a time lost": text.replace(json.dumps({"seconds": 1 / 3}) + ",\n", "", 1),
        "a cell twice": text.replace('"seed": 1', '"seed": 0'),
    }


@pytest.mark.parametrize("way", damage(""))
def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, way: str) -> None:
    write(several(), tmp_path)
    path = tmp_path / FILE
    text = path.read_text()
    assert damage(text)[way] != text
    path.write_text(damage(text)[way])
    with pytest.raises(Refused, match=FILE):
        read(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match=FILE):
        read(tmp_path)
