"""Whether what was seen is what the reference sees, or what a known wrong answer sees."""

from __future__ import annotations

from course.checks.loading import Check
from course.checks.seeing import Seen
from course.judging.comparison import compare, identical
from course.judging.expected import Expected
from course.judging.truth import RIGHT, Diagnosis, Truth


class Likeness:
    """Compares what was seen with a truth: to the last bit where that is enough, or else to rounding."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def passes(self, check: Check, seen: Seen) -> bool:
        """Whether an observation is the reference's."""
        return self.is_same(RIGHT, check, seen) or matches(seen, self._truth.exactly(RIGHT, check))

    def is_of(self, wrong: Diagnosis, check: Check, seen: Seen) -> bool:
        """Whether wrong answers see this."""
        return self.is_same(wrong, check, seen) or (
            matches(seen, self._truth.roughly(wrong, check))
            and matches(seen, self._truth.exactly(wrong, check))
        )

    def is_same(self, wrong: Diagnosis, check: Check, seen: Seen) -> bool:
        """Whether they see this to the last bit: then it needs no tolerance, which takes longer."""
        theirs = self._truth.roughly(wrong, check).seen
        return (
            not (seen.raised or theirs.raised)
            and set(seen.damaged) == set(theirs.damaged)
            and identical(seen.observation, theirs.observation)
        )


def matches(seen: Seen, expected: Expected) -> bool:
    """Whether an observation is, to rounding, the expected one, or the same exception.

    An exception is the same if it says the same, sizes included: many mistakes end in a ValueError.
    """
    if seen.raised is not None or expected.seen.raised is not None:
        said = [
            one.raised and (one.raised.kind, one.raised.message) for one in (seen, expected.seen)
        ]
        return said[0] == said[1]
    same_damage = set(seen.damaged) == set(expected.seen.damaged)
    return same_damage and compare(seen.observation, expected) is None
