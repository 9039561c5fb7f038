"""The report of a study of sizes and budgets: laws fitted to several choices of the runs, side by side.

N counts parameters without embeddings, as in Kaplan et al. 2020 (*Scaling Laws for Neural Language Models*,
§2.1, eq. 2.1: N ≈ 2 d_model n_layer (2 d_attn + d_ff)); D counts the tokens that were read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from laboratory.report import laws
from laboratory.report.digits import number, places
from laboratory.report.laws import Estimate, Fit, Law
from laboratory.report.tables import lines
from laboratory.study.description import Cell, Study
from laboratory.study.results import Results
from training.errors import Refused

SHORTEST = 2  # budgets that the second fit leaves out


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


def paragraphs(study: Study, results: Results) -> Iterator[str]:
    """The law by several choices of the runs, and what follows.

    Args:
        study: its sizes and budgets.
        results: perhaps of some of its cells only.
    """
    cells, diverged = cellwise(study, results)
    rows = list(_rows(cells, results.counted))
    if not rows:
        yield "No law of loss can be fitted yet: too few sizes and budgets have been run."
        return
    yield (
        "The law of Hoffmann et al. 2022 (eq. 2), L(N, D) = E + A/N^α + B/D^β, fitted to several choices of "
        "the runs, with 95% intervals; by it the best size grows with compute as C^a, a = β/(α + β) (their "
        "eq. 4). The error is the root mean square of the logarithm of the loss."
    )
    heads = ["runs", "sizes and budgets", "floor E", "α", "β", "a", "error"]
    yield "\n".join(lines(heads, rows))
    yield (
        "For far larger models, with all parameters counted, Hoffmann et al. 2022 (§3.3) have α = 0.34 and "
        "β = 0.28, which Besiroglu et al. 2024, *Chinchilla Scaling: A Replication Attempt*, find to be "
        "rounded, and fitted by a search that had not converged. Kaplan et al. 2020, whose N is ours, have "
        "a = 0.73 where Hoffmann et al. have 0.5. Pearce & Song 2024, *Reconciling Kaplan and Chinchilla "
        "Scaling Laws*, attribute much of this difference to counting without embeddings at small sizes."
    )
    if diverged:
        yield (
            f"{diverged} of {len(cells) + diverged} sizes and budgets are left out, because one of "
            "their runs diverged."
        )


def _rows(cells: Sequence[Cellwise], counted: dict[str, float]) -> Iterator[list[str]]:
    """A row for each choice of the runs to which a law can be fitted."""
    budgets = sorted({one.tokens for one in cells})
    least = budgets[min(SHORTEST, len(budgets) - 1)] if budgets else 0.0
    bigram = counted.get("bigram", math.inf)
    choices: dict[str, Callable[[Cellwise], bool]] = {
        "all": lambda _: True,
        f"without the {SHORTEST} shortest budgets": lambda one: one.tokens >= least,
        "below the bigram level": lambda one: one.loss < bigram,
    }
    for words, chosen in choices.items():
        those = [one for one in cells if chosen(one)]
        sizes = np.array([(one.parameters, one.tokens) for one in those]).reshape(-1, 2)
        losses = np.array([one.loss for one in those])
        try:
            fit = laws.fit(sizes, losses)
        except Refused:
            continue
        error = float(np.sqrt(np.mean(np.log(losses / fit.law.loss(*sizes.T)) ** 2)))
        told = [_told(fit, of) for of in (_floor, _alpha, _beta, laws.allocation)]
        yield [words, str(len(those)), *told, number(error, 3)]


def _floor(law: Law) -> float:
    return law.floor


def _alpha(law: Law) -> float:
    return law.exponents[0]


def _beta(law: Law) -> float:
    return law.exponents[1]


def _told(fit: Fit, of: Callable[[Law], float]) -> str:
    found: Estimate = fit.estimate(of)
    decimals = places((found.high - found.low) / 2, 2)
    value, low, high = (number(one, decimals) for one in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"
