"""What may be said of induction heads: when they formed, what changed then, what the model does without."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from laboratory.report.claims import difference
from laboratory.report.digits import number, signed
from laboratory.report.statistics import Comparison, compare, holm, mean_of, spread
from laboratory.report.tables import lines
from laboratory.study.description import Figure
from laboratory.study.induction import FORMED, ranked, strongest
from laboratory.study.repeats import SYMBOLS
from laboratory.study.results import CellResult, Results

MEANING = (
    "An **induction head** attends to the symbol that came after the same symbol's earlier occurrence, and "
    "so can predict it again; the weight that it gives there is its prefix-matching score. Chance is the "
    "loss where all symbols are equally likely.",
    "**Switching a head off** means replacing its output. Here this is done in four ways: with zeros; with "
    "its mean over all rows and positions; with its mean over the rows at each position, which removes what "
    "depends on the row and keeps what depends on the position; and with its output on another row "
    f"(resampling). Heads with a prefix-matching score of at least {FORMED} at the last evaluation are "
    "called induction heads. Scores are of validation rows, and costs and means of test rows.",
)
WAYS = {
    "zero": "zeros",
    "mean": "mean",
    "position": "mean at each position",
    "resampled": "another row's output",
}
KINDS = {True: "induction heads", False: "other heads"}
BELOW = {"first": [0], "second": [1], "both": [0, 1], "control": [0, -1]}
"""Heads of the layers below the best one's, of those ordered by their weight on the previous token."""
COST = Figure("cost", "loss added", digits=2)


class Replaced(NamedTuple):
    """What replacing the output of a head, or of two at once, adds to the loss."""

    seed: int
    heads: list[int]
    """Their numbers in the layer, from 1."""
    scores: list[float]
    costs: dict[str, float]
    """By way."""

    @property
    def formed(self) -> bool:
        """Whether the first is an induction head."""
        return self.scores[0] >= FORMED


def paragraphs(results: Results) -> list[str]:
    """What the numbers allow to say of each variant, and nothing else."""
    return [*MEANING, *(sentence for cells in by_variant(results) for sentence in _told(cells))]


def _told(cells: Sequence[CellResult]) -> Iterator[str]:
    seeds, name = len(cells), f"`{cells[0].variant}`"
    formed = [cell for cell in cells if "formed_at" in cell.figures]
    if formed:
        yield (
            f"{name}: a head formed in {len(formed)} of {seeds} seeds, {_steps('formed_at', formed)}: by "
            f"then its prefix-matching score had passed {FORMED}. At the end the best head's score is "
            f"{_values('prefix_matching', formed)}."
        )
        yield _beside(name, formed)
    if without := [cell for cell in cells if cell not in formed]:
        yield (
            f"{name}: no head formed in {len(without)} of {seeds} seeds; the largest score at the end is "
            f"{_values('prefix_matching', without)}."
        )
    yield (
        f"{name}: at the end the loss on a segment's first occurrence is {_values('first', cells)} nats per "
        f"symbol, and {_values('again', cells)} where it repeats (chance: {math.log(SYMBOLS):.2f})."
    )
    low, high = mean_of([cell.figures["in_context"] for cell in cells]).interval
    if not formed and seeds > 1 and high < 0:
        yield (
            f"{name}: so the context helps without an induction head as well, by {-high:.2f} to {-low:.2f} "
            f"nats per symbol (95% interval)."
        )
    yield f"{name}: what replacing a head's output adds to the loss on repeated symbols, in nats per symbol."
    yield from _by_kind([heads_of(cell) for cell in formed or cells])
    if formed and all("zero_both" in cell.figures for cell in formed):
        yield (
            f"{name}: the same for the heads of the layers below, ordered by their weight on the previous "
            "token: the first, the second, both at once, and, as a control, the first and the last."
        )
        groups = {words: [_below(cell, words) for cell in formed] for words in BELOW}
        yield "\n".join(lines(["heads", *WAYS.values()], _summary(groups)))
        yield _details(groups, "weight on the previous token")


def _beside(name: str, formed: Sequence[CellResult]) -> str:
    """How far the jump of the loss lies from the head's."""
    fell = [cell for cell in formed if "fell_at" in cell.figures]
    apart = [cell.figures["fell_at"] - cell.figures["formed_at"] for cell in fell]
    looks = formed[0].extra["looks"]
    where = ", ".join(signed(gap, 0) for gap in apart)
    return (
        f"{name}: in {len(fell)} of these {len(formed)} seeds the loss on repeated symbols fell to half of "
        f"chance. Counted from the step at which the head formed, that was at {where or 'no'} steps (the "
        f"model was examined every {looks[-1]['step'] // len(looks)} steps)."
    )


def heads_of(cell: CellResult) -> list[Replaced]:
    """Each head of the layer that has the best one."""
    scores = cell.extra["looks"][-1]["prefix"]
    layer = strongest(scores)[0]
    return [
        Replaced(cell.seed, [i + 1], [score], _costs(cell, f"{layer}_{i}"))
        for i, score in enumerate(scores[layer])
    ]


def _below(cell: CellResult, words: str) -> Replaced:
    """One or two of the heads below."""
    prefix, weights = (cell.extra["looks"][-1][name] for name in ("prefix", "previous"))
    below = ranked(weights[: strongest(prefix)[0]])
    heads = [below[place] for place in BELOW[words]]
    name = words if len(heads) == 2 else "{}_{}".format(*heads[0])
    scores = [weights[layer][head] for layer, head in heads]
    return Replaced(cell.seed, [head + 1 for _, head in heads], scores, _costs(cell, name))


def _costs(cell: CellResult, name: str) -> dict[str, float]:
    return {way: cell.figures[f"{way}_{name}"] for way in WAYS}


def _by_kind(cells: Sequence[list[Replaced]]) -> Iterator[str]:
    """What replacing the output of a head of each kind costs."""
    heads = [head for of_cell in cells for head in of_cell]
    groups = {words: [h for h in heads if h.formed == kind] for kind, words in KINDS.items()}
    summary = _summary(groups)
    both = [of_cell for of_cell in cells if len({head.formed for head in of_cell}) == 2]
    if both:
        tests = holm([compare(*(_means(both, way, kind) for kind in KINDS)) for way in WAYS])
        summary.append([f"difference, paired by seed ({len(both)} seeds)", *map(_claim, tests)])
        costliest = [
            [max(some, key=lambda head: head.costs[way]) for some in cells] for way in WAYS
        ]
        counts = (str(sum(head.formed for head in some)) for some in costliest)
        summary.append([f"seeds of {len(cells)} where an induction head costs most", *counts])
    yield "\n".join(lines(["heads", *WAYS.values()], summary))
    if both:
        yield _details(groups, "prefix matching")


def _summary(groups: dict[str, list[Replaced]]) -> list[list[str]]:
    """A row for each group that has members: mean and range of each way's costs."""
    return [
        [f"{words} ({len(some)})", *(_range([each.costs[way] for each in some]) for way in WAYS)]
        for words, some in groups.items()
        if some
    ]


def _details(groups: dict[str, list[Replaced]], scored: str) -> str:
    """A table with a row for each member of each group."""
    rows = []
    for words, each in ((words, each) for words, some in groups.items() for each in some):
        names, scores = map(str, each.heads), (number(score, 2) for score in each.scores)
        costs = (number(cost, 2) for cost in each.costs.values())
        rows.append([words, str(each.seed), " / ".join(names), " / ".join(scores), *costs])
    return "\n".join(lines(["heads", "seed", "head", scored, *WAYS.values()], rows, 3))


def _means(cells: Sequence[list[Replaced]], way: str, kind: bool) -> dict[int, float]:
    return {
        heads[0].seed: statistics.fmean(head.costs[way] for head in heads if head.formed == kind)
        for heads in cells
    }


def _claim(against: Comparison | None) -> str:
    text = difference(COST, against) if against else "—"
    return f"**{text}**" if against and against.claimed else text


def _range(values: Sequence[float]) -> str:
    mean, low, high = (number(of(values), 2) for of in (statistics.fmean, min, max))
    return f"{mean} ({low} to {high})"


def _values(key: str, cells: Sequence[CellResult]) -> str:
    """Mean and standard deviation over the seeds."""
    over = spread([cell.figures[key] for cell in cells])
    return f"{over.mean:.2f}" + (f" ± {over.deviation:.2f}" if len(cells) > 1 else "")


def _steps(key: str, cells: Sequence[CellResult]) -> str:
    steps = sorted(cell.figures[key] for cell in cells)
    several = steps[0] != steps[-1]
    return f"at steps {steps[0]:.0f} to {steps[-1]:.0f}" if several else f"at step {steps[0]:.0f}"


def by_variant(results: Results) -> list[list[CellResult]]:
    """The cells of each variant at each point, by seed; those that diverged have no heads to look at."""
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for cell in sorted(results.cells, key=lambda cell: cell.seed):
        if not cell.diverged:
            groups.setdefault((cell.variant, str(cell.point)), []).append(cell)
    return [groups[key] for key in sorted(groups)]
