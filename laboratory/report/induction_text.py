"""What may be said of induction heads: when they formed, what changed then, what the model does without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from laboratory.report.digits import signed
from laboratory.report.statistics import compare, holm, mean_interval, spread
from laboratory.study.induction import FORMED
from laboratory.study.repeats import SYMBOLS
from laboratory.study.results import CellResult, Results

MEANING = (
    "An **induction head** attends to the symbol that came after the same symbol's earlier occurrence, and "
    "so can predict it again; the weight that it gives there is its prefix-matching score. Chance is the "
    "loss where all symbols are equally likely."
)


def paragraphs(results: Results) -> list[str]:
    """What the numbers allow to say of each variant, and nothing else."""
    return [MEANING, *(sentence for cells in by_variant(results) for sentence in _told(cells))]


def _told(cells: Sequence[CellResult]) -> Iterable[str]:
    seeds, name = len(cells), f"`{cells[0].variant}`"
    formed = [cell for cell in cells if "formed_at" in cell.figures]
    if formed:
        yield (
            f"{name}: a head formed in {len(formed)} of {seeds} seeds, {_steps('formed_at', formed)}: by "
            f"then its prefix-matching score had passed {FORMED}. At the end the best head's score is "
            f"{_values('prefix_matching', formed)}."
        )
        yield _beside(name, formed)
    if len(formed) < seeds:
        without = [cell for cell in cells if cell not in formed]
        yield (
            f"{name}: no head formed in {len(without)} of {seeds} seeds; the largest score at the end is "
            f"{_values('prefix_matching', without)}."
        )
    yield (
        f"{name}: at the end the loss on a segment's first occurrence is {_values('first', cells)} nats per "
        f"symbol, and {_values('again', cells)} where it repeats (chance: {math.log(SYMBOLS):.2f})."
    )
    _, low, high = mean_interval([cell.figures["in_context"] for cell in cells])
    if not formed and seeds > 1 and high < 0:
        yield (
            f"{name}: so the context helps without an induction head as well, by {-high:.2f} to {-low:.2f} "
            f"nats per symbol (95% interval)."
        )
    if formed:
        yield _switched_off(name, formed)


def _beside(name: str, formed: Sequence[CellResult]) -> str:
    """How far the jump of the loss lies from the head's."""
    fell = [cell for cell in formed if "fell_at" in cell.figures]
    if not fell:
        return (
            f"{name}: the loss on repeated symbols did not fall to half of chance in any of them."
        )
    apart = [cell.figures["fell_at"] - cell.figures["formed_at"] for cell in fell]
    looks = fell[0].extra["looks"]
    every = looks[1]["step"] - looks[0]["step"] if len(looks) > 1 else looks[0]["step"]
    where = ", ".join(signed(gap, 0) for gap in apart)
    return (
        f"{name}: in {len(fell)} of these {len(formed)} seeds the loss on repeated symbols fell to half of "
        f"chance. Counted from the step at which the head formed, that was at {where} steps (the model was "
        f"examined every {every} steps)."
    )


def _switched_off(name: str, cells: Sequence[CellResult]) -> str:
    text = (
        f"{name}: switching off its best head adds {_values('best_off', cells)} nats per symbol to the loss "
        "on repeated symbols"
    )
    if all("previous_off" in cell.figures for cell in cells):
        text += (
            ", switching off the head below it that attends most to the previous token adds "
            f"{_values('previous_off', cells)}"
        )
    if all("both_off" in cell.figures for cell in cells):
        text += f" (and {_values('both_off', cells)} together with the one that attends to it next most)"
    if not all("others_off" in cell.figures for cell in cells):
        return f"{text}."
    text += (
        f", and switching off another head of its layer {_values('others_off', cells)} on average"
    )
    by_seed = (
        {cell.seed: cell.figures[key] for cell in cells} for key in ("best_off", "others_off")
    )
    (compared,) = holm([compare(*by_seed)])
    if compared is None or not compared.claimed:
        verdict = "Whether the best head matters more than these do on average is open"
    else:
        which = "more" if compared.mean > 0 else "less"
        verdict = f"The best head matters {which} than these do on average"
    if compared is None or not math.isfinite(compared.low):
        return f"{text}. {verdict}."
    low, high = (signed(value, 2) for value in (compared.low, compared.high))
    return (
        f"{text}. {verdict}: the difference is {signed(compared.mean, 2)} nats per symbol (95% interval "
        f"{low} to {high})."
    )


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
