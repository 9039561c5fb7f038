"""Mean and spread over the seeds, paired comparisons with their intervals, and which differences are claimed.

Two variants with the same seed read the same batches, so their difference is paired by seed: what the seed
does to both drops out (Student's t test for pairs). Dunnett's test, the usual one for several comparisons
with one baseline, takes samples that are not paired, so we correct the paired tests by Holm's method.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
POWER = 0.8  # the probability of finding a difference that is there
MIN_SEEDS = 3  # of fewer, nothing is claimed


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds. A run in which it is no number is counted, and never averaged away."""

    seeds: int
    diverged: int
    """Of the seeds, those in which it is no number."""
    mean: float
    """NaN if a seed has no number: a mean of the others would be biased."""
    deviation: float
    """The standard deviation over the seeds (n − 1); NaN for a single one."""
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """A figure's mean and spread over the seeds.

    Args:
        values: of each seed, at least one; NaN or infinite where the run diverged.
    """
    diverged = sum(not math.isfinite(value) for value in values)
    if diverged:
        return Spread(len(values), diverged, math.nan, math.nan, math.nan, math.nan)
    several = len(values) > 1
    # The mean of equal numbers is that number, and is not off by a rounding.
    equal = min(values) == max(values)
    return Spread(
        seeds=len(values),
        diverged=0,
        mean=values[0] if equal else float(np.mean(values)),
        deviation=(0.0 if equal else float(np.std(values, ddof=1))) if several else math.nan,
        low=min(values),
        high=max(values),
    )


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline, paired by seed: variant − baseline."""

    pairs: int
    mean: float
    low: float
    """The lower end of the mean's 95% t interval; −∞ with too few pairs."""
    high: float
    p: float
    """Of the two-sided paired t test; NaN where chance has no part: too few seeds, a run that diverged, or
    the same difference in every seed."""
    diverged: bool = False
    """Whether a run did: then nothing is subtracted."""
    claimed: bool = False
    """Whether the two differ, by Holm's method over all comparisons of a figure."""

    def within(self, margin: float) -> bool:
        """Whether the entire interval is inside ±margin."""
        return self.pairs >= MIN_SEEDS and -margin <= self.low and self.high <= margin

    @property
    def deviation(self) -> float:
        """The standard deviation of the differences over the seeds (n − 1)."""
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.pairs - 1))
        return (self.high - self.low) / 2 / half * math.sqrt(self.pairs)

    def detectable(self, tests: int) -> float:
        """The smallest true difference that is claimed with probability `POWER`, as the first of so many
        tests that Holm's method corrects (by the central t distribution, so about)."""
        freedom = self.pairs - 1
        quantiles = stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / tests, freedom) + stats.t.ppf(
            POWER, freedom
        )
        return float(quantiles) * self.deviation / math.sqrt(self.pairs)

    def seeds_to_bound(self, margin: float) -> int:
        """How many seeds bound the difference with probability `POWER`, if there is none."""
        sided = float(stats.norm.ppf((1 + POWER) / 2))

        def reach(seeds: int) -> float:
            half = float(stats.t.ppf((1 + CONFIDENCE) / 2, seeds - 1))
            return (half + sided) * self.deviation / math.sqrt(seeds)

        return next(n for n in itertools.count(self.pairs) if reach(n) <= margin)


def compare(variant: Mapping[int, float], baseline: Mapping[int, float]) -> Comparison | None:
    """Compare a figure of a variant with the baseline's, by seed; None where they share no seed.

    If one of the runs diverged, nothing is compared: the pairs that are left would be those in which both
    were lucky.
    """
    seeds = sorted(variant.keys() & baseline.keys())
    if not seeds:
        return None
    differences = np.array([variant[seed] - baseline[seed] for seed in seeds])
    if not np.isfinite(differences).all():
        return Comparison(len(seeds), math.nan, -math.inf, math.inf, math.nan, diverged=True)
    mean, low, high = mean_interval(differences)
    enough = len(seeds) >= MIN_SEEDS
    noisy = enough and low < high
    p = float(stats.ttest_1samp(differences, 0).pvalue) if noisy else math.nan
    return Comparison(len(seeds), mean, low, high, p, claimed=enough and low == high != 0)


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """The mean, and the ends of its 95% t interval: mean ± t(0.975, n − 1) · s / √n."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return mean, -math.inf, math.inf
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0]), float(values[0])
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    return mean, mean - half, mean + half


def holm(comparisons: Sequence[Comparison | None]) -> list[Comparison | None]:
    """Mark the differences that are claimed, so that the probability of even one false claim is at most 5%.

    The i-th smallest of m p-values, counted from 0, has to be at most 0.05 / (m − i), as have all that are
    smaller (Holm 1979, *A Simple Sequentially Rejective Multiple Test Procedure*).
    """
    tested = sorted(
        (comparison.p, i)
        for i, comparison in enumerate(comparisons)
        if comparison and comparison.p == comparison.p
    )
    corrected = list(comparisons)
    for rank, (p, i) in enumerate(tested):
        if p > (1 - CONFIDENCE) / (len(tested) - rank):
            break
        rejected = corrected[i]
        assert rejected is not None
        corrected[i] = replace(rejected, claimed=True)
    return corrected
