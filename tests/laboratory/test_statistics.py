"""What a few seeds allow to say, against scipy's own tests and in simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from laboratory.report.statistics import (
    MIN_SEEDS,
    Comparison,
    Mean,
    compare,
    holm,
    mean_of,
    spread,
)

NAN = math.nan


def spreading(deviation: float, seeds: int, text_variance: float = 0.0) -> Comparison:
    """A comparison without a difference whose seeds have this standard deviation."""
    over = Mean(0.0, deviation, text_variance, seeds - 1, seeds)
    return Comparison(seeds, 0.0, *over.interval, 1.0, over)


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


# --- Power ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seeds", "tests"), [(8, 1), (8, 7), (20, 3)])
def test_a_detectable_difference_is_claimed_four_times_in_five(seeds: int, tests: int) -> None:
    """By the noncentral t distribution, which the product approximates."""
    comparison = spreading(0.03, seeds)
    shift = comparison.detectable(tests) / 0.03 * math.sqrt(seeds)
    power = stats.nct.sf(stats.t.ppf(1 - 0.025 / tests, seeds - 1), seeds - 1, shift)
    assert power == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("margin", [0.01, 0.02])
def test_so_many_seeds_bound_a_difference_of_0_four_times_in_five(margin: float) -> None:
    seeds = spreading(0.03, 8).seeds_to_bound(margin)
    assert seeds is not None
    samples = np.random.default_rng(0).normal(0, 0.03, (4000, seeds))
    half = stats.t.ppf(0.975, seeds - 1) * samples.std(1, ddof=1) / math.sqrt(seeds)
    assert (abs(samples.mean(1)) + half <= margin).mean() == pytest.approx(0.8, abs=0.06)


# --- Spread ---------------------------------------------------------------------------------------


def test_mean_and_spread() -> None:
    summary = spread([1.0, 2.0, 4.0])
    assert (summary.seeds, summary.diverged, summary.low, summary.high) == (3, 0, 1.0, 4.0)
    assert summary.mean == pytest.approx(7 / 3)
    assert summary.deviation == pytest.approx(math.sqrt(7 / 3))


def test_one_seed_has_no_deviation() -> None:
    summary = spread([1.5])
    assert summary.mean == summary.low == summary.high == 1.5
    assert math.isnan(summary.deviation)


def test_equal_values_have_no_spread_and_their_own_mean() -> None:
    summary = spread([0.1, 0.1, 0.1])
    assert (summary.mean, summary.deviation) == (0.1, 0.0)


def test_what_diverged_is_counted_and_not_averaged_away() -> None:
    summary = spread([1.0, NAN, math.inf])
    assert (summary.seeds, summary.diverged) == (3, 2)
    assert math.isnan(summary.mean)


# --- A comparison ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
def test_the_interval_is_that_of_the_paired_test(seeds: int) -> None:
    draw = np.random.default_rng(seeds)
    variant, baseline = draw.normal(1.0, 0.3, (2, seeds)).tolist()
    comparison = compare(by_seed(*variant), by_seed(*baseline))
    assert comparison is not None
    test = stats.ttest_rel(variant, baseline)
    expected = test.confidence_interval(0.95)
    assert (comparison.low, comparison.high) == pytest.approx((expected.low, expected.high))
    assert comparison.mean == pytest.approx(np.mean(variant) - np.mean(baseline))
    assert (comparison.low > 0 or comparison.high < 0) == (test.pvalue < 0.05)


def alone(variant: dict[int, float], baseline: dict[int, float]) -> Comparison:
    """A comparison that is the only one of its figure."""
    (comparison,) = holm([compare(variant, baseline)])
    assert comparison is not None
    return comparison


def test_a_clear_difference_is_claimed_in_both_directions() -> None:
    above, below = by_seed(1.10, 1.21, 1.32), by_seed(1.0, 1.1, 1.2)
    up, down = alone(above, below), alone(below, above)
    assert up.claimed and down.claimed
    assert up.mean == -down.mean > 0


def test_pairs_are_by_seed_and_not_by_order() -> None:
    comparison = compare({2: 3.2, 0: 1.1, 1: 2.15, 9: 0.0}, {0: 1.0, 1: 2.0, 2: 3.0, 8: 0.0})
    assert comparison is not None and comparison.pairs == 3
    assert comparison.mean == pytest.approx(0.15)


def test_two_seeds_claim_nothing() -> None:
    comparison = alone(by_seed(2.0, 2.0001), by_seed(1.0, 1.0))
    assert comparison.low > 0
    assert not comparison.claimed and not comparison.within(2.0)


def test_one_seed_has_an_endless_interval() -> None:
    comparison = compare(by_seed(2.0), by_seed(1.0))
    assert comparison is not None and comparison.mean == 1.0
    assert (comparison.low, comparison.high) == (-math.inf, math.inf)
    assert not comparison.claimed


def test_an_interval_with_0_in_it_claims_nothing() -> None:
    comparison = alone(by_seed(1.0, 1.0, 1.0), by_seed(0.99, 0.9, 0.2))
    assert comparison.low < 0 and not comparison.claimed


def test_equal_values_are_no_difference() -> None:
    comparison = compare(by_seed(0.1, 0.2, 0.3), by_seed(0.1, 0.2, 0.3))
    assert comparison is not None
    assert (comparison.mean, comparison.low, comparison.high, comparison.claimed) == (
        0,
        0,
        0,
        False,
    )


def test_a_difference_without_noise_is_claimed_and_is_no_part_of_the_correction() -> None:
    exact = compare(by_seed(8.0, 8.0, 8.0), by_seed(6.0, 6.0, 6.0))
    assert exact is not None and exact.claimed
    assert (exact.low, exact.high) == (2.0, 2.0)
    assert math.isnan(exact.p)


@pytest.mark.parametrize("bad", [NAN, math.inf])
def test_with_a_run_that_diverged_nothing_is_compared(bad: float) -> None:
    for first, right in ((bad, 0.0), (0.0, bad), (bad, bad)):
        comparison = alone(by_seed(2.0, 2.1, 2.2, first), by_seed(1.0, 1.1, 1.2, right))
        assert comparison.diverged
        assert not comparison.claimed and not comparison.within(1e9)


def test_a_difference_is_bounded_by_its_interval_and_not_by_its_mean() -> None:
    comparison = alone(by_seed(1.0, 1.1, 1.2, 1.3), by_seed(1.05, 1.05, 1.15, 1.35))
    end = max(-comparison.low, comparison.high)
    assert abs(comparison.mean) < end
    assert comparison.within(end) and not comparison.within(0.99 * end)


def test_without_a_shared_seed_there_is_no_comparison() -> None:
    assert compare({0: 1.0}, {1: 1.0}) is None


def test_the_interval_of_a_mean_is_scipys() -> None:
    values = [3.1, 2.9, 3.7, 3.3]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_of(values).interval == pytest.approx((expected.low, expected.high))


# --- Seeds and text -------------------------------------------------------------------------------


def crossed(draw: np.random.Generator, seeds: float, text: float, pairs: float) -> np.ndarray:
    """Differences of 8 seeds on 100 blocks, with these standard deviations of the effects."""
    effects = (
        draw.normal(0, seeds, (8, 1)),
        draw.normal(0, text, 100),
        draw.normal(0, pairs, (8, 100)),
    )
    return effects[0] + effects[1] + effects[2]


@pytest.mark.parametrize(("seeds", "text"), [(0.01, 0.0), (0.01, 0.1), (0.01, 0.3), (0.0, 0.1)])
def test_an_interval_over_seeds_and_text_covers_0_nineteen_times_in_twenty(
    seeds: float, text: float
) -> None:
    draw = np.random.default_rng(0)
    means = [mean_of(crossed(draw, seeds, text, 0.05)) for _ in range(600)]
    covered = np.mean([mean.interval[0] <= 0 <= mean.interval[1] for mean in means])
    assert covered == pytest.approx(0.95, abs=0.035)


def test_an_interval_over_seeds_alone_forgets_the_text() -> None:
    draw = np.random.default_rng(0)
    means = [mean_of(crossed(draw, 0.01, 0.3, 0.05).mean(1)) for _ in range(200)]
    assert np.mean([mean.interval[0] <= 0 <= mean.interval[1] for mean in means]) < 0.5


def test_the_error_is_that_of_a_bootstrap_of_seeds_and_blocks() -> None:
    values = crossed(np.random.default_rng(2), 0.05, 0.3, 0.01)
    again = stats.bootstrap(
        (np.arange(8), np.arange(100)),
        lambda rows, blocks, axis: values[rows[..., :, None], blocks[..., None, :]].mean((-2, -1)),
        paired=False,
        n_resamples=4000,
        rng=np.random.default_rng(0),
    )
    narrow = math.sqrt(7 / 8)  # a bootstrap divides by n where the seeds' variance has n − 1
    of_seeds, of_text = mean_of(values).deviation / math.sqrt(8), mean_of(values).text_variance
    expected = math.hypot(of_seeds * narrow, math.sqrt(of_text))
    assert again.standard_error == pytest.approx(expected, rel=0.05)


def test_where_the_text_moves_a_difference_by_more_no_number_of_seeds_bounds_it() -> None:
    assert spreading(0.01, 8, text_variance=1e-8).seeds_to_bound(0.01) is not None
    assert spreading(0.2, 8).seeds_to_bound(0.01) > 1000
    assert spreading(0.01, 8, text_variance=1e-4).seeds_to_bound(0.01) is None


# --- Several comparisons --------------------------------------------------------------------------


def with_p(p: float) -> Comparison:
    return Comparison(MIN_SEEDS, 1.0, 0.5, 1.5, p)


@pytest.mark.parametrize(
    ("ps", "claimed"),
    [
        ([0.04], [True]),
        ([0.04, 0.04], [False, False]),
        ([0.01, 0.04], [True, True]),  # the second has to be at most 0.05 alone
        ([0.03, 0.001, 0.02], [True, True, True]),
        ([0.03, 0.001, 0.026], [False, True, False]),  # 0.026 is above 0.05 / 2
        ([0.04, NAN, 0.01], [True, False, True]),  # where chance has no part there is no test
    ],
)
def test_claims_are_holms(ps: list[float], claimed: list[bool]) -> None:
    assert [
        comparison.claimed for comparison in holm([with_p(p) for p in ps]) if comparison
    ] == claimed


def test_what_cannot_be_compared_stays_where_it_is() -> None:
    assert holm([None, with_p(0.01), None])[::2] == [None, None]
    assert holm([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("variants", [1, 6])
def test_where_nothing_differs_one_study_in_twenty_claims_something(
    seeds: int, variants: int
) -> None:
    draw = np.random.default_rng(0)
    trials = 600
    wrong = 0
    for _ in range(trials):
        shared = draw.normal(0, 1.0, seeds)  # what the seed does to all
        baseline, *rest = shared + draw.normal(0, 0.1, (variants + 1, seeds))
        comparisons = holm([compare(by_seed(*values), by_seed(*baseline)) for values in rest])
        wrong += any(comparison is not None and comparison.claimed for comparison in comparisons)
    sampling = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert 0 < wrong / trials <= 0.05 + sampling


def test_a_difference_of_five_deviations_is_nearly_always_found_with_five_seeds() -> None:
    draw = np.random.default_rng(1)
    count = 0
    for _ in range(300):
        variant, baseline = draw.normal(0, 0.1, (2, 5))
        count += alone(by_seed(*(variant + 0.5)), by_seed(*baseline)).claimed
    assert count > 280
