"""The report of a study of sizes and budgets: the fitted laws, and where compute is best spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from laboratory.report import laws
from laboratory.report.digits import number, places, significant
from laboratory.report.isoflop import Cellwise, Profile, Spending, cellwise, joint, spend
from laboratory.report.laws import Estimate
from laboratory.report.tables import lines
from laboratory.study.description import Study
from laboratory.study.results import Results
from training.errors import Refused

KAPLAN_N, KAPLAN_D = 0.076, 0.095  # Kaplan et al. 2020, eq. 1.1 and 1.2
HOFFMANN_N, HOFFMANN_D = 0.34, 0.28  # Hoffmann et al. 2022, their third approach, §3.3
TEXT = 1.0e6  # characters of Shakespeare to learn from


def answer(study: Study, results: Results) -> str:
    """The answer in a sentence: the law that fits.

    Args:
        study: its sizes and budgets.
        results: perhaps of some of its cells only.
    """
    return _joint(cellwise(study, results)[0])


def paragraphs(study: Study, results: Results) -> Iterator[str]:
    """The evidence for the answer, and where compute is best spent.

    Args:
        study: its sizes and budgets.
        results: perhaps of some of its cells only.
    """
    cells, diverged = cellwise(study, results)
    yield from _spending(spend(cells))
    yield from _single(cells)
    if diverged:
        yield (
            f"{diverged} of {len(cells) + diverged} sizes and budgets are left out, because one of "
            "their runs diverged."
        )
    yield _caveats(cells)


# --- Laws -----------------------------------------------------------------------------------------


def _joint(cells: tuple[Cellwise, ...]) -> str:
    """Loss by parameters and tokens together."""
    try:
        fit = joint(cells)
    except Refused as error:
        return f"No law of loss can be fitted yet. {error}."
    alpha, beta = (fit.estimate(_exponent_of(term)) for term in (0, 1))
    floor = fit.estimate(lambda law: law.floor)
    share = fit.estimate(laws.allocation)
    return (
        f"L(N, D) = E + A/N^α + B/D^β, fitted to {len(cells)} combinations of size and budget, has "
        f"α = {_told(alpha)} and β = {_told(beta)}. Hoffmann et al. 2022 have "
        f"α = {_beside(alpha, HOFFMANN_N)} and β = {_beside(beta, HOFFMANN_D)} for far larger models. "
        f"The floor E is {_told(floor)} nats per character. By this law the best size grows as C^a with "
        f"a = β/(α + β) = {_told(share)}."
    )


def _beside(found: Estimate, published: float) -> str:
    inside = found.low <= published <= found.high
    return f"{published:g}, {'inside' if inside else 'outside'} that interval,"


def _single(cells: Sequence[Cellwise]) -> Iterator[str]:
    """Loss by parameters alone at each number of tokens, and by tokens alone at each size."""
    yield from _exponents(
        cells,
        lambda one: one.tokens,
        lambda one: one.parameters,
        "Loss by size alone, L(N) = E + A/N^α, at each number of tokens; and without a floor, "
        f"L(N) = (N_c/N)^α, where Kaplan et al. 2020 (eq. 1.1) have α = {KAPLAN_N}:",
        "tokens",
        "sizes",
    )
    yield from _exponents(
        cells,
        lambda one: one.parameters,
        lambda one: one.tokens,
        "Loss by data alone, L(D) = E + B/D^β, at each size; and without a floor, L(D) = (D_c/D)^β, where "
        f"Kaplan et al. 2020 (eq. 1.2) have β = {KAPLAN_D}:",
        "parameters",
        "budgets",
    )


def _exponents(
    cells: Sequence[Cellwise],
    fixed: Callable[[Cellwise], float],
    free: Callable[[Cellwise], float],
    words: str,
    column: str,
    count: str,
) -> Iterator[str]:
    rows = []
    for value in sorted({fixed(one) for one in cells}):
        those = [one for one in cells if fixed(one) == value]
        sizes, losses = (
            np.array([free(one) for one in those]),
            np.array([one.loss for one in those]),
        )
        try:
            fit, line = laws.fit(sizes[:, None], losses), laws.straight(sizes, losses)
        except Refused:
            continue
        floor, exponent = fit.estimate(lambda law: law.floor), fit.estimate(_exponent_of(0))
        told = [_told(floor), _told(exponent), _told(line)]
        rows.append([significant(value, 3), str(len(those)), *told])
    if rows:
        heads = [column, count, "floor E", "exponent", "exponent without a floor"]
        yield words
        yield "\n".join(lines(heads, rows))


def _exponent_of(term: int) -> Callable[[laws.Law], float]:
    return lambda law: law.exponents[term]


# --- Where compute is best spent ------------------------------------------------------------------


def _spending(spending: Spending) -> Iterator[str]:
    if not spending.profiles:
        yield "No budget of compute was reached by enough sizes for a parabola through them."
        return
    yield (
        "At each budget C = 6ND, compute is best spent at the minimum of a parabola of loss over log N "
        "(Hoffmann et al. 2022, §3.2). The interval allows for seeds, not for the shape of the parabola."
    )
    rows = [
        [
            significant(one.compute),
            str(len(one.parameters)),
            _best(one),
            significant(one.compute / (6 * one.best.value)) if one.inside else "—",
        ]
        for one in spending.profiles
    ]
    yield "\n".join(lines(["C", "sizes", "best N", "its D"], rows))
    if spending.exponent is None:
        inside = sum(one.inside for one in spending.profiles)
        yield (
            f"{inside} of {len(spending.profiles)} parabolas have their minimum inside the sizes that were "
            "tried: too few stay there for all seeds to say how the best size grows with compute."
        )
    else:
        yield (
            f"The best size grows as C^a with a = {_told(spending.exponent)}. Table 2 of Hoffmann et al. "
            "2022 has 0.73 for Kaplan et al. 2020, and 0.50, 0.49 and 0.46 by three approaches of its own."
        )


def _best(profile: Profile) -> str:
    best = profile.best
    if not profile.inside:
        end = "smallest" if best.value == 0 else "largest"
        return f"outside the sizes that were tried: the loss is least at the {end}"
    low = significant(best.low, 3) if best.low > 0 else "below the smallest"
    high = significant(best.high, 3) if math.isfinite(best.high) else "beyond the largest"
    return f"{significant(best.value, 3)} ({low} to {high})"


def _told(estimate: Estimate) -> str:
    decimals = places((estimate.high - estimate.low) / 2, 3)
    value, low, high = (
        number(one, decimals) for one in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({low} to {high})"


def _caveats(cells: Sequence[Cellwise]) -> str:
    again = [one.tokens for one in cells if one.tokens > TEXT]
    data = (
        " Shakespeare has a million characters to learn from: the larger budgets, up to "
        f"{significant(max(again))}, read them up to {number(max(again) / TEXT, 1)} times, and repeated "
        "text is worth less than new text (Muennighoff et al. 2023, *Scaling Data-Constrained Language "
        "Models*)."
        if again
        else ""
    )
    return (
        "Read this with care: N counts parameters without embeddings, as in Kaplan et al. 2020, where "
        "Hoffmann et al. count all. The papers fit models a thousand to a million times as large, on "
        "tokens of a large vocabulary; these are characters, the context is short, and two and a half "
        f"decades of size are little for a floor and an exponent at once.{data}"
    )
