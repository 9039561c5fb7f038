"""Pairs of submissions that are more alike than independent work would be: to be looked at, no verdict.

Two right answers to one exercise resemble each other, and both resemble the stub. So what the stub
has does not count, what many have counts little, and what only two have counts most: a shared
fingerprint weighs log(learners / learners who have it), as rare words do in the retrieval of texts
(Spärck Jones 1972). A pair stands out by its distance from the class's median pair.

What a large part of a class shares is not seen so. The one source that a whole class has is the course:
so each submission is compared with the worked solution and with the stub as well, without weights.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from course.checks.answer_files import Unreadable, read_answer
from course.curriculum import Day
from course.grading.analysis import fingerprints
from course.grading.gradebook import LearnerResult
from course.grading.reports import Alike, Given
from course.references.editions import stub_of

Array = np.ndarray[Any, Any]

FEWEST = 6  # learners of whom something can be said
LEAST_WEIGHT = 40.0  # of what the smaller of two has: a few lines prove nothing
LEAST_SHARE = 0.5
# Iglewicz and Hoaglin 1993: a modified z-score beyond which a value is taken for an outlier.
OUTLYING = 3.5
LEAST_SPREAD = 0.03  # in a class of very even answers, every small difference would be one
MOST_PAIRS = 200

SOLUTION, STUB = "the worked solution", "the stub"
# Of what a day's file and the solution have together beyond the stub. Right answers written in another
# way share 0 to 0.12 of it (measured on the accepted answers of all days).
LIKE_THE_SOLUTION = 0.8
LIKE_THE_STUB = 0.9
FEWEST_PRINTS = 20  # on all those days together: one line can be written in one way only


def alike(results: Callable[[], Iterator[LearnerResult]], days: list[Day]) -> list[Alike]:
    """The pairs that stand out, the most alike first.

    Args:
        results: goes through the class once more, always in the same order.
        days: the days that were graded.
    """
    names = [result.learner for result in results()]
    if len(names) < FEWEST:
        return []
    shared = np.zeros((len(names), len(names)))
    smaller = np.zeros_like(shared)
    by_day = {}
    for day in days:
        weights = _shared_weights(_rows(results(), day))
        own = np.diag(weights)
        both = (own[:, None] > 0) & (own[None, :] > 0)
        shared += np.where(both, weights, 0.0)
        smaller += np.where(both, np.minimum(own[:, None], own[None, :]), 0.0)
        by_day[day.number] = np.where(both, weights / np.maximum(own, 1e-9), 0.0)
    pairs = np.triu(smaller >= LEAST_WEIGHT, k=1)
    if not pairs.any():
        return []
    share = shared / np.maximum(smaller, 1e-9)
    outlying = pairs & (share > np.maximum(LEAST_SHARE, _limit(share[pairs])))
    found = sorted(np.argwhere(outlying).tolist(), key=lambda pair: -share[tuple(pair)])
    return [
        Alike(
            names[i],
            names[j],
            [number for number, one in by_day.items() if max(one[i, j], one[j, i]) > LEAST_SHARE],
            round(float(share[i, j]), 3),
        )
        for i, j in found[:MOST_PAIRS]
    ]


def like_what_is_given(
    results: Callable[[], Iterator[LearnerResult]], days: list[Day]
) -> list[Given]:
    """The submissions that are the worked solution or the stub, or nearly; the first before the others."""
    found = [one for result in results() for one in _like_given(result, days)]
    return sorted(found, key=lambda one: (one.what != SOLUTION, -one.share, one.learner))


def _like_given(result: LearnerResult, days: list[Day]) -> Iterator[Given]:
    shares: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for day in days:
        prints = _prints(result, day)
        stub, solution = _given(day)
        if not prints:
            continue
        if _share(prints - stub, solution) >= LIKE_THE_SOLUTION:
            own = prints - stub
            shares[SOLUTION][day.number] = (len(own & solution), len(own | solution))
        elif _share(prints, stub) >= LIKE_THE_STUB:
            shares[STUB][day.number] = (len(prints & stub), len(prints | stub))
    for what, by_day in shares.items():
        common, together = (sum(numbers) for numbers in zip(*by_day.values(), strict=True))
        if common >= FEWEST_PRINTS:
            yield Given(result.learner, what, sorted(by_day), round(common / together, 3))


def _share(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


@functools.cache
def _given(day: Day) -> tuple[set[int], set[int]]:
    """The fingerprints of a day's stub, and those that its worked solution has beyond them.

    An edition for students has not every solution.
    """
    stub = set(fingerprints(stub_of(day)))
    try:
        return stub, set(fingerprints(read_answer(day.solution))) - stub
    except Unreadable:
        return stub, set()


def _limit(shares: Array) -> float:
    """The share above which a pair is an outlier among the pairs of its class."""
    median = float(np.median(shares))
    spread = max(float(np.median(np.abs(shares - median))), LEAST_SPREAD)
    return median + OUTLYING * spread / 0.6745


def _rows(results: Iterator[LearnerResult], day: Day) -> list[set[int]]:
    """For each learner the fingerprints of a day's file, without those of the stub."""
    stub, _ = _given(day)
    return [_prints(result, day) - stub for result in results]


def _prints(result: LearnerResult, day: Day) -> set[int]:
    files = result.fingerprints.items()
    return set(next((prints for name, prints in files if Path(name).stem == day.stem), []))


def _shared_weights(rows: list[set[int]]) -> Array:
    """For each pair the weight of what both have; on the diagonal, of all that one has."""
    having = defaultdict(list)
    for learner, row in enumerate(rows):
        for one in row:
            having[one].append(learner)
    weights = np.zeros((len(rows), len(rows)))
    for learners, count in Counter(map(tuple, having.values())).items():
        weights[np.ix_(learners, learners)] += count * math.log(len(rows) / len(learners))
    return weights
