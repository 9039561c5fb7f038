"""A study's results by variant and point: each figure's spread, and its comparison with the baseline's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from laboratory.report.statistics import Comparison, Spread, Values, compare, holm, spread
from laboratory.study.description import Figure, Point, Study
from laboratory.study.results import CellResult, Results
from training.errors import Refused


@dataclass(frozen=True)
class Side:
    """A figure of one variant at one point."""

    variant: str
    point: Point
    spread: Spread | None
    """None where no run has it."""
    against: Comparison | None
    """None for the baseline, with once or twice the steps, and where it cannot be compared."""
    diverged: int
    """Of the runs, those whose loss is no number."""
    runs: int


class Compared:
    """Results looked at as a study asks.

    Args:
        results: of its cells, perhaps of some only.

    Raises:
        Refused: results of another study, or of cells that it does not have.
    """

    def __init__(self, study: Study, results: Results):
        if results.study != study.name:
            raise Refused(f"These are results of {results.study}, not of {study.name}")
        self.study, self.results = study, results
        self._seen = {_key(cell.variant, cell.point, cell.seed): cell for cell in results.cells}
        expected = {
            _key(cell.variant, dict(cell.point), cell.seed): cell.name for cell in study.cells
        }
        if foreign := self._seen.keys() - expected.keys():
            variant, point, seed = min(foreign, key=str)
            raise Refused(
                f"The results of {study.name} have {variant} at {dict(point)} with seed {seed}, which "
                "the study does not ask for any more: run it again"
            )
        self.missing = [name for key, name in expected.items() if key not in self._seen]
        self._asked = {(variant, point) for variant, point, _ in expected}

    @property
    def compares(self) -> bool:
        """Whether variants are held against the baseline."""
        return len(self.study.variants) > 1

    def runs(self, variant: str, point: Point) -> list[CellResult]:
        """The finished runs, in the order of the seeds."""
        keys = (_key(variant, point, seed) for seed in self.study.seeds)
        return [self._seen[key] for key in keys if key in self._seen]

    def values(self, figure: str, variant: str, point: Point) -> dict[int, float]:
        """A figure by seed, of all runs: NaN where a run diverged or does not have it."""
        return {
            cell.seed: {**cell.timed, **cell.figures}.get(figure, math.nan)
            for cell in self.runs(variant, point)
        }

    def by_block(self, figure: str) -> bool:
        """Whether all runs that have a figure have it by block of text as well."""
        having = [
            cell for cell in self.results.cells if math.isfinite(cell.figures.get(figure, math.nan))
        ]
        return bool(having) and all(figure in cell.blocks for cell in having)

    def blocks(self, figure: str, variant: str, point: Point) -> Values:
        """A figure by seed and block of text; by seed alone if some run does not have its blocks."""
        if not self.by_block(figure):
            return self.values(figure, variant, point)
        return {cell.seed: cell.blocks.get(figure, math.nan) for cell in self.runs(variant, point)}

    def against(self, figure: str, variant: str, other: str, point: Point) -> Comparison | None:
        """A figure of a variant compared with that of another one."""
        return compare(*(self.blocks(figure, which, point) for which in (variant, other)))

    def side(self, figure: str, variant: str, point: Point) -> Side:
        """One figure of one variant at one point; its comparison is not corrected for the others."""
        runs = self.runs(variant, point)
        values = self.values(figure, variant, point)
        against = None
        if variant in self.study.rivals:
            against = self.against(figure, variant, self.study.baseline, point)
        diverged = sum(run.diverged for run in runs)
        has_values = any(math.isfinite(value) for value in values.values())
        return Side(
            variant=variant,
            point=point,
            spread=spread(list(values.values())) if has_values else None,
            against=against if has_values else None,
            diverged=diverged,
            runs=len(runs),
        )

    def sides(self, figure: str) -> list[Side]:
        """Of each point, all variants that the study has there; differences are claimed by Holm's method."""
        sides = [
            self.side(figure, variant, point)
            for point in self.study.points
            for variant in self.study.variants
            if (variant, tuple(sorted(point.items()))) in self._asked
        ]
        corrected = holm([side.against for side in sides])
        return [replace(side, against=by) for side, by in zip(sides, corrected, strict=True)]

    @cached_property
    def exact(self) -> list[Figure]:
        """The figures that no seed changes, such as bytes by formula."""
        return [figure for figure in self._untimed if self._is_exact(figure.name)]

    @property
    def noisy(self) -> list[Figure]:
        """The figures that seeds change, and about which something may be claimed."""
        return [figure for figure in self._untimed if figure not in self.exact]

    @property
    def timed(self) -> list[Figure]:
        """The figures that the clock or the device gives, another one each time."""
        return [figure for figure in self.study.figures if figure.timed]

    @property
    def _untimed(self) -> list[Figure]:
        return [figure for figure in self.study.figures if not figure.timed]

    def _is_exact(self, figure: str) -> bool:
        spreads = [side.spread for side in self.sides(figure)]
        finite = [
            known_spread
            for known_spread in spreads
            if known_spread is not None and not known_spread.diverged
        ]
        return bool(finite) and all(value.seeds > 1 and value.low == value.high for value in finite)


def _key(variant: str, point: Point, seed: int) -> tuple[str, tuple[tuple[str, object], ...], int]:
    return variant, tuple(sorted(point.items())), seed


def where(point: Point) -> str:
    """A point in words: "layers 2, warmup 50"."""
    return ", ".join(f"{key} {value}" for key, value in point.items())
