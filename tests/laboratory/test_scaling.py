"""Laws of loss are found again in losses made by them, and where nothing can be said nothing is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from jaxtyping import Float
from numpy import ndarray

from laboratory.report import laws, scaling
from laboratory.report.laws import Law
from laboratory.report.scaling import Cellwise
from laboratory.study import description
from laboratory.study.results import CellResult, Results
from training.errors import Refused

ONE = Law(1.2, (60.0,), (0.4,))
BOTH = Law(1.2, (60.0, 300.0), (0.4, 0.45))
SIZES = np.geomspace(1e4, 3e6, 8)
BUDGETS = 1e5 * 2.0 ** np.arange(7)
NOISE = 0.004  # of the logarithm of a loss

Losses = Callable[[float, float], float]


def grid(losses: Losses, noise: float = 0.0, seeds: int = 3, seed: int = 0) -> list[Cellwise]:
    """Eight sizes with seven budgets each, but for those of which the compute is dear."""
    draw = np.random.default_rng(seed)
    return [
        Cellwise(
            n,
            d,
            tuple((losses(n, d) * np.exp(draw.normal(0, noise, seeds))).astype(float).tolist()),
        )
        for n in SIZES.tolist()
        for d in BUDGETS.tolist()
        if n * d < 6e11
    ]


def by_both(n: float, d: float) -> float:
    return float(BOTH.loss(n, d))


def table(cells: Iterable[Cellwise]) -> tuple[Float[ndarray, "n 2"], Float[ndarray, " n"]]:
    cells = list(cells)
    return (
        np.array([(one.parameters, one.tokens) for one in cells]),
        np.array([one.loss for one in cells]),
    )


# --- Laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [ONE, Law(0.5, (3.0,), (0.1,)), Law(2.0, (4000.0,), (0.9,)), Law(1.69, (406.4,), (0.34,))],
)
def test_a_law_of_size_is_found_again(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 5)
    found = laws.fit(SIZES[:, None], law.loss(SIZES)).law
    assert found.floor == pytest.approx(law.floor, rel=1e-3)
    assert found.exponents == pytest.approx(law.exponents, rel=1e-3)
    assert found.scales == pytest.approx(law.scales, rel=1e-2)


def test_a_law_of_size_and_data_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 5)
    found = laws.fit(*table(grid(by_both))).law
    assert found.floor == pytest.approx(BOTH.floor, rel=1e-3)
    assert found.exponents == pytest.approx(BOTH.exponents, rel=1e-3)
    assert laws.allocation(found) == pytest.approx(0.45 / 0.85, rel=1e-3)


def test_one_cell_that_went_wrong_moves_the_law_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 5)
    sizes, losses = table(grid(by_both))
    losses[7] *= 1.5
    assert laws.fit(sizes, losses).law.exponents == pytest.approx(BOTH.exponents, abs=0.03)


@pytest.mark.by_turn
def test_the_truth_lies_in_about_95_of_100_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 60)
    draw = np.random.default_rng(0)
    trials, inside, widths = 60, 0, []
    for trial in range(trials):
        noisy = ONE.loss(SIZES) * np.exp(draw.normal(0, NOISE, len(SIZES)))
        found = laws.fit(SIZES[:, None], noisy, trial).estimate(lambda law: law.exponents[0])
        inside += found.low <= 0.4 <= found.high
        widths.append(found.high - found.low)
    assert inside / trials >= 0.85
    assert np.median(widths) < 0.15  # narrow enough to say something


def test_an_interval_that_is_not_widened_would_be_too_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 60)
    noisy = ONE.loss(SIZES) * np.exp(np.random.default_rng(3).normal(0, NOISE, len(SIZES)))
    wide = laws.fit(SIZES[:, None], noisy).estimate(lambda law: law.exponents[0])
    monkeypatch.setattr(laws, "_t", lambda freedom: 0.2)
    narrow = laws.fit(SIZES[:, None], noisy).estimate(lambda law: law.exponents[0])
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_too_few_sizes_are_refused(count: int) -> None:
    with pytest.raises(Refused, match=f"5 different sizes.*{count}"):
        laws.fit(np.repeat(SIZES[:count], 5)[:, None], np.repeat(ONE.loss(SIZES[:count]), 5))


def test_no_cells_at_all_are_refused() -> None:
    with pytest.raises(Refused, match="there are 0"):
        laws.fit(np.zeros((0, 2)), np.zeros(0))


def test_the_same_losses_give_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 5)
    sizes, losses = table(grid(by_both, NOISE))
    assert laws.fit(sizes, losses) == laws.fit(sizes, losses)


# --- In words -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> description.Study:
    return description.read("scaling")


def seen(asked: description.Study, losses: Losses) -> Results:
    draw = np.random.default_rng(0)
    cells = []
    for cell in asked.cells:
        n, d = scaling.parameters(cell), scaling.tokens(cell)
        figures = {"loss": losses(n, d) * math.exp(draw.normal(0, NOISE)), "parameters": n}
        cells.append(CellResult(cell.variant, dict(cell.point), cell.seed, figures))
    return Results(asked.name, asked.full, {}, cells)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 20)


@pytest.mark.usefixtures("quick")
def test_the_law_is_given_for_several_choices_of_the_runs(shipped: description.Study) -> None:
    """Where the law holds, they agree; where it does not, they do not."""
    counted = {"bigram": by_both(1e5, 1e6), "unigram": 9.0}
    found = dataclasses.replace(seen(shipped, by_both), counted=counted)
    rows = table_of(shipped, found)
    assert [int(row[1]) for row in rows] == sorted({int(row[1]) for row in rows}, reverse=True)
    assert len(rows) == 3 and int(rows[0][1]) == len({cell.place for cell in shipped.cells})
    for row in rows:
        assert float(row[3].split()[0]) == pytest.approx(0.4, abs=0.06)
        assert float(row[5].split()[0]) == pytest.approx(0.45 / 0.85, abs=0.06)
    early = min(scaling.tokens(cell) for cell in shipped.cells)
    bent = seen(shipped, lambda n, d: by_both(n, d) * (0.7 if d < 3 * early else 1.0))
    first, second = table_of(shipped, bent)[:2]
    assert float(second[6]) < float(first[6]) / 4


def table_of(study: description.Study, results: Results) -> list[list[str]]:
    """The rows of the table of laws."""
    (table,) = (one for one in scaling.paragraphs(study, results) if one.startswith("| runs |"))
    rows = table.splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.usefixtures("quick")
def test_what_diverged_is_left_out_and_counted(shipped: description.Study) -> None:
    whole = seen(shipped, by_both)
    wild = dataclasses.replace(whole.cells[0], figures={"loss": math.nan, "parameters": 1.0})
    cells = [wild, *whole.cells[1:]]
    told = list(scaling.paragraphs(shipped, dataclasses.replace(whole, cells=cells)))
    points = len({(cell.variant, cell.point) for cell in shipped.cells})
    assert any(one.startswith(f"1 of {points} sizes and budgets are left out") for one in told)
    assert "nan" not in "\n".join(told)


def test_a_part_of_the_study_is_no_law_yet(shipped: description.Study) -> None:
    whole = seen(shipped, by_both)
    (told,) = scaling.paragraphs(shipped, dataclasses.replace(whole, cells=whole.cells[:4]))
    assert told.startswith("No law of loss can be fitted yet")


def test_sizes_are_counted_without_embeddings(shipped: description.Study) -> None:
    found = {cell.variant: scaling.parameters(cell) for cell in shipped.cells}
    assert found["10k"] == 2 * 12 * 20**2  # Kaplan et al. 2020, eq. 2.1: 12 · layers · d_model²
    assert len(set(found.values())) == 8
    assert min(found.values()) < 1e4 and 2.5e6 < max(found.values()) < 3e6
