"""What a few seeds allow to say: mean, spread, a paired comparison with its interval, and what is claimed.

Two variants with the same seed read the same batches, so their difference is taken seed by seed: what the
seed does to both of them drops out (Student's t test for pairs).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
LEAST_SEEDS = 3  # of fewer, nothing is claimed


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds. A run in which it is no number is counted, and never averaged away."""

    seeds: int
    diverged: int
    """Of the seeds, those in which it is no number."""
    mean: float
    """NaN where it is no number in any seed: a mean of what is left would tell of the lucky ones."""
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
    """A variant against the baseline, seed by seed: variant − baseline."""

    pairs: int
    mean: float
    low: float
    """Where the 95% t interval of the mean begins; −∞ where there are too few pairs for one."""
    high: float
    one_sign: bool
    """Whether all differences are above 0, or all below."""
    diverged: bool
    """Whether one of the runs did: then there is nothing to subtract."""

    @property
    def claimed(self) -> bool:
        """Whether it may be said that the two differ: at least three seeds, all of one sign, and an
        interval without 0."""
        apart = self.low > 0 or self.high < 0
        return self.pairs >= LEAST_SEEDS and self.one_sign and apart and not self.diverged

    @property
    def by_chance(self) -> bool:
        """Whether it could have looked different by chance: enough seeds, which differ."""
        return self.pairs >= LEAST_SEEDS and not self.diverged and self.low < self.high


def compare(variant: Mapping[int, float], baseline: Mapping[int, float]) -> Comparison | None:
    """A figure of a variant against the baseline's, by seed; None where they share no seed.

    With a run among them that diverged nothing is compared: the pairs that are left would be those in
    which both were lucky.
    """
    seeds = sorted(variant.keys() & baseline.keys())
    if not seeds:
        return None
    differences = np.array([variant[seed] - baseline[seed] for seed in seeds])
    if not np.isfinite(differences).all():
        return Comparison(len(seeds), math.nan, -math.inf, math.inf, False, True)
    mean, low, high = mean_interval(differences)
    one_sign = bool((differences > 0).all() or (differences < 0).all())
    return Comparison(len(seeds), mean, low, high, one_sign, False)


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """The mean, and where its 95% t interval begins and ends: mean ± t(0.975, n − 1) · s / √n."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return mean, -math.inf, math.inf
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0]), float(values[0])
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    return mean, mean - half, mean + half


def chance(comparisons: Iterable[Comparison]) -> tuple[int, float]:
    """How many comparisons there were that depend on the seeds, and how many of them would look
    different by chance alone if no variant differed: at most 5%."""
    count = sum(one.by_chance for one in comparisons)
    return count, (1 - CONFIDENCE) * count
