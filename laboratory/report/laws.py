"""Laws of loss: how it falls with parameters and with tokens, fitted, with intervals.

The form is that of Hoffmann et al. 2022 (*Training Compute-Optimal Large Language Models*, §3.3, eq. 2):

    L(N, D) = E + A / N^α + B / D^β

and for one of the two alone, L(N) = E + A / N^α.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import optimize, stats

from training.errors import Refused

RESAMPLED = 200  # times, for an interval
# Hoffmann et al. take 1e-3; seeds of models this small differ by up to a hundredth of their loss.
HUBER = 1e-2
EXPONENTS = 0.1, 0.4, 1.0, 2.5  # that the search starts from
FLOORS = 0.2, 0.6, 0.95  # likewise, as shares of the smallest loss
STEEPEST = 10.0  # an exponent that is looked for
LEAST_SIZES = 5  # different ones; a floor, a scale and an exponent pass near any three


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Law:
    """L = E + Σ scaleᵢ / xᵢ^exponentᵢ."""

    floor: float
    scales: tuple[float, ...]
    exponents: tuple[float, ...]

    def loss(self, *sizes: float | Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """What it predicts, for one array of sizes a term."""
        terms = zip(sizes, self.scales, self.exponents, strict=True)
        return np.asarray(
            self.floor + sum(scale * np.power(x, -exponent) for x, scale, exponent in terms)
        )


@dataclass(frozen=True)
class Fit:
    """A law, and the laws that other draws of the same noise would have given."""

    law: Law
    others: tuple[Law, ...]

    def estimate(self, of: Callable[[Law], float]) -> Estimate:
        """Something of the law with its interval: 95% of the other laws lie within."""
        low, high = np.quantile([of(law) for law in self.others], (0.025, 0.975))
        return Estimate(of(self.law), float(low), float(high))


def fit(sizes: Float[ndarray, "n k"], losses: Float[ndarray, " n"], seed: int = 0) -> Fit:
    """A law with a floor, by Hoffmann's eq. 3: a Huber loss of the logarithms, from many starts.

    The interval is a bootstrap of the residuals (Efron & Tibshirani 1993, *An Introduction to the
    Bootstrap*, chapter 9), which are widened for the parameters that were fitted, and as t is wider than the
    normal distribution.

    Args:
        sizes: a row for each loss, with a column for each term of the law.
        losses: one for each cell, as seeds of one cell are no further evidence for a law's form.
        seed: of the resampling.

    Raises:
        Refused: too few different sizes, or too few losses.
    """
    x, y = np.log(sizes), np.log(losses)
    count, terms = x.shape
    free = 1 + 2 * terms
    different = min(len(np.unique(x[:, term])) for term in range(terms))
    if different < LEAST_SIZES or count < free + 2:
        raise Refused(
            f"A law needs {LEAST_SIZES} different sizes and {free + 2} losses: "
            f"there are {different} and {count}"
        )
    middle = x.mean(0)  # the search is easier around the middle
    best = min(
        (_search(x - middle, y, start) for start in _starts(y, terms)), key=lambda one: one.cost
    )
    fitted = _predicted(best.x, x - middle)
    residuals = y - fitted
    residuals -= residuals.mean()
    wider = math.sqrt(count / (count - free)) * _t(count - free) / float(stats.norm.ppf(0.975))
    draw = np.random.default_rng(seed)
    others = [
        _search(x - middle, fitted + wider * draw.choice(residuals, count), best.x)
        for _ in range(RESAMPLED)
    ]
    return Fit(_law(best.x, middle), tuple(_law(other.x, middle) for other in others))


def allocation(law: Law) -> float:
    """The a of N_opt ∝ C^a that a law of N and D leads to: β / (α + β) (Hoffmann et al. 2022, eq. 4)."""
    alpha, beta = law.exponents
    return beta / (alpha + beta)


# --- The search -----------------------------------------------------------------------------------
# Its parameters are E, the terms' logarithms in the middle of the sizes, and the exponents. E itself and not
# its logarithm: where the losses tell no floor, the best E is 0, and a logarithm would go down without end.


def _starts(y: Float[ndarray, " n"], terms: int) -> list[Float[ndarray, " p"]]:
    least, half = math.exp(y.min()), math.log(0.5)
    return [
        np.array([least * floor, *[y.mean() + half] * terms, *exponents])
        for floor in FLOORS
        for exponents in itertools.product(EXPONENTS, repeat=terms)
    ]


def _search(
    x: Float[ndarray, "n k"], y: Float[ndarray, " n"], start: Float[ndarray, " p"]
) -> optimize.OptimizeResult:
    terms = x.shape[1]
    low = [0.0, *[y.min() - 20] * terms, *[1e-3] * terms]
    high = [math.exp(y.max()), *[y.max() + 5] * terms, *[STEEPEST] * terms]
    inside = np.clip(start, np.add(low, 1e-6), np.subtract(high, 1e-6))
    return optimize.least_squares(
        lambda p: _predicted(p, x) - y,
        inside,
        jac=lambda p: _slopes(p, x),
        bounds=(low, high),
        method="dogbox",  # for small problems with bounds
        loss="huber",
        f_scale=HUBER,
        max_nfev=200,
    )


def _terms(p: Float[ndarray, " p"], x: Float[ndarray, "n k"]) -> Float[ndarray, "n k"]:
    """Each term of the law without its floor, for each row of sizes."""
    terms = x.shape[1]
    return np.asarray(np.exp(p[1 : 1 + terms] - p[1 + terms :] * x))


def _predicted(p: Float[ndarray, " p"], x: Float[ndarray, "n k"]) -> Float[ndarray, " n"]:
    return np.asarray(np.log(p[0] + _terms(p, x).sum(axis=1)))


def _slopes(p: Float[ndarray, " p"], x: Float[ndarray, "n k"]) -> Float[ndarray, "n p"]:
    """How the predicted logarithm changes with each parameter."""
    terms = _terms(p, x)
    loss = p[0] + terms.sum(axis=1, keepdims=True)
    shares = terms / loss
    return np.concatenate([1 / loss, shares, -shares * x], axis=1)


def _law(p: Float[ndarray, " p"], middle: Float[ndarray, " k"]) -> Law:
    terms = len(middle)
    exponents = p[1 + terms :]
    scales = np.exp(p[1 : 1 + terms] + exponents * middle)
    return Law(float(p[0]), tuple(scales.tolist()), tuple(exponents.tolist()))


def _t(freedom: int) -> float:
    return float(stats.t.ppf(0.975, freedom))
