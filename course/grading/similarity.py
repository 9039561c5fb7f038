"""Pairs of submissions that are more alike than independent work would be: to be looked at, no verdict.

Two right answers to one exercise resemble each other, and both resemble the stub. So what the stub
has does not count, what many have counts little, and what only two have counts most: a shared
fingerprint weighs log(learners / learners who have it), as rare words do in the retrieval of texts
(Spärck Jones 1972). A pair stands out by its distance from the class's median pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from course.curriculum import Day
from course.grading.analysis import fingerprints
from course.grading.gradebook import LearnerResult
from course.grading.reports import Alike
from course.references.editions import stub_of

Array = np.ndarray[Any, Any]

FEWEST = 6  # learners of whom something can be said
LEAST_WEIGHT = 40.0  # of what the smaller of two has: a few lines prove nothing
LEAST_SHARE = 0.5
# Iglewicz and Hoaglin 1993: a modified z-score beyond which a value is taken for an outlier.
OUTLYING = 3.5
LEAST_SPREAD = 0.03  # in a class of very even answers, every small difference would be one
MOST_PAIRS = 200


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


def _limit(shares: Array) -> float:
    """The share above which a pair is an outlier among the pairs of its class."""
    median = float(np.median(shares))
    spread = max(float(np.median(np.abs(shares - median))), LEAST_SPREAD)
    return median + OUTLYING * spread / 0.6745


def _rows(results: Iterator[LearnerResult], day: Day) -> list[set[int]]:
    """For each learner the fingerprints of a day's file, without those of the stub."""
    given = set(fingerprints(stub_of(day)))
    return [
        set(
            next(
                (
                    prints
                    for name, prints in one.fingerprints.items()
                    if Path(name).stem == day.stem
                ),
                [],
            )
        )
        - given
        for one in results
    ]


def _shared_weights(rows: list[set[int]]) -> Array:
    """For each pair the weight of what both have; on the diagonal, of all that one has."""
    columns = {one: number for number, one in enumerate(sorted(set().union(*rows)))}
    table = np.zeros((len(rows), len(columns)), dtype=np.float32)
    for number, row in enumerate(rows):
        table[number, [columns[one] for one in row]] = 1
    having = table.sum(axis=0)
    weight = np.log(len(rows) / np.maximum(having, 1))
    return np.asarray((table * weight) @ table.T, dtype=np.float64)
