"""Submissions that are more alike than independent work would be: to be looked at, no verdict.

Two right answers to one exercise resemble each other, and both resemble what the course gives: so what the
stub or the worked solution has does not count. A pair is listed, whatever the rest of the class has,

- for a day with the same code, names and all;
- for days on which one has nearly all of the other's code, if that is more than a few lines;

and beside these, if it is an outlier over all days together, by its distance from the class's median
pair. There what many have counts little, and what only two have counts most: a shared fingerprint
weighs log(learners / learners who have it), as rare words do in the retrieval of texts (Spärck Jones
1972). Each submission is also compared with the worked solution and with the stub.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from course.checks.answer_files import Unreadable, read_answer
from course.curriculum import Day
from course.grading.analysis import fingerprints
from course.grading.gradebook import LearnerResult
from course.grading.reports.graded import Alike, Given
from course.references.editions import stub_of

Array = np.ndarray[Any, Any]
_File = tuple[int, Array]

MIN_LEARNERS = 6  # learners of whom a median says something
MIN_WEIGHT = 40.0  # of what the smaller of two has: a few lines prove nothing
MIN_SHARE = 0.5  # of all days together
NEARLY_ALL = 0.8  # of the smaller file of a day
# Iglewicz and Hoaglin 1993: a modified z-score beyond which a value is taken for an outlier.
OUTLYING = 3.5
MIN_SPREAD = 0.03  # in a class of very even answers, every small difference would be one
COLUMNS = (
    4096  # of a table of fingerprints: a class with many needs no more memory, only more tables
)

SOLUTION, STUB = "the worked solution", "the stub"
# How much of what the solution has beyond the stub is in a day's file.
LIKE_THE_SOLUTION = 0.8
LIKE_THE_STUB = 0.9
MIN_COMMON_PRINTS = 20  # in common on all such days: one line can be written in one way only
MIN_IDENTICAL_PRINTS = 10  # in code that is the same to the names


def alike(results: Iterable[LearnerResult], days: list[Day]) -> list[Alike]:
    """The groups of submissions that stand out, the most alike first: in each, all are alike."""
    names, files = [], defaultdict(list)
    for result in results:
        names.append(result.learner)
        for day in days:
            files[day.number].append(_file(result, day))
    groups: dict[tuple[str, ...], Alike] = {}
    same = list(_same_code(names, files)) if names else []
    pairs = _similar(names, files) if names else ()
    for group in [
        *same,
        *(pair for pair in pairs if not any(_covers(many, pair) for many in same)),
    ]:
        of_these = tuple(group.learners)
        groups[of_these] = _both(groups[of_these], group) if of_these in groups else group
    return sorted(
        groups.values(), key=lambda group: (-group.share, -len(group.days), group.learners)
    )


def _same_code(names: list[str], files: Mapping[int, list[_File]]) -> Iterator[Alike]:
    """For each day those whose code is the same, names and all, comments and layout aside."""
    for number, of_day in files.items():
        having = defaultdict(list)
        for learner, (digest, _) in zip(names, of_day, strict=True):
            having[digest].append(learner)
        for digest, learners in having.items():
            if digest and len(learners) > 1:
                yield Alike(learners, [number], [number], 1.0)


def _similar(names: list[str], files: Mapping[int, list[_File]]) -> Iterator[Alike]:
    """The pairs that share nearly everything of some days, or stand out over all of them."""
    learners = len(names)
    nearly, of_these, shared, smaller = (np.zeros((learners, learners)) for _ in range(4))
    close = {}
    for number, of_day in files.items():
        common, weights = _shared([prints for _, prints in of_day])
        least = _smaller(common)
        close[number] = (least > 0) & (common >= NEARLY_ALL * least)
        nearly += np.where(close[number], common, 0.0)
        of_these += np.where(close[number], least, 0.0)
        shared += weights
        smaller += _smaller(weights)
    first = np.triu(np.ones((learners, learners), dtype=bool), k=1)
    share = shared / np.maximum(smaller, 1e-9)
    pairs = first & (smaller >= MIN_WEIGHT) & (learners >= MIN_LEARNERS)
    outlying = pairs & (share > _limit(share[pairs]))
    for i, j in np.argwhere(outlying | (first & (nearly >= MIN_COMMON_PRINTS))).tolist():
        on = [number for number, matrix in close.items() if matrix[i, j]]
        how_much = share[i, j] if outlying[i, j] else nearly[i, j] / of_these[i, j]
        yield Alike([names[i], names[j]], on, [], round(float(how_much), 3))


def _smaller(shared: Array) -> Array:
    """For each pair what the smaller of the two has; nothing where one of them has nothing."""
    own = np.diag(shared)
    smaller: Array = np.minimum(own, own[:, None])
    return smaller


def _covers(many: Alike, pair: Alike) -> bool:
    """Whether a pair is two of those with the same code, on no other day."""
    return set(many.learners) > set(pair.learners) and pair.days == many.days


def _both(group: Alike, other: Alike) -> Alike:
    """The same learners' groups of two kinds, or of two days, as one."""
    days, same = sorted({*group.days, *other.days}), sorted({*group.same, *other.same})
    return Alike(group.learners, days, same, max(group.share, other.share))


def _limit(shares: Array) -> float:
    """The share above which a pair is an outlier among the pairs of its class."""
    if not len(shares):
        return 1.0
    median = float(np.median(shares))
    spread = max(float(np.median(np.abs(shares - median))), MIN_SPREAD)
    return max(MIN_SHARE, median + OUTLYING * spread / 0.6745)


def _shared(rows: list[Array]) -> tuple[Array, Array]:
    """For each pair how many fingerprints both have, and their weight; on the diagonal, of all of one."""
    whose = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    _, which, counts = np.unique(np.concatenate(rows), return_inverse=True, return_counts=True)
    alone = counts[which] == 1  # nearly all of a hostile file's
    own = np.bincount(whose[alone], minlength=len(rows)).astype(float)
    common, weights = np.diag(own), np.diag(own * math.log(len(rows)))
    whose, which = whose[~alone], (np.cumsum(counts > 1) - 1)[which[~alone]]
    rarity = np.log(len(rows) / counts[counts > 1])
    order = np.argsort(which, kind="stable")
    whose, which = whose[order], which[order]
    for start in range(0, len(rarity), COLUMNS):
        here = slice(*np.searchsorted(which, (start, start + COLUMNS)))
        table = np.zeros((len(rows), COLUMNS))
        table[whose[here], which[here] - start] = 1
        table = table[:, : len(rarity) - start]
        common += table @ table.T
        weights += (table * rarity[start : start + COLUMNS]) @ table.T
    return common, weights


# --- What the course gives ------------------------------------------------------------------------


def like_what_is_given(results: Iterable[LearnerResult], days: list[Day]) -> list[Given]:
    """The submissions that are the worked solution or the stub, or nearly; the first before the others."""
    matches = [match for result in results for match in _like_given(result, days)]
    return sorted(matches, key=lambda match: (match.what != SOLUTION, -match.share, match.learner))


def _like_given(result: LearnerResult, days: list[Day]) -> Iterator[Given]:
    shares: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for day in days:
        prints = set(_prints(result, day)[1:])
        stub, solution = _given(day)
        if not prints:
            continue
        common = len(prints & solution)
        if solution and common >= LIKE_THE_SOLUTION * len(solution):
            shares[SOLUTION][day.number] = (common, len(solution))
        elif len(prints & stub) >= LIKE_THE_STUB * len(prints | stub):
            shares[STUB][day.number] = (len(prints & stub), len(prints | stub))
    for what, by_day in shares.items():
        common, together = (sum(numbers) for numbers in zip(*by_day.values(), strict=True))
        if what == STUB or common >= MIN_COMMON_PRINTS:
            yield Given(result.learner, what, sorted(by_day), round(common / together, 3))


@functools.cache
def _given(day: Day) -> tuple[set[int], set[int]]:
    """The fingerprints of a day's stub, and those that its worked solution has beyond them.

    An edition for students has not every solution.
    """
    stub = set(fingerprints(stub_of(day))[1:])
    try:
        return stub, set(fingerprints(read_answer(day.solution))[1:]) - stub
    except Unreadable:
        return stub, set()


def _file(result: LearnerResult, day: Day) -> _File:
    """Of a day's file the hash of all its code, if that is long, and the prints that the course lacks."""
    digest, *prints = _prints(result, day) or [0]
    stub, solution = _given(day)
    own = set(prints) - stub
    return digest * (len(own) >= MIN_IDENTICAL_PRINTS), np.array([*own - solution], np.int64)


def _prints(result: LearnerResult, day: Day) -> list[int]:
    files = result.fingerprints.items()
    return next((prints for name, prints in files if Path(name).stem == day.stem), [])
