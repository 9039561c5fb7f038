"""The diagnosis: the known wrong answers that see, in every check of an exercise, what was seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from course.checks.loading import Check
from course.checks.seeing import Seen
from course.curriculum import Day
from course.judging.likeness import Likeness, matches
from course.judging.misconceptions import Misconception
from course.judging.truth import Diagnosis, Truth
from course.references.editions import names_used_by

TELLING = 2  # checks that are looked at for the one that tells most
MOST_PAIRS = 150  # of two wrong answers at once; more would take longer than a blink


class Diagnostician:
    """Finds what was misunderstood in one day's exercises."""

    def __init__(self, day: Day, checks: list[Check], truth: Truth) -> None:
        self._day = day
        self._checks = checks
        self._truth = truth
        self._likeness = Likeness(truth)

    def diagnose(self, seen: Mapping[str, Seen | None], wrong: set[str]) -> dict[str, Diagnosis]:
        """What was misunderstood in each of the wrong exercises; an empty diagnosis where nobody knows.

        Args:
            seen: by the checks' names what they saw, or None where nothing could be seen.
            wrong: the exercises of which a check does not pass.
        """
        told: dict[str, Diagnosis] = {}
        for exercise in (name for name in self._foundations_first() if name in wrong):
            told[exercise] = self._diagnose(exercise, seen, told)
        return told

    def shaky(self, exercise: str, wrong: set[str]) -> list[str]:
        """The failing exercises of the day that this one stands on, if it is written as the reference is."""
        used = names_used_by(self._day, exercise)
        return [name for name in self._day.exercises if name in wrong & used and name != exercise]

    def _foundations_first(self) -> list[str]:
        """The day's exercises, each after those that it uses: a mistake is looked for where it is made."""
        ordered: list[str] = []
        left = list(self._day.exercises)
        while left:
            used = {name: names_used_by(self._day, name) & set(left) - {name} for name in left}
            ordered.append(min(left, key=lambda name: len(used[name])))
            left.remove(ordered[-1])
        return ordered

    def _diagnose(
        self, exercise: str, all_seen: Mapping[str, Seen | None], told: dict[str, Diagnosis]
    ) -> Diagnosis:
        """The known wrong answer whose observations are exactly these, in every check of the exercise.

        If it is no single one, it may be two at once. A mistake in another exercise can show here as
        well, but is claimed only where it was found there.
        """
        mine = [c for c in self._checks if c.exercise == exercise and c.name in all_seen]
        seen = {check.name: one for check in mine if (one := all_seen[check.name])}
        if len(seen) < len(mine):
            return ()
        if any(not told.get(name) for name in self.shaky(exercise, set(told))):
            return ()  # what it stands on is wrong in an unknown way, and would be taken for its own
        # The checks that fail are the ones that tell wrong answers apart: ask them first.
        failing = [check for check in mine if not self._likeness.passes(check, seen[check.name])]
        mine.sort(key=lambda check: check not in failing)

        def explains(wrong: Diagnosis) -> bool:
            return all(self._likeness.is_of(wrong, check, seen[check.name]) for check in mine)

        found = list(dict.fromkeys(itertools.chain.from_iterable(told.values())))
        known = found + [one for one in self._truth.misconceptions if one.definition == exercise]
        singles: Iterator[Diagnosis] = ((one,) for one in known)
        candidates = itertools.chain(singles, self._pairs(known, failing, seen))
        return next((wrong for wrong in candidates if explains(wrong)), ())

    def _pairs(
        self, known: list[Misconception], failing: list[Check], seen: dict[str, Seen]
    ) -> Iterator[Diagnosis]:
        """The pairs of known wrong answers that can have to do with what is seen, likely ones first.

        Of the first checks that fail, the one that fewest known wrong answers fail tells most. One of
        the two must fail it as it was failed here, or both must fail it.
        """

        def culprits(check: Check) -> list[Misconception]:
            return [
                one
                for one in known
                if self._truth.is_possible((one,))
                and not self._likeness.passes(check, self._truth.roughly((one,), check).seen)
            ]

        check = min(failing[:TELLING], key=lambda check: len(culprits(check)))
        guilty = culprits(check)
        alone = [
            one for one in guilty if matches(seen[check.name], self._truth.roughly((one,), check))
        ]
        pairs = list(itertools.combinations(known, 2))
        likely = [pair for pair in pairs if any(one in alone for one in pair)]
        others = [pair for pair in pairs if all(one in guilty for one in pair)]
        for pair in list(dict.fromkeys(likely + others))[:MOST_PAIRS]:
            if self._truth.is_possible(pair) and matches(
                seen[check.name], self._truth.roughly(pair, check)
            ):
                yield pair
