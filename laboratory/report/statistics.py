"""Mean and spread over the seeds, paired comparisons with their intervals, and which differences are claimed.

Two variants with the same seed read the same batches and share initial weights, so their difference is paired
by seed; and as both are measured on the same text, it is paired by block of text. Seeds and blocks are two
crossed samples: an interval says how far other seeds and another text of this kind would move the difference.
Dunnett's test, the usual one for several comparisons with one baseline, takes samples that are not paired, so
we correct the paired tests by Holm's method.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
POWER = 0.8  # the probability of finding a difference that is there
MIN_SEEDS = 3  # of fewer, nothing is claimed
MAX_SEEDS = 10**9  # with so many, the text alone is left


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
class Mean:
    """The mean of numbers `(S, B)` by seed and block of text, and how sure it is.

    Seeds and blocks have random effects, and so has each pair of them: with mean squares MS of the two-way
    analysis of variance, the variance of the mean is (MS_seeds + MS_blocks − MS_pairs) / (S · B), and
    not below that of the seeds alone. Its degrees of freedom are those of Satterthwaite 1946, *An Approximate
    Distribution of Estimates of Variance Components*. With one block the interval is Student's.
    """

    value: float
    deviation: float = 0.0
    """The standard deviation over the seeds (n − 1), on this text."""
    text_variance: float = 0.0
    """What the choice of the text adds to the variance of the mean."""
    freedom: float = 0.0
    """Degrees of freedom; 0 for a single seed."""
    seeds: int = 1

    @property
    def error(self) -> float:
        return math.sqrt(self.deviation**2 / self.seeds + self.text_variance)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95% interval; infinite with a single seed."""
        if not self.freedom:
            return -math.inf, math.inf
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)) * self.error
        return self.value - half, self.value + half


def mean_of(values: Sequence[Any]) -> Mean:
    """The mean of numbers by seed, `(S,)`, or by seed and block, `(S, B)`."""
    table = np.asarray(values, dtype=float).reshape(len(values), -1)  # (S, B)
    seeds, blocks = table.shape
    if seeds < 2:
        return Mean(float(table.mean()))
    if np.ptp(table) == 0:
        return Mean(float(table[0, 0]), freedom=seeds - 1, seeds=seeds)
    by_seed, by_block = table.mean(1), table.mean(0)
    variances = np.array([by_seed.var(ddof=1) / seeds, 0.0, 0.0])
    freedoms = np.array([seeds - 1, 1, 1])
    if blocks > 1:
        rest = table - by_seed[:, None] - by_block + table.mean()  # (S, B)
        freedoms[1:] = blocks - 1, (seeds - 1) * (blocks - 1)
        variances[1:] = by_block.var(ddof=1) / blocks, (rest**2).sum() / freedoms[2] / rest.size
        if variances[1] < variances[2]:
            variances[1:] = 0.0
    text = float(variances[1] - variances[2])
    freedom = float((variances[0] + text) ** 2 / (variances**2 / freedoms).sum())
    return Mean(float(table.mean()), float(by_seed.std(ddof=1)), text, freedom, seeds)


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline, paired by seed and block: variant − baseline."""

    pairs: int
    mean: float
    low: float
    """The lower end of the mean's 95% interval; −∞ with too few pairs."""
    high: float
    p: float
    """Of the two-sided t test; NaN where chance has no part: too few seeds, a run that diverged, or the same
    difference everywhere."""
    over: Mean = Mean(math.nan)
    """The mean with its variances."""
    diverged: bool = False
    """Whether a run did: then nothing is subtracted."""
    claimed: bool = False
    """Whether the two differ, by Holm's method over all comparisons of a figure."""

    def within(self, margin: float) -> bool:
        """Whether the entire interval is inside ±margin."""
        return self.pairs >= MIN_SEEDS and -margin <= self.low and self.high <= margin

    def detectable(self, tests: int) -> float:
        """The smallest true difference that is claimed with probability `POWER`, as the first of so many
        tests that Holm's method corrects (by the central t distribution, so about)."""
        quantiles = stats.t.ppf([1 - (1 - CONFIDENCE) / 2 / tests, POWER], self.over.freedom)
        return float(sum(quantiles)) * self.over.error

    def seeds_to_bound(self, margin: float) -> int | None:
        """How many seeds bound the difference with probability `POWER`, if there is none; None where the
        choice of the text alone moves it by more."""
        sided = float(stats.norm.ppf((1 + POWER) / 2))

        def reach(seeds: int) -> float:
            half = float(stats.t.ppf((1 + CONFIDENCE) / 2, seeds - 1))
            return (half + sided) * replace(self.over, seeds=seeds).error

        if reach(MAX_SEEDS) > margin:
            return None
        return next(n for n in itertools.count(self.pairs) if reach(n) <= margin)


Values = Mapping[int, float | Sequence[float] | np.ndarray]


def compare(variant: Values, baseline: Values) -> Comparison | None:
    """Compare a figure of a variant with the baseline's, by seed, and by block of text where it has blocks;
    None where they share no seed.

    If one of the runs diverged, nothing is compared: the pairs that are left would be those in which both
    were lucky.
    """
    seeds = sorted(variant.keys() & baseline.keys())
    if not seeds:
        return None
    if not all(np.isfinite(by[seed]).all() for by in (variant, baseline) for seed in seeds):
        return Comparison(len(seeds), math.nan, -math.inf, math.inf, math.nan, diverged=True)
    over = mean_of([np.subtract(variant[seed], baseline[seed]) for seed in seeds])
    low, high = over.interval
    enough = len(seeds) >= MIN_SEEDS
    noisy = enough and low < high
    p = 2 * float(stats.t.sf(abs(over.value) / over.error, over.freedom)) if noisy else math.nan
    exact = enough and low == high != 0
    return Comparison(len(seeds), over.value, low, high, p, over, claimed=exact)


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
