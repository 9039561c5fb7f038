"""What the numbers allow to say: sentences, "no difference seen" among them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from laboratory.report.comparison import Compared, Side, where
from laboratory.report.digits import number, places, signed, significant
from laboratory.report.statistics import Comparison, chance
from laboratory.study.description import Figure

BETTER, WORSE, NONE = "better", "worse", "no difference seen"
SAME = "the same in every seed"  # to the last digit: more than no difference seen
UNTOLD = "not compared"  # a run diverged, or is missing
FEW = 2  # points whose differences are told though none was seen


def verdict(figure: Figure, against: Comparison | None) -> str:
    """What may be said of a comparison."""
    if against is None or against.diverged:
        return UNTOLD
    if against.low == against.high == 0:
        return SAME
    if not against.claimed:
        return NONE
    return BETTER if (against.mean < 0) == (figure.better == "lower") else WORSE


def headline(compared: Compared) -> str:
    """The answer in a sentence: the first figure that seeds change."""
    judged = [one for one in compared.noisy if one.better]
    if not judged:
        return "There is no figure in it about which something could be claimed."
    figure, baseline = judged[0], f"`{compared.study.baseline}`"
    grouped: dict[str, list[str]] = {BETTER: [], WORSE: [], NONE: [], SAME: [], UNTOLD: []}
    for variant, sides in _by_variant(compared, figure).items():
        for words, count in _counts(figure, sides).items():
            claimed = words in (BETTER, WORSE)
            if claimed or count == len(sides):
                at = "" if count == len(sides) else f" (at {count} of {len(sides)} points)"
                # With one point alone there is one difference to tell.
                by = f" by {_size(figure, sides[0])}" if claimed and len(sides) == 1 else ""
                grouped[words].append(f"`{variant}`{at}{by}")
    diverged = [
        f"`{variant}`"
        for variant in compared.study.variants
        if any(
            compared.side(figure.name, variant, point).diverged for point in compared.study.points
        )
    ]
    said = [
        f"{words} than {baseline}: {_and(grouped[words])}"
        for words in (BETTER, WORSE)
        if grouped[words]
    ]
    said += [f"{words}: {_and(grouped[words])}" for words in (NONE, SAME) if grouped[words]]
    if diverged:
        said.append(f"diverged in some runs: {_and(diverged)}")
    return f"{_capital(figure.words)}: {'; '.join(said) or 'nothing could be compared'}."


def answers(compared: Compared) -> Iterator[str]:
    """All of it: a paragraph for each figure, and how much of it chance would do."""
    for figure in compared.noisy:
        if figure.better:
            yield "\n".join(_figure(compared, figure))
    for figure in compared.exact:
        if figure.better and (told := _exact(compared, figure)):
            yield told
    count, expected = chance(
        side.against for _, side in _comparisons(compared) if side.against is not None
    )
    claimed = sum(
        side.against is not None and side.against.by_chance and side.against.claimed
        for _, side in _comparisons(compared)
    )
    if count:
        yield (
            f"Comparisons that depend on the seeds: {count}. Claimed among them: {claimed}. If no variant "
            f"differed, chance alone would make at most 5% look different: {number(expected, 1)}."
        )


def _comparisons(compared: Compared) -> Iterator[tuple[Figure, Side]]:
    for figure in compared.noisy:
        if figure.better:
            yield from ((figure, side) for side in compared.sides(figure.name))


def _by_variant(compared: Compared, figure: Figure) -> dict[str, list[Side]]:
    found: dict[str, list[Side]] = {}
    for side in compared.sides(figure.name):
        if side.variant != compared.study.baseline:
            found.setdefault(side.variant, []).append(side)
    return found


def _counts(figure: Figure, sides: list[Side]) -> dict[str, int]:
    verdicts = [verdict(figure, side.against) for side in sides]
    return {words: verdicts.count(words) for words in dict.fromkeys(verdicts)}


# --- A figure -------------------------------------------------------------------------------------


def _figure(compared: Compared, figure: Figure) -> Iterator[str]:
    baseline = compared.study.baseline
    yield f"**{_capital(figure.words)}** ({figure.better} is better), against `{baseline}`:"
    yield ""
    for variant, sides in _by_variant(compared, figure).items():
        told = "; ".join(_parts(compared, figure, sides))
        yield f"- `{variant}`: {told}."
    sides = [side for side in compared.sides(figure.name) if side.variant == baseline]
    if diverged := [_diverged(side) for side in sides if side.diverged]:
        yield f"- `{baseline}`: {'; '.join(diverged)}."


def _parts(compared: Compared, figure: Figure, sides: list[Side]) -> Iterator[str]:
    """Better where, worse where, and where not."""
    for words in (BETTER, WORSE):
        those = [side for side in sides if verdict(figure, side.against) == words]
        if those:
            yield words + ",".join(f"{_at(side)} by {_size(figure, side)}" for side in those)
    alike = [side for side in sides if verdict(figure, side.against) == NONE]
    if len(alike) > FEW:
        yield f"{NONE} at {'any' if len(alike) == len(sides) else len(alike)} point{'s' * (alike != sides)}"
    elif alike:
        yield NONE + ",".join(f"{_at(side)}: {_difference(figure, side)}" for side in alike)
    same = [side for side in sides if verdict(figure, side.against) == SAME]
    if same:
        yield SAME + ",".join(map(_at, same))
    yield from (_diverged(side) for side in sides if side.diverged)
    untold = [side for side in sides if verdict(figure, side.against) == UNTOLD]
    why = compared.study.why.get(figure.name, "a run is missing, or the baseline's diverged")
    reason = why[:1].lower() + why.removesuffix(".")[1:]
    yield from (f"{UNTOLD}{_at(side)}: {reason}" for side in untold if not side.diverged)


def _size(figure: Figure, side: Side) -> str:
    """How large a difference is, without its sign: "0.12 (0.08 to 0.16)"."""
    assert side.against is not None
    low, high = sorted((abs(side.against.low), abs(side.against.high)))
    decimals = _decimals(figure, side.against)
    told = [number(one, decimals) for one in (abs(side.against.mean), low, high)]
    return f"{told[0]} ({told[1]} to {told[2]})"


def _difference(figure: Figure, side: Side) -> str:
    return difference(figure, side.against) if side.against else ""


def difference(figure: Figure, against: Comparison) -> str:
    """A difference with its interval: "+0.12 (+0.08 to +0.16)"."""
    decimals = _decimals(figure, against)
    mean, low, high = (signed(one, decimals) for one in (against.mean, against.low, against.high))
    return f"{mean} ({low} to {high})" if math.isfinite(against.low) else f"{mean} (a single seed)"


def _decimals(figure: Figure, against: Comparison) -> int:
    """Of a difference and its interval, which must not seem to hold 0 where it does not."""
    decimals = places((against.high - against.low) / 2, figure.digits)
    nearest = min(abs(against.low), abs(against.high))
    return max(decimals, -math.floor(math.log10(nearest))) if against.claimed else decimals


def _diverged(side: Side) -> str:
    return f"diverged in {side.diverged} of {side.runs} seeds{_at(side)}"


def _at(side: Side) -> str:
    return f" at {where(side.point)}" if side.point else ""


def _exact(compared: Compared, figure: Figure) -> str:
    """Figures that no seed changes, as multiples of the baseline's."""
    told = []
    for variant, sides in _by_variant(compared, figure).items():
        ratios = []
        for side in sides:
            base = compared.side(figure.name, compared.study.baseline, side.point).spread
            if side.spread and base and base.mean and math.isfinite(side.spread.mean / base.mean):
                ratios.append(side.spread.mean / base.mean)
        if ratios:
            low, high = significant(min(ratios)), significant(max(ratios))
            told.append(f"`{variant}` {low if low == high else f'{low} to {high}'}")
    if not told:
        return ""
    return (
        f"**{_capital(figure.words)}** ({figure.better} is better), which no seed changes, in multiples of "
        f"`{compared.study.baseline}`: {', '.join(told)}."
    )


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
