"""What a few seeds allow to say, against scipy's own tests and in simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from laboratory.report.statistics import chance, compare, mean_interval, spread

NAN = math.nan


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


# --- Spread ---------------------------------------------------------------------------------------


def test_mean_and_spread() -> None:
    seen = spread([1.0, 2.0, 4.0])
    assert (seen.seeds, seen.diverged, seen.low, seen.high) == (3, 0, 1.0, 4.0)
    assert seen.mean == pytest.approx(7 / 3)
    assert seen.deviation == pytest.approx(math.sqrt(7 / 3))


def test_one_seed_has_no_deviation() -> None:
    seen = spread([1.5])
    assert seen.mean == seen.low == seen.high == 1.5
    assert math.isnan(seen.deviation)


def test_equal_values_have_no_spread_and_their_own_mean() -> None:
    seen = spread([0.1, 0.1, 0.1])
    assert (seen.mean, seen.deviation) == (0.1, 0.0)


def test_what_diverged_is_counted_and_not_averaged_away() -> None:
    seen = spread([1.0, NAN, math.inf])
    assert (seen.seeds, seen.diverged) == (3, 2)
    assert math.isnan(seen.mean)


# --- A comparison ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
def test_the_interval_is_that_of_the_paired_test(seeds: int) -> None:
    draw = np.random.default_rng(seeds)
    variant, baseline = draw.normal(1.0, 0.3, (2, seeds)).tolist()
    seen = compare(by_seed(*variant), by_seed(*baseline))
    assert seen is not None
    test = stats.ttest_rel(variant, baseline)
    expected = test.confidence_interval(0.95)
    assert (seen.low, seen.high) == pytest.approx((expected.low, expected.high))
    assert seen.mean == pytest.approx(np.mean(variant) - np.mean(baseline))
    assert (seen.low > 0 or seen.high < 0) == (test.pvalue < 0.05)


def test_a_clear_difference_is_claimed_in_both_directions() -> None:
    above, below = by_seed(1.10, 1.21, 1.32), by_seed(1.0, 1.1, 1.2)
    up, down = compare(above, below), compare(below, above)
    assert up and down and up.claimed and down.claimed
    assert up.mean == -down.mean > 0


def test_pairs_are_by_seed_and_not_by_order() -> None:
    seen = compare({2: 3.2, 0: 1.1, 1: 2.15, 9: 0.0}, {0: 1.0, 1: 2.0, 2: 3.0, 8: 0.0})
    assert seen is not None and seen.pairs == 3
    assert seen.mean == pytest.approx(0.15)


def test_two_seeds_claim_nothing() -> None:
    seen = compare(by_seed(2.0, 2.0001), by_seed(1.0, 1.0))
    assert seen is not None and seen.low > 0
    assert not seen.claimed and not seen.by_chance


def test_one_seed_has_an_endless_interval() -> None:
    seen = compare(by_seed(2.0), by_seed(1.0))
    assert seen is not None and seen.mean == 1.0
    assert (seen.low, seen.high) == (-math.inf, math.inf)
    assert not seen.claimed


def test_an_interval_with_0_in_it_claims_nothing_though_all_have_one_sign() -> None:
    seen = compare(by_seed(1.0, 1.0, 1.0), by_seed(0.99, 0.9, 0.2))
    assert seen is not None and seen.one_sign and seen.low < 0
    assert not seen.claimed


def test_signs_that_differ_claim_nothing_though_the_interval_is_without_0() -> None:
    seen = compare(by_seed(*[1.0] * 9, -0.01), by_seed(*[0.0] * 10))
    assert seen is not None and seen.low > 0
    assert not seen.one_sign and not seen.claimed


def test_equal_values_are_no_difference() -> None:
    seen = compare(by_seed(0.1, 0.2, 0.3), by_seed(0.1, 0.2, 0.3))
    assert seen is not None
    assert (seen.mean, seen.low, seen.high, seen.claimed) == (0, 0, 0, False)


def test_a_difference_without_noise_is_claimed_and_chance_has_no_part_in_it() -> None:
    seen = compare(by_seed(8.0, 8.0, 8.0), by_seed(6.0, 6.0, 6.0))
    assert seen is not None and seen.claimed
    assert (seen.low, seen.high, seen.by_chance) == (2.0, 2.0, False)


@pytest.mark.parametrize("bad", [NAN, math.inf])
def test_with_a_run_that_diverged_nothing_is_compared(bad: float) -> None:
    for left, right in ((bad, 0.0), (0.0, bad), (bad, bad)):
        seen = compare(by_seed(2.0, 2.1, 2.2, left), by_seed(1.0, 1.1, 1.2, right))
        assert seen is not None and seen.diverged
        assert not seen.claimed and not seen.by_chance


def test_without_a_shared_seed_there_is_no_comparison() -> None:
    assert compare({0: 1.0}, {1: 1.0}) is None


def test_the_interval_of_a_mean_is_scipys() -> None:
    values = [3.1, 2.9, 3.7, 3.3]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_interval(values)[1:] == pytest.approx((expected.low, expected.high))


# --- Chance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [3, 5])
def test_where_nothing_differs_at_most_one_in_twenty_is_claimed(seeds: int) -> None:
    draw = np.random.default_rng(0)
    trials = 2000
    claims = 0
    for _ in range(trials):
        shared = draw.normal(0, 1.0, seeds)  # what the seed does to both
        variant, baseline = shared + draw.normal(0, 0.1, (2, seeds))
        seen = compare(by_seed(*variant), by_seed(*baseline))
        assert seen is not None
        claims += seen.claimed
    sampling = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert 0 < claims / trials <= 0.05 + sampling


def test_a_difference_of_five_deviations_is_nearly_always_found_with_five_seeds() -> None:
    draw = np.random.default_rng(1)
    found = 0
    for _ in range(300):
        variant, baseline = draw.normal(0, 0.1, (2, 5))
        seen = compare(by_seed(*(variant + 0.5)), by_seed(*baseline))
        found += seen is not None and seen.claimed
    assert found > 280


def test_how_many_chance_alone_would_make_look_different() -> None:
    noisy = compare(by_seed(1.0, 2.0, 3.5), by_seed(0.0, 0.0, 0.0))
    exact = compare(by_seed(1.0, 1.0, 1.0), by_seed(0.0, 0.0, 0.0))
    few = compare(by_seed(1.0, 2.0), by_seed(0.0, 0.0))
    assert noisy and exact and few
    count, expected = chance([noisy] * 40 + [exact] * 10 + [few] * 10)
    assert count == 40
    assert expected == pytest.approx(2.0)
