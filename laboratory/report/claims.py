"""What the numbers allow to say: which differences are claimed, which are bounded, and which are open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from laboratory.report.comparison import Compared, Side, where
from laboratory.report.digits import number, places, signed, significant
from laboratory.report.statistics import Comparison, compare, holm
from laboratory.study.description import TIMES_RATE, Figure, Point, Study

BETTER, WORSE = "better", "worse"  # claimed
SAME = "the same in every seed"  # to the last digit: more than bounded
BOUNDED, OPEN = "bounded", "open"
UNTOLD = "not compared"  # a run diverged, or is missing
WORDS = BETTER, WORSE, SAME, BOUNDED, OPEN, UNTOLD
FEW = 2  # points whose differences are listed though they are not claimed


def verdict(figure: Figure, against: Comparison | None) -> str:
    """What may be said of a comparison."""
    if against is None or against.diverged:
        return UNTOLD
    if against.low == against.high == 0:
        return SAME
    if against.claimed:
        return BETTER if (against.mean < 0) == (figure.better == "lower") else WORSE
    return BOUNDED if against.within(figure.margin) else OPEN


def headline(compared: Compared) -> str:
    """The answer in a line, of the first figure that seeds change, with the study's caveat."""
    judged = [candidate for candidate in compared.noisy if candidate.better]
    if not judged:
        return "No figure of this study can be compared between variants."
    figure, baseline = judged[0], f"`{compared.study.baseline}`"
    grouped: dict[str, list[str]] = {word: [] for word in WORDS}
    diverged = []
    for variant, sides in _by_variant(compared, figure).items():
        for word in WORDS:
            matching = [side for side in sides if verdict(figure, side.against) == word]
            if matching:
                grouped[word].append(f"`{variant}`{_places(figure, word, matching, len(sides))}")
    for variant in compared.study.variants:
        points = [compared.side(figure.name, variant, point) for point in compared.study.points]
        if any(side.diverged for side in points):
            diverged.append(f"`{variant}`")
    claimed = [
        f"{word} than {baseline}: {_and(grouped[word])}"
        for word in (BETTER, WORSE)
        if grouped[word]
    ]
    parts = [f"**Claimed:** {'; '.join(claimed)}"] if claimed else ["**Claimed:** nothing"]
    if grouped[SAME]:
        parts.append(f"**Identical** to {baseline} in every seed: {_and(grouped[SAME])}")
    if grouped[BOUNDED]:
        parts.append(f"**Bounded** ({_bounded(figure)}): {_and(grouped[BOUNDED])}")
    if grouped[OPEN]:
        parts.append(f"**Open:** {_and(grouped[OPEN])}")
    if diverged:
        parts.append(f"**Diverged** in some runs: {_and(diverged)}")
    summary = ". ".join([capital(figure.label), *parts])
    return f"{summary}. {caveat(compared.study)}"


def caveat(study: Study) -> str:
    """How far the answer reaches: seeds, learning rates, and what the study itself warns of."""
    rates = (
        f"Each variant is trained at the best of {len(study.learning_rates)} learning rates"
        if study.learning_rates
        else "All are trained at one learning rate"
    )
    return " ".join(filter(None, [f"{rates}, with {len(study.seeds)} seeds.", study.caveat]))


def answers(compared: Compared) -> Iterator[str]:
    """What the verdicts mean, and a paragraph for each figure."""
    judged = [figure for figure in compared.noisy if figure.better]
    if judged and compared.compares:
        yield (
            f"Differences with their 95% intervals. Those called {BETTER} or {WORSE} are claimed; those "
            f"called {OPEN} are not decided by these seeds."
        )
    for figure in judged:
        yield "\n".join(_figure(compared, figure))
        if sentence := _undecided(compared, figure):
            yield sentence
    if judged and compared.study.pairs:
        yield "\n".join(_pairs(compared, judged[0], "chosen before", compared.study.pairs))
    if judged and compared.study.later:
        yield "\n".join(_pairs(compared, judged[0], "compared after", compared.study.later))
    if judged and any(point.get(TIMES_RATE, 1) != 1 for point in compared.study.points):
        yield "\n".join(_rises(compared, judged[0]))
    for figure in compared.exact:
        if figure.better and (sentence := _exact(compared, figure)):
            yield sentence


def counts(compared: Compared) -> Iterator[str]:
    """How many comparisons there are of each kind, and how the claims are corrected."""
    tested = [
        verdict(figure, side.against)
        for figure in compared.noisy
        if figure.better
        for side in compared.sides(figure.name)
        if side.against is not None and not math.isnan(side.against.p)
    ]
    if tested:
        claimed = sum(word in (BETTER, WORSE) for word in tested)
        yield (
            f"{len(tested)} comparisons depend on the seeds: {claimed} claimed, {tested.count(BOUNDED)} "
            f"bounded, {tested.count(OPEN)} open. Claims are corrected for the number of comparisons of a "
            "figure (t tests, Holm's method): if no variant differed, at most 5% of studies would "
            "make a false claim about that figure. The 95% intervals are not corrected, so the interval "
            "of an open difference can exclude 0."
        )


def _by_variant(compared: Compared, figure: Figure) -> dict[str, list[Side]]:
    by_variant: dict[str, list[Side]] = {}
    for side in compared.sides(figure.name):
        if side.variant in compared.study.rivals:
            by_variant.setdefault(side.variant, []).append(side)
    return by_variant


def _places(figure: Figure, word: str, sides: list[Side], points: int) -> str:
    """Where a verdict holds; of a claim, how large the difference is as well."""
    if word in (BETTER, WORSE):
        return ",".join(f"{_at(side)} by {_size(figure, side)}" for side in sides)
    if len(sides) == points:
        return ""
    return f" (at {len(sides)} of {points} points)"


def _bounded(figure: Figure) -> str:
    unit = f" {figure.unit}" if figure.unit else ""
    return f"the same to within {figure.margin:g}{unit}"


# --- A figure -------------------------------------------------------------------------------------


def _figure(compared: Compared, figure: Figure) -> Iterator[str]:
    baseline = compared.study.baseline
    yield f"**{capital(figure.label)}** ({figure.better} is better), against `{baseline}`:"
    yield ""
    for variant, sides in _by_variant(compared, figure).items():
        text = "; ".join(_parts(compared, figure, sides))
        yield f"- `{variant}`: {text}."
    sides = [side for side in compared.sides(figure.name) if side.variant == baseline]
    if diverged := [_diverged(side) for side in sides if side.diverged]:
        yield f"- `{baseline}`: {'; '.join(diverged)}."


def _pairs(
    compared: Compared, figure: Figure, when: str, chosen: Mapping[str, str]
) -> Iterator[str]:
    """The main figure's comparisons that are not with the baseline, corrected for their own number."""
    pairs = [(*pair, point) for pair in chosen.items() for point in compared.study.points]
    comparisons = holm(
        [compared.against(figure.name, first, second, point) for first, second, point in pairs]
    )
    yield f"{capital(figure.label)}, of pairs that were {when} the results were known:"
    yield ""
    for (first, second, point), against in zip(pairs, comparisons, strict=True):
        at = f" at {where(point)}" if point else ""
        suffix = f": {difference(figure, against)}" if against and not against.diverged else ""
        yield f"- `{first}` against `{second}`{at}: {verdict(figure, against)}{suffix}."


def _rises(compared: Compared, figure: Figure) -> Iterator[str]:
    """Whether a multiple of the best rate adds less to a variant's loss than to the baseline's."""
    study = compared.study
    faster = [point for point in study.points if point[TIMES_RATE] != 1]
    pairs = [(variant, point) for point in faster for variant in study.rivals]
    comparisons = holm([_rise(compared, figure, *pair) for pair in pairs])
    yield (
        f"{capital(figure.label)}: what a multiple of the best learning rate adds, against what it adds to "
        f"that of `{study.baseline}`; corrected for their own number:"
    )
    yield ""
    for (variant, point), rise in zip(pairs, comparisons, strict=True):
        suffix = f": {difference(figure, rise)}" if rise and not rise.diverged else ""
        yield f"- `{variant}` at {where(point)}: {verdict(figure, rise)}{suffix}."


def _rise(compared: Compared, figure: Figure, variant: str, point: Point) -> Comparison | None:
    own, base, own_best, base_best = (
        compared.blocks(figure.name, which, at)
        for at in (point, {**point, TIMES_RATE: 1})
        for which in (variant, compared.study.baseline)
    )
    rises = (
        {seed: np.subtract(fast[seed], best[seed]) for seed in fast.keys() & best.keys()}
        for fast, best in ((own, own_best), (base, base_best))
    )
    return compare(*rises)


def _undecided(compared: Compared, figure: Figure) -> str:
    """Say what these seeds could have found where a difference is open, and how many would bound it."""
    sides = compared.sides(figure.name)
    tested = [
        candidate
        for candidate in sides
        if candidate.against and not math.isnan(candidate.against.p)
    ]
    rows = []
    for side in tested:
        if side.against and verdict(figure, side.against) == OPEN:
            least = side.against.detectable(len(tested))
            row = f"`{side.variant}`{_at(side)} {number(least, places(least, figure.digits))}"
            count = side.against.seeds_to_bound(figure.margin) if figure.margin else None
            needed = f" ({count or 'no number of seeds'})" if figure.margin else ""
            rows.append(row + needed)
    if not rows:
        return ""
    bounds = (
        " (in parentheses: how many seeds would bound a difference of 0)" if figure.margin else ""
    )
    return (
        f"With {len(compared.study.seeds)} seeds, an open row's true difference would be found four times in "
        f"five if it were about this large{bounds}: {', '.join(rows)}."
    )


def _parts(compared: Compared, figure: Figure, sides: list[Side]) -> Iterator[str]:
    """Where it is better, where worse, and where neither is claimed."""
    by = {word: [side for side in sides if verdict(figure, side.against) == word] for word in WORDS}
    for word in (BETTER, WORSE):
        if by[word]:
            yield word + ",".join(f"{_at(side)} by {_size(figure, side)}" for side in by[word])
    for word, phrase in ((BOUNDED, _bounded(figure)), (OPEN, OPEN)):
        if len(by[word]) > FEW:
            yield f"{phrase} at {'all' if by[word] == sides else len(by[word])} points"
        elif by[word]:
            yield phrase + ",".join(
                f"{_at(side)}: {difference(figure, side.against)}"
                for side in by[word]
                if side.against
            )
    if by[SAME]:
        yield SAME + ",".join(map(_at, by[SAME]))
    yield from (_diverged(side) for side in sides if side.diverged)
    why = compared.study.why.get(figure.name, "a run is missing, or the baseline's diverged")
    reason = why[:1].lower() + why.removesuffix(".")[1:]
    yield from (f"{UNTOLD}{_at(side)}: {reason}" for side in by[UNTOLD] if not side.diverged)


def _size(figure: Figure, side: Side) -> str:
    """How large a difference is, without its sign: "0.12 (0.08 to 0.16)"."""
    assert side.against is not None
    low, high = sorted((abs(side.against.low), abs(side.against.high)))
    small = ", within the margin" if side.against.within(figure.margin) else ""
    decimals = _decimals(figure, side.against)
    texts = [number(value, decimals) for value in (abs(side.against.mean), low, high)]
    return f"{texts[0]} ({texts[1]} to {texts[2]}{small})"


def difference(figure: Figure, against: Comparison) -> str:
    """A difference with its interval: "+0.12 (+0.08 to +0.16)"."""
    decimals = _decimals(figure, against)
    mean, low, high = (
        signed(value, decimals) for value in (against.mean, against.low, against.high)
    )
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
    phrases = []
    for variant, sides in _by_variant(compared, figure).items():
        ratios = []
        for side in sides:
            base = compared.side(figure.name, compared.study.baseline, side.point).spread
            if side.spread and base and base.mean and math.isfinite(side.spread.mean / base.mean):
                ratios.append(side.spread.mean / base.mean)
        if ratios:
            low, high = significant(min(ratios)), significant(max(ratios))
            phrases.append(f"`{variant}` {low if low == high else f'{low} to {high}'}")
    if not phrases:
        return ""
    return (
        f"**{capital(figure.label)}** ({figure.better} is better), which no seed changes, in multiples of "
        f"`{compared.study.baseline}`: {', '.join(phrases)}."
    )


def capital(words: str) -> str:
    """The words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
