"""Where compute is best spent: for each budget of it the size with the least loss, and the study's words.

N counts parameters without embeddings, as in Kaplan et al. 2020 (§2.1, eq. 2.1: N ≈ 2 d_model n_layer
(2 d_attn + d_ff)); D counts tokens that were read, again and again where the text is shorter; compute is
C = 6 N D, a multiplication and an addition for each parameter and token, and twice that backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from laboratory.laws import Estimate
from laboratory.results import Results
from laboratory.study import Cell, Study

RESAMPLED = 300  # times, for an interval
LEAST_POINTS = 5  # sizes of one budget of compute; a parabola passes through any three
LEAST_BUDGETS = 3  # of compute, for an exponent


@dataclass(frozen=True)
class Cellwise:
    """A size and budget with its losses over the seeds; all of them are numbers."""

    parameters: float
    tokens: float
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The mean over the seeds."""
        return float(np.mean(self.losses))


@dataclass(frozen=True)
class Profile:
    """Loss over size at one budget of compute, and the parabola through it (Hoffmann et al. 2022, §3.2)."""

    compute: float
    parameters: Float[ndarray, " n"]
    losses: Float[ndarray, " n"]
    parabola: tuple[float, float, float]
    """Of log N: the coefficients of its square, of itself, and of 1."""
    best: Estimate
    """The size where it is lowest: 0 or ∞ where the loss still falls at the smallest or largest tried."""

    @property
    def inside(self) -> bool:
        """Whether the minimum lies inside the sizes that were tried."""
        return 0 < self.best.value < math.inf


@dataclass(frozen=True)
class Spending:
    """What all budgets of compute say together."""

    profiles: tuple[Profile, ...]
    exponent: Estimate | None
    """The a of N_opt ∝ C^a; None where too few minima lie inside to tell."""


def parameters(cell: Cell) -> float:
    """N: those of attention and feed-forward network, without embeddings, biases and norms."""
    settings = cell.settings
    return 2.0 * settings.layers * settings.d_model * (2 * settings.d_model + settings.d_ff)


def tokens(cell: Cell) -> float:
    """D: that were read, again and again where the text is shorter."""
    settings = cell.settings
    return float(settings.steps * settings.accumulate * settings.batch * settings.context)


def cellwise(study: Study, results: Results) -> tuple[list[Cellwise], int]:
    """The losses of each size and budget, and how many of these are left out because a run diverged."""
    sizes = {
        (one.variant, one.point): (parameters(one), tokens(one)) for one in study.cells
    }
    losses: dict[tuple[float, float], list[float]] = {}
    for seen in results.cells:
        where = sizes[seen.variant, tuple(seen.point.items())]
        losses.setdefault(where, []).append(seen.figures["loss"])
    whole = [Cellwise(*where, tuple(seen)) for where, seen in sorted(losses.items())]
    sound = [one for one in whole if all(map(math.isfinite, one.losses))]
    return sound, len(whole) - len(sound)


# --- Loss at equal compute ------------------------------------------------------------------------


def spend(cells: Sequence[Cellwise], seed: int = 0) -> Spending:
    """The profile of each budget of compute, and how the best size grows with it.

    Losses at a budget are read off between a size's two nearest numbers of tokens (a straight line where both
    axes are logarithmic). Intervals are a bootstrap over seeds: how far a run lies from its cell's mean is
    drawn anew for each run, from all cells together.

    Args:
        cells: of several sizes and budgets.
        seed: of the resampling.
    """
    budgets = _budgets(cells)
    if not budgets:
        return Spending((), None)
    logs = [np.log(one.losses) for one in cells]
    means = np.array([one.mean() for one in logs])
    # A mean of n takes 1/n of the variance with it.
    apart = [(one - one.mean()) * math.sqrt(len(one) / (len(one) - 1)) for one in logs if len(one) > 1]
    noise = np.concatenate(apart) if apart else np.zeros(1)
    draw = np.random.default_rng(seed)
    found = _minima(cells, means, budgets)
    others = np.array(
        [
            _minima(cells, means + [draw.choice(noise, len(one)).mean() for one in logs], budgets)
            for _ in range(RESAMPLED)
        ]
    )
    profiles = tuple(
        _profile(cells, means, budget, Estimate(float(best), *_range(around)))
        for budget, best, around in zip(budgets, found, others.T, strict=True)
    )
    return Spending(profiles, _exponent(np.array(budgets), found, others))


def _budgets(cells: Sequence[Cellwise]) -> list[float]:
    """Powers of two that enough sizes reach, from the largest down. They lie apart by four: then no two
    of them are read off between the same numbers of tokens, where these double."""
    spans: dict[float, list[float]] = {}
    for one in cells:
        spans.setdefault(one.parameters, []).append(6 * one.parameters * one.tokens)
    every = [compute for computes in spans.values() for compute in computes]
    exponents = range(math.ceil(math.log2(min(every))), math.floor(math.log2(max(every))) + 1)
    reached = [
        2.0**exponent
        for exponent in exponents
        if sum(min(one) <= 2.0**exponent <= max(one) for one in spans.values()) >= LEAST_POINTS
    ]
    return reached[::-2][::-1]


def _points(
    cells: Sequence[Cellwise], logs: Float[ndarray, " n"], compute: float
) -> tuple[Float[ndarray, " m"], Float[ndarray, " m"]]:
    """Log N and log loss of each size that reaches a budget of compute."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for one, log in zip(cells, logs, strict=True):
        rows.setdefault(one.parameters, []).append((math.log(one.tokens), float(log)))
    x, y = [], []
    for size, row in sorted(rows.items()):
        wanted = math.log(compute / (6 * size))
        row.sort()
        if row[0][0] <= wanted <= row[-1][0]:
            x.append(math.log(size))
            y.append(float(np.interp(wanted, *zip(*row, strict=True))))
    return np.array(x), np.array(y)


def _minima(
    cells: Sequence[Cellwise], logs: Float[ndarray, " n"], budgets: Sequence[float]
) -> Float[ndarray, " b"]:
    """The best size of each budget; 0 or ∞ where it is not among those that were tried."""
    found = []
    for budget in budgets:
        x, y = _points(cells, logs, budget)
        square, slope, _ = np.polyfit(x, y, 2)
        lowest = -slope / (2 * square) if square > 0 else math.nan
        if x[0] < lowest < x[-1]:
            found.append(math.exp(lowest))
        else:
            # Where the curve is lower at its right end, the best size is still to the right.
            ends = np.polyval(np.polyfit(x, y, 2), x[[0, -1]])
            found.append(0.0 if ends[0] < ends[1] else math.inf)
    return np.array(found)


def _profile(
    cells: Sequence[Cellwise], logs: Float[ndarray, " n"], compute: float, best: Estimate
) -> Profile:
    x, y = _points(cells, logs, compute)
    square, slope, rest = np.polyfit(x, y, 2)
    return Profile(compute, np.exp(x), np.exp(y), (float(square), float(slope), float(rest)), best)


def _range(values: Float[ndarray, " n"]) -> tuple[float, float]:
    """Between which 95% of some sizes lie; no two are averaged, as some are infinite."""
    return (
        float(np.quantile(values, 0.025, method="lower")),
        float(np.quantile(values, 0.975, method="higher")),
    )


def _exponent(
    budgets: Float[ndarray, " b"], found: Float[ndarray, " b"], others: Float[ndarray, "r b"]
) -> Estimate | None:
    """The slope of log N_opt over log C, over the budgets whose minimum stays inside as good as always."""
    inside = (others > 0) & np.isfinite(others)
    steady = inside.mean(0) >= 0.95
    steady &= (found > 0) & np.isfinite(found)
    if steady.sum() < LEAST_BUDGETS:
        return None
    x = np.log(budgets[steady])
    slopes = [
        float(np.polyfit(x, np.log(other[steady]), 1)[0])
        for other, whole in zip(others, inside[:, steady].all(1), strict=True)
        if whole
    ]
    return Estimate(float(np.polyfit(x, np.log(found[steady]), 1)[0]), *_range(np.array(slopes)))
