"""A report's tables: each variant at each point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from laboratory.report.claims import difference
from laboratory.report.comparison import Compared, Side
from laboratory.report.digits import number, places
from laboratory.report.statistics import Spread
from laboratory.study.description import Figure, Study

NEAR = 0.05  # nats: a trial that is so much worse than the best is still a good one


def noisy(compared: Compared, figure: Figure) -> Iterator[str]:
    """A figure that seeds change: mean ± standard deviation, range, and difference from the baseline."""
    baseline = compared.study.baseline
    against = compared.compares and figure.better
    heads = [figure.label, "smallest to largest"]
    if against:  # on a phone, what is at the right is out of sight
        heads.insert(1, f"against `{baseline}` (95% interval)")
    rows = []
    for side in compared.sides(figure.name):
        cells = [_mean(figure, side), _range(figure, side)]
        if against:
            cells.insert(1, _against(figure, side, (baseline, compared.study.twice)))
        rows.append((side, cells))
    yield from _table(compared.study, heads, rows)


def exact(compared: Compared, figures: Sequence[Figure]) -> Iterator[str]:
    """Figures that no seed changes, a column each."""
    yield from _side_by_side(compared, figures, _alike)


def timed(compared: Compared, figures: Sequence[Figure]) -> Iterator[str]:
    """Figures that the clock gives, a column each, from the smallest to the largest seed."""
    yield from _side_by_side(compared, figures, _wide)


def trials(by_place: dict[str, dict[float, list[float]]]) -> Iterator[str]:
    """The mean loss of the trial runs at each factor, and the factors that are nearly as good as the best."""
    factors = sorted({factor for by in by_place.values() for factor in by})
    rows = []
    for name, by in by_place.items():
        means = {factor: sum(losses) / len(losses) for factor, losses in sorted(by.items())}
        best = min((mean for mean in means.values() if math.isfinite(mean)), default=math.nan)
        good = [f"{factor:g}" for factor, mean in means.items() if mean <= best + NEAR]
        cells = [number(means.get(factor, math.nan), 2) for factor in factors]
        rows.append([f"`{name}`", *cells, ", ".join(good)])
    heads = [*(f"{factor:g}" for factor in factors), f"within {NEAR:g} of the best"]
    yield from lines(["variant", *heads], rows)


def _side_by_side(
    compared: Compared, figures: Sequence[Figure], tell: Callable[[Figure, Side], str]
) -> Iterator[str]:
    columns = [list(compared.sides(figure.name)) for figure in figures]
    rows = [
        (row[0], [tell(figure, side) for figure, side in zip(figures, row, strict=True)])
        for row in zip(*columns, strict=True)
    ]
    yield from _table(compared.study, [figure.label for figure in figures], rows)


def _table(study: Study, heads: list[str], rows: Iterable[tuple[Side, list[str]]]) -> Iterator[str]:
    keys = list(study.points[0])
    body = (
        [*(str(side.point[key]) for key in keys), f"`{side.variant}`", *cells]
        for side, cells in rows
    )
    yield from lines([*keys, "variant", *heads], body, len(keys) + 1)


def lines(heads: list[str], rows: Iterable[list[str]], names: int = 1) -> Iterator[str]:
    """A table in Markdown.

    Args:
        names: columns at the left that are not numbers of a run.
    """
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * names}{'---:|' * (len(heads) - names)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


# --- Cells ----------------------------------------------------------------------------------------


def _mean(figure: Figure, side: Side) -> str:
    spread = side.spread
    if (missing := _without(side)) or spread is None:
        return missing or "—"
    decimals = places(spread.deviation, figure.digits)
    if not spread.deviation or math.isnan(spread.deviation):
        alone = " (1 seed)" if spread.seeds == 1 else ""
        return number(spread.mean, decimals) + alone
    return f"{number(spread.mean, decimals)} ± {number(spread.deviation, decimals)}"


def _alike(figure: Figure, side: Side) -> str:
    """A number that all seeds have; a run that diverged has it as well, if it needs no run."""
    is_finite = side.spread is not None and not side.spread.diverged
    return (
        number(side.spread.mean, figure.digits)
        if is_finite and side.spread
        else _without(side) or "—"
    )


def _without(side: Side) -> str:
    """The words in place of a number."""
    if not side.runs:
        return "not run"
    if side.diverged:
        return f"diverged in {side.diverged} of {side.runs}"
    if side.spread is None:
        return "—"
    return f"— in {side.spread.diverged} of {side.runs}" if side.spread.diverged else ""


def _range(figure: Figure, side: Side) -> str:
    if _without(side) or side.spread is None:
        return ""
    return _low_to_high(figure, side.spread)


def _low_to_high(figure: Figure, spread: Spread) -> str:
    decimals = places(spread.deviation, figure.digits)
    if not figure.timed:  # what was counted is given to the unit
        decimals = max(0, decimals)
    low, high = number(spread.low, decimals), number(spread.high, decimals)
    return low if low == high else f"{low} to {high}"


def _wide(figure: Figure, side: Side) -> str:
    if (missing := _without(side)) or side.spread is None:
        return missing or "—"
    return _low_to_high(figure, side.spread)


def _against(figure: Figure, side: Side, unmatched: tuple[str, ...]) -> str:
    """The difference, bold where it is claimed."""
    if side.variant in unmatched:
        return ""
    if side.against is None or side.against.diverged:
        return "—"
    text = difference(figure, side.against)
    return f"**{text}**" if side.against.claimed else text
