"""Laws of loss are found again in losses made by them, and where nothing can be said nothing is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from jaxtyping import Float
from numpy import ndarray

from laboratory.report import isoflop, laws, scaling
from laboratory.report.isoflop import Cellwise, Spending, spend
from laboratory.report.laws import Law
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


def test_without_a_floor_the_exponent_is_a_slope() -> None:
    found = laws.straight(SIZES, 8 * SIZES**-0.076)
    assert (found.low, found.value, found.high) == pytest.approx((0.076,) * 3)
    bent = laws.straight(SIZES, ONE.loss(SIZES))
    assert bent.low < bent.value < bent.high
    assert bent.value < 0.4  # the floor flattens the line


@pytest.mark.parametrize("count", [1, 3, 4])
def test_too_few_sizes_are_refused(count: int) -> None:
    with pytest.raises(Refused, match=f"5 different sizes.*{count}"):
        laws.fit(np.repeat(SIZES[:count], 5)[:, None], np.repeat(ONE.loss(SIZES[:count]), 5))
    with pytest.raises(Refused, match=f"5 different sizes.*{count}"):
        laws.straight(SIZES[:count], ONE.loss(SIZES[:count]))


def test_no_cells_at_all_are_refused() -> None:
    with pytest.raises(Refused, match="there are 0"):
        laws.fit(np.zeros((0, 2)), np.zeros(0))


def test_the_same_losses_give_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 5)
    sizes, losses = table(grid(by_both, NOISE))
    assert laws.fit(sizes, losses) == laws.fit(sizes, losses)


# --- Equal compute --------------------------------------------------------------------------------


def best(compute: float) -> float:
    """Where the law is lowest at a budget: Hoffmann et al. 2022, eq. 4."""
    (a, b), (alpha, beta) = BOTH.scales, BOTH.exponents
    return float(
        (alpha * a / (beta * b)) ** (1 / (alpha + beta)) * (compute / 6) ** (beta / (alpha + beta))
    )


def test_the_minima_are_where_the_law_has_them() -> None:
    spending = spend(grid(by_both))
    assert len(spending.profiles) >= 3
    for one in spending.profiles:
        assert one.inside
        assert one.best.value == pytest.approx(best(one.compute), rel=0.1)
        assert len(one.parameters) >= isoflop.LEAST_POINTS
    assert spending.exponent is not None
    assert spending.exponent.value == pytest.approx(0.45 / 0.85, abs=0.03)


def test_losses_are_read_off_between_two_budgets() -> None:
    for one in spend(grid(by_both)).profiles:
        truth = BOTH.loss(one.parameters, one.compute / (6 * one.parameters))
        assert one.losses == pytest.approx(truth, rel=0.01)


@pytest.mark.by_turn
def test_the_exponent_lies_in_about_95_of_100_intervals() -> None:
    truth = spend(grid(by_both)).exponent  # of the parabolas, which are no law
    assert truth is not None
    found = [spend(grid(by_both, NOISE, seed=trial)).exponent for trial in range(60)]
    inside = [one for one in found if one is not None and one.low <= truth.value <= one.high]
    assert len(inside) / len(found) >= 0.85
    assert np.median([one.high - one.low for one in inside]) < 0.2


def ends(spending: Spending) -> set[float]:
    return {one.best.value for one in spending.profiles}


def test_a_minimum_that_is_not_inside_is_said_to_be_none() -> None:
    at_the_smallest = spend(grid(lambda n, d: float(2 + (n / 1e6) ** 0.3 + (1e5 / d) ** 0.3)))
    assert ends(at_the_smallest) == {0.0}
    at_the_largest = spend(grid(lambda n, d: float(1 + (1e4 / n) ** 0.3)))
    assert ends(at_the_largest) == {math.inf}
    for one in (at_the_smallest, at_the_largest):
        assert one.exponent is None
        assert not any(profile.inside for profile in one.profiles)


def test_a_parabola_that_opens_downwards_has_no_minimum() -> None:
    hill = spend(grid(lambda n, d: float(5 - 0.1 * (math.log(n) - 12) ** 2)))
    assert ends(hill) <= {0.0, math.inf}


def test_with_few_sizes_there_is_no_profile() -> None:
    few = [one for one in grid(by_both) if one.parameters < SIZES[isoflop.LEAST_POINTS - 1]]
    assert spend(few) == Spending((), None)
    assert spend([]) == Spending((), None)


def test_with_much_noise_there_is_no_exponent() -> None:
    assert spend(grid(by_both, noise=0.3)).exponent is None


def test_single_seeds_have_no_noise_to_draw_from() -> None:
    [first, *_] = spend(grid(by_both, NOISE, seeds=1)).profiles
    assert first.best.low == pytest.approx(first.best.value)
    assert first.best.high == pytest.approx(first.best.value)


# --- In words -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> description.Study:
    return description.read("scaling")


def seen(asked: description.Study, losses: Losses) -> Results:
    draw = np.random.default_rng(0)
    cells = []
    for cell in asked.cells:
        n, d = isoflop.parameters(cell), isoflop.tokens(cell)
        figures = {"loss": losses(n, d) * math.exp(draw.normal(0, NOISE)), "parameters": n}
        cells.append(CellResult(cell.variant, dict(cell.point), cell.seed, figures))
    return Results(asked.name, asked.full, {}, cells)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "RESAMPLED", 20)


def said(asked: description.Study, results: Results) -> list[str]:
    """The answer, and what it stands on."""
    return [scaling.answer(asked, results), *scaling.paragraphs(asked, results)]


@pytest.mark.usefixtures("quick")
def test_the_study_that_ships_can_say_what_it_asks(shipped: description.Study) -> None:
    told = said(shipped, seen(shipped, by_both))
    assert "α = 0.4" in told[0] and "outside that interval" in told[0]
    whole = "\n".join(told)
    assert "The best size grows as C^a with a = 0.5" in whole
    assert "not inside" not in whole
    for word in ("Kaplan", "0.076", "0.095", "Hoffmann", "without embeddings", "Muennighoff"):
        assert word in whole


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.3, 0.4, "inside"), (0.35, 0.4, "outside"), (0.3, 0.33, "outside")],
)
def test_published_exponents_are_inside_or_outside(low: float, high: float, expected: str) -> None:
    told = scaling._beside(laws.Estimate(0.36, low, high), 0.34)
    assert told.startswith(f"0.34, {expected} that interval")


@pytest.mark.by_turn
@pytest.mark.usefixtures("quick")
def test_no_minimum_inside_is_said(shipped: description.Study) -> None:
    told = "\n".join(said(shipped, seen(shipped, lambda n, d: 1 + (1e4 / n) ** 0.3)))
    assert "outside the sizes that were tried: the loss is least at the largest" in told
    assert "too few" in told


@pytest.mark.usefixtures("quick")
def test_what_diverged_is_left_out_and_counted(shipped: description.Study) -> None:
    whole = seen(shipped, by_both)
    wild = whole.cells[0]
    wild = dataclasses.replace(wild, figures={"loss": math.nan, "parameters": 1.0})
    told = said(shipped, dataclasses.replace(whole, cells=[wild, *whole.cells[1:]]))
    points = len({(cell.variant, cell.point) for cell in shipped.cells})
    assert any(one.startswith(f"1 of {points} sizes and budgets are left out") for one in told)
    assert "nan" not in "\n".join(told)


def test_a_part_of_the_study_is_no_law_yet(shipped: description.Study) -> None:
    whole = seen(shipped, by_both)
    told = said(shipped, dataclasses.replace(whole, cells=whole.cells[:4]))
    assert told[0].startswith("No law of loss can be fitted yet.")
    assert "No budget of compute" in "\n".join(told)


def test_sizes_are_counted_without_embeddings(shipped: description.Study) -> None:
    found = {cell.variant: isoflop.parameters(cell) for cell in shipped.cells}
    assert found["10k"] == 2 * 12 * 20**2  # Kaplan et al. 2020, eq. 2.1: 12 · layers · d_model²
    assert len(set(found.values())) == 8
    assert min(found.values()) < 1e4 and 2.5e6 < max(found.values()) < 3e6
