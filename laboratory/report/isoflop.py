"""Where compute is best spent: for each budget of it the size with the least loss.

N counts parameters without embeddings, as in Kaplan et al. 2020 (§2.1, eq. 2.1: N ≈ 2 d_model n_layer
(2 d_attn + d_ff)); D counts tokens that were read, again and again where the text is shorter; compute is
C = 6 N D, a multiplication and an addition for each parameter and token, and twice that backwards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from laboratory.report.laws import Estimate, Fit, fit
from laboratory.study.description import Cell, Study
from laboratory.study.results import Results

RESAMPLED = 300  # times, for an interval
LEAST_POINTS = 5  # sizes of one budget of compute; a parabola passes through any three
LEAST_BUDGETS = 3  # of compute, for an exponent
ROUNDING = 1e-9  # of a logarithm, by which a budget may miss the run that it is of


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


def cellwise(study: Study, results: Results) -> tuple[tuple[Cellwise, ...], int]:
    """The losses of each size and budget, and how many of these are left out because a run diverged."""
    sizes = {(one.variant, one.point): (parameters(one), tokens(one)) for one in study.cells}
    losses: dict[tuple[float, float], list[float]] = {}
    for seen in results.cells:
        where = sizes[seen.variant, tuple(seen.point.items())]
        losses.setdefault(where, []).append(seen.figures["loss"])
    whole = [Cellwise(*where, tuple(seen)) for where, seen in sorted(losses.items())]
    sound = tuple(one for one in whole if all(map(math.isfinite, one.losses)))
    return sound, len(whole) - len(sound)


@functools.cache  # the answer, the picture and the page of all studies are drawn from the same fit
def joint(cells: tuple[Cellwise, ...]) -> Fit:
    """The law of loss by parameters and tokens together.

    Raises:
        Refused: too few different sizes.
    """
    sizes = np.array([(one.parameters, one.tokens) for one in cells]).reshape(-1, 2)
    return fit(sizes, np.array([one.loss for one in cells]))


# --- Loss at equal compute ------------------------------------------------------------------------


def spend(cells: Sequence[Cellwise], seed: int = 0) -> Spending:
    """The profile of each budget of compute, and how the best size grows with it.

    Losses at a budget are read off between a size's two nearest numbers of tokens (a straight line where both
    axes are logarithmic). Intervals are a bootstrap over seeds: the residual of each run from its cell's
    mean is resampled from the residuals of all cells.

    Args:
        cells: of several sizes and budgets.
        seed: of the resampling.
    """
    budgets = _budgets(cells)
    if not budgets:
        return Spending((), None)
    logs = [np.log(one.losses) for one in cells]
    means = np.array([one.mean() for one in logs])
    readings = [_reading(cells, budget) for budget in budgets]
    # A mean of n takes 1/n of the variance with it.
    apart = [
        (one - one.mean()) * math.sqrt(len(one) / (len(one) - 1)) for one in logs if len(one) > 1
    ]
    noise = np.concatenate(apart) if apart else np.zeros(1)
    draw = np.random.default_rng(seed)
    drawn = [draw.choice(noise, (RESAMPLED, len(one))).mean(1) for one in logs]
    found = np.array([_lowest(*one, means) for one in readings])
    others = np.array([_lowest(*one, means + np.stack(drawn, 1)) for one in readings])
    profiles = tuple(
        _profile(budget, *reading, means, Estimate(float(best), *_range(around)))
        for budget, reading, best, around in zip(budgets, readings, found, others, strict=True)
    )
    return Spending(profiles, _exponent(np.array(budgets), found, others))


def _budgets(cells: Sequence[Cellwise]) -> list[float]:
    """The compute of each size's longest run, where enough other sizes reach as much; none less than
    twice the one before."""
    spans: dict[float, list[float]] = {}
    for one in cells:
        spans.setdefault(one.parameters, []).append(6 * one.parameters * one.tokens)
    chosen: list[float] = []
    for compute in sorted(max(span) for span in spans.values()):
        reached = sum(min(span) <= compute <= max(span) for span in spans.values())
        if reached >= LEAST_POINTS and (not chosen or compute >= 2 * chosen[-1]):
            chosen.append(compute)
    return chosen


def _reading(
    cells: Sequence[Cellwise], compute: float
) -> tuple[Float[ndarray, " m"], Float[ndarray, "m n"]]:
    """Log N of each size that reaches a budget of compute, and the weights with which its log loss is read
    off from the cells'."""
    rows: dict[float, list[tuple[float, int]]] = {}
    for number, one in enumerate(cells):
        rows.setdefault(one.parameters, []).append((math.log(one.tokens), number))
    x, weights = [], []
    for size, row in sorted(rows.items()):
        spans, numbers = zip(*sorted(row), strict=True)
        wanted = math.log(compute / (6 * size))
        if spans[0] - ROUNDING <= wanted <= spans[-1] + ROUNDING:
            x.append(math.log(size))
            weights.append(np.zeros(len(cells)))
            for number, unit in zip(numbers, np.eye(len(spans)), strict=True):
                weights[-1][number] = np.interp(wanted, spans, unit)
    return np.array(x), np.stack(weights)


def _parabola(
    x: Float[ndarray, " m"], weights: Float[ndarray, "m n"], logs: Float[ndarray, "... n"]
) -> Float[ndarray, "... 3"]:
    """The coefficients of x², x and 1 of the parabola through the log losses, by least squares."""
    return np.asarray(logs @ weights.T @ np.linalg.pinv(np.vander(x, 3)).T)


def _lowest(
    x: Float[ndarray, " m"], weights: Float[ndarray, "m n"], logs: Float[ndarray, "... n"]
) -> Float[ndarray, ...]:
    """The size where the parabola is lowest; 0 or ∞ where that is not among those that were tried."""
    square, slope, _ = np.moveaxis(_parabola(x, weights, logs), -1, 0)
    with np.errstate(divide="ignore"):
        lowest = -slope / (2 * square)
    inside = (square > 0) & (x[0] < lowest) & (lowest < x[-1])
    # Where the curve is lower at its right end, the best size is still to the right.
    rises = square * (x[0] + x[-1]) + slope > 0
    return np.where(inside, np.exp(np.where(inside, lowest, 0.0)), np.where(rises, 0.0, math.inf))


def _profile(
    compute: float,
    x: Float[ndarray, " m"],
    weights: Float[ndarray, "m n"],
    logs: Float[ndarray, " n"],
    best: Estimate,
) -> Profile:
    square, slope, rest = _parabola(x, weights, logs).tolist()
    return Profile(compute, np.exp(x), np.exp(weights @ logs), (square, slope, rest), best)


def _range(values: Float[ndarray, " n"]) -> tuple[float, float]:
    """Between which 95% of some sizes lie; no two are averaged, as some are infinite."""
    return (
        float(np.quantile(values, 0.025, method="lower")),
        float(np.quantile(values, 0.975, method="higher")),
    )


def _exponent(
    budgets: Float[ndarray, " b"], found: Float[ndarray, " b"], others: Float[ndarray, "b r"]
) -> Estimate | None:
    """The slope of log N_opt over log C, over the budgets whose minimum stays inside as good as always."""
    inside = (others > 0) & np.isfinite(others)
    steady = inside.mean(1) >= 0.95
    steady &= (found > 0) & np.isfinite(found)
    if steady.sum() < LEAST_BUDGETS:
        return None
    x = np.log(budgets[steady])
    slopes = [
        float(np.polyfit(x, np.log(other[steady]), 1)[0])
        for other, whole in zip(others.T, inside[steady].all(0), strict=True)
        if whole
    ]
    return Estimate(float(np.polyfit(x, np.log(found[steady]), 1)[0]), *_range(np.array(slopes)))
