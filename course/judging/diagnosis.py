"""The diagnosis: the known wrong answers that see, in every check of an exercise, what was seen.

It is looked for a piece at a time, so that whoever waits for it can stop waiting.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from course.checks.loading import CORE, Outline
from course.checks.seeing import CheckRun
from course.curriculum import Day
from course.judging.comparison import compare, matches
from course.judging.expected import Expected, is_float
from course.judging.messages import (
    beside_others,
    contradict,
    something_else,
    where_to_begin,
)
from course.judging.misconceptions import Misconception
from course.judging.results import CheckResult
from course.judging.truth import Diagnosis, Truth
from course.references.editions import names_used_by

# Seconds of computing after which somebody who waits is told that nothing was found: where it is at hand
# what the known wrong answers see, and where it has to be observed first.
PATIENCE, PATIENCE_AT_FIRST = 0.5, 5.0
# Runs with several mistakes at once that an answer is worth in a batch, whatever the machine.
MOST_RUNS = 300

# Checks that a mistake must explain whole before it is told of beside something unknown.
FEWEST_CHECKS = 2
# Checks that only one of two mistakes fails, and in which one sees something else with both.
MOST_SURPRISES = 2

# What a piece of work was: a comparison, or a run with several mistakes at once.
LOOKED, RUN = False, True
Pieces = Generator[bool, None, Diagnosis]


@dataclass(frozen=True)
class PartialDiagnosis:
    """A known mistake that is one of several things."""

    one: Misconception
    shows: frozenset[str]
    """The failing checks that it alone explains."""
    unexplained: tuple[str, ...]
    """The failing core checks that it does not explain."""


class Search:
    """A diagnosis of what one answer has misunderstood, while it is looked for."""

    def __init__(
        self,
        day: Day,
        checks: Sequence[Outline],
        truth: Truth,
        seen: Mapping[str, CheckRun | None],
        wrong: Mapping[str, Collection[str]],
    ) -> None:
        """Nothing is looked for yet.

        Args:
            day: the day that is answered.
            checks: those that were run, in their order.
            truth: what the reference and the known wrong answers see.
            seen: what was seen in each check, by its name, or None where nothing could be.
            wrong: for each exercise that is wrong, the names of the checks that it fails.
        """
        self.told: dict[str, Diagnosis] = {}
        """What was misunderstood in each exercise so far; empty where nobody knows."""
        self.partly: dict[str, PartialDiagnosis] = {}
        """Where no mistake explains everything: a known one that explains a part."""
        self.wanted = any(
            all(seen[check.name] is not None for check in checks if check.exercise == exercise)
            for exercise in wrong
        )
        """Whether there is anything to look for: something is wrong, and all of it could be seen."""
        self.done = not self.wanted
        """Whether there is nothing left to look for."""
        self.runs = 0
        """Runs with several mistakes at once so far."""
        self._day = day
        self._checks = checks
        self._outlines = {check.name: check for check in checks}
        self._truth = truth
        self._seen = seen
        self._wrong = wrong
        self._pieces = self._all()

    def look(self) -> bool:
        """Look as long as somebody waits. Returns whether the search is done."""
        failing = [check for check in self._checks if check.exercise in self._wrong]
        ready = all(map(self._truth.knows, failing))
        return self._go_on(PATIENCE if ready else PATIENCE_AT_FIRST, math.inf)

    def look_in_batch(self, most_runs: int = MOST_RUNS) -> int:
        """Look as long as an answer is worth, by a measure that is the same on every machine.

        Returns:
            how many runs with several mistakes at once it took.
        """
        before = self.runs
        self._go_on(math.inf, max(1, min(most_runs, MOST_RUNS)))
        return self.runs - before

    def go_on(self) -> Iterator[None]:
        """Look further, a piece at each step."""
        yield from (None for _ in self._pieces)

    def diagnosed(self, verdicts: Sequence[CheckResult]) -> list[CheckResult]:
        """Return the verdicts, with what was misunderstood as far as it has been found."""
        return [
            self._diagnosed(one) if one.status in ("failed", "error") else one for one in verdicts
        ]

    def _diagnosed(self, result: CheckResult) -> CheckResult:
        """Return a verdict with what was misunderstood, or else with where to begin."""
        wrong = self._told_of(result.exercise, result.name)
        if not wrong:
            advice = where_to_begin(*self._to_mend_first(result.name))
            return replace(result, message="\n".join([result.message, *advice]))
        part = self.partly.get(result.exercise)
        alone = part is None and len(wrong) == 1
        told = [
            f"{'' if one.definition == result.exercise else f'This comes from `{one.definition}`. '}"
            f"{one.tell if alone else beside_others(one.tell)}"
            for one in wrong
        ]
        if len(wrong) > 1:
            bullets = (f"• {one.id}: {words}" for one, words in zip(wrong, told, strict=True))
            count = "Two" if len(wrong) == 2 else "Three"
            words = f"{count} things at once. {' '.join(bullets)}"
        else:
            words = " ".join([told[0], *(something_else(part.unexplained) if part else [])])
        return replace(result, misconception=wrong[0].id, message=f"{words}\n{result.message}")

    def _told_of(self, exercise: str, check: str) -> Diagnosis:
        """What was misunderstood, as far as it shows in a check: first what explains that one alone."""
        if exercise in self.partly:
            part = self.partly[exercise]
            return (part.one,) if check in part.shows else ()
        told = self.told.get(exercise, ())
        if len(told) < 2:
            return told
        asked = self._outline(check)
        return tuple(
            sorted(
                told, key=lambda one: not self._is(asked, self._truth.wrong(asked, one).expected)
            )
        )

    def shaky(self, exercise: str) -> list[str]:
        """The wrong exercises of the day that this one stands on, if it is written as the reference is, or
        that its failing checks call."""
        failing = (self._outline(name) for name in self._wrong.get(exercise, ()))
        used = names_used_by(self._day, exercise).union(*(check.uses for check in failing))
        others = (name for name in self._day.exercises if name != exercise)
        return [name for name in others if name in used and name in self._wrong]

    def _to_mend_first(self, check: str) -> tuple[list[str], list[str]]:
        """The parts with a failing core check that a check calls itself, and those that the exercise stands
        on if it is written as the reference is."""
        asked = self._outline(check)
        used = names_used_by(self._day, asked.exercise) - asked.uses
        wrong = [
            name
            for name in self._day.exercises
            if name != asked.exercise
            and any(self._outline(failing).tier == CORE for failing in self._wrong.get(name, ()))
        ]
        called = [name for name in wrong if name in asked.uses]
        return called, [name for name in wrong if name in used]

    def _outline(self, check: str) -> Outline:
        return self._outlines[check]

    def _go_on(self, seconds: float, runs: float) -> bool:
        started = time.thread_time() - self._truth.loading
        for piece in self._pieces:
            self.runs += piece is RUN
            runs -= piece is RUN
            if runs <= 0 or time.thread_time() - self._truth.loading - started > seconds:
                break
        return self.done

    def _all(self) -> Generator[bool, None, None]:
        for exercise in self._foundations_first():
            if exercise in self._wrong:
                self.told[exercise] = yield from self._diagnose(exercise)
        self.done = True

    def _foundations_first(self) -> list[str]:
        """The day's exercises, each after those that it uses: a mistake is looked for where it is made."""
        ordered: list[str] = []
        left = list(self._day.exercises)
        while left:
            used = {name: names_used_by(self._day, name) & set(left) - {name} for name in left}
            ordered.append(min(left, key=lambda name: len(used[name])))
            left.remove(ordered[-1])
        return ordered

    def _diagnose(self, exercise: str) -> Pieces:
        """What explains all that an exercise's checks saw: one known mistake, or else two or three at once.

        A mistake in another exercise can show here as well, but is claimed only where it was found
        there.
        """
        mine = [check for check in self._checks if check.exercise == exercise]
        if any(self._seen[check.name] is None for check in mine):
            return ()
        if any(self.told.get(name) == () for name in self.shaky(exercise)):
            return ()  # what it stands on is wrong in an unknown way, and would be taken for its own
        # The checks that fail are the ones that tell wrong answers apart: ask them first.
        failing = [check for check in mine if check.name in self._wrong[exercise]]
        passing = [check for check in mine if check not in failing]
        found = dict.fromkeys(itertools.chain.from_iterable(self.told.values()))
        known = [*found, *(one for one in self._truth.candidates if one.definition == exercise)]
        whole = (yield from self._one(known, failing, passing)) or (
            yield from self._two(known, failing, passing)
        )
        return whole or (yield from self._more(exercise, known, failing, passing))

    def _one(
        self, known: Sequence[Misconception], failing: list[Outline], passing: list[Outline]
    ) -> Pieces:
        """The first known mistake that explains what fails, and what passes."""
        left = known
        for check in failing + passing:
            guilty, explaining = yield from self._suspects(check, left)
            left = [
                one
                for one in left
                if (one in explaining if check in failing else one not in guilty)
            ]
            if not left:
                return ()
        return (left[0],)

    def _two(
        self, known: Sequence[Misconception], failing: list[Outline], passing: list[Outline]
    ) -> Pieces:
        """The first two mistakes that together explain what fails, and what passes.

        Most pairs are ruled out without running them: a check that passes is passed by both, one that
        fails is not. Where only one of the two fails a check, one nearly always sees what that one sees.
        """
        pairs = dict.fromkeys(itertools.combinations(known, 2), 0)
        for check in failing + passing:
            guilty, explaining = yield from self._suspects(check, known)
            for pair in list(pairs):
                ours = [one for one in pair if one in guilty]
                if bool(ours) != (check in failing):
                    del pairs[pair]
                elif len(ours) == 1 and ours[0] not in explaining:
                    pairs[pair] += 1
            if not pairs:
                return ()
        likely = [pair for pair in pairs if pairs[pair] <= MOST_SURPRISES]
        for pair in sorted(likely, key=lambda pair: pairs[pair]):
            if self._is_possible(pair) and (yield from self._is_confirmed(pair, failing + passing)):
                return pair
        return ()

    def _more(
        self,
        exercise: str,
        known: Sequence[Misconception],
        failing: list[Outline],
        passing: list[Outline],
    ) -> Pieces:
        """The first three mistakes that together explain all; or else, in `partly`, one beside something
        unknown.

        Of the three two at least explain some check whole: else there are too many to try.
        """
        left = set(known)
        for check in passing:
            guilty, _ = yield from self._suspects(check, [one for one in known if one in left])
            left -= guilty
        suspects = {}
        for check in failing:
            suspects[check] = yield from self._suspects(check, [o for o in known if o in left])
        self._note_part(exercise, {check: seen for check, (_, seen) in suspects.items()})
        showing = [one for one in known if any(one in seen for _, seen in suspects.values())]
        others = [one for one in known if one in left and one not in showing]
        threes = itertools.chain(
            itertools.combinations(showing, 3),
            ((*two, one) for two in itertools.combinations(showing, 2) for one in others),
        )
        for three in threes:
            if (
                all(guilty & set(three) for guilty, _ in suspects.values())
                and self._is_possible(three)
                and (yield from self._is_confirmed(three, failing + passing))
            ):
                self.partly.pop(exercise, None)
                return three
        return ()

    def _is_possible(self, mistakes: Diagnosis) -> bool:
        """Whether the mistakes can be made together, and be told of together."""
        pairs = itertools.permutations(mistakes, 2)
        return not any(contradict(a.tell, b.tell) for a, b in pairs) and self._truth.is_possible(
            mistakes
        )

    def _note_part(
        self, exercise: str, explaining: Mapping[Outline, Collection[Misconception]]
    ) -> None:
        """Take down the one mistake that alone explains several failing checks, if their numbers show it."""
        told = defaultdict(set)
        for check, mistakes in explaining.items():
            if len(mistakes) == 1 and self._shows_in_numbers(check):
                [one] = mistakes
                told[one].add(check.name)
        if told:
            one, names = max(told.items(), key=lambda entry: len(entry[1]))
            if len(names) >= FEWEST_CHECKS:
                left = (check for check, mistakes in explaining.items() if one not in mistakes)
                core = tuple(check.name for check in left if check.tier == CORE)
                self.partly[exercise] = PartialDiagnosis(one, frozenset(names), core)

    def _shows_in_numbers(self, check: Outline) -> bool:
        """Whether real numbers are off: that two mistakes give the same ones is no accident, as it may be
        with tokens, with types or with exceptions."""
        seen = self._seen[check.name]
        if seen is None or seen.raised is not None:
            return False
        difference = compare(seen.observation, self._truth.right(check))
        return (
            difference is not None
            and difference.stage in ("nan", "values")
            and is_float(difference.wanted)
        )

    def _suspects(
        self, check: Outline, known: Sequence[Misconception]
    ) -> Generator[bool, None, tuple[set[Misconception], set[Misconception]]]:
        """The mistakes that a check tells from the reference, and those among them with which one would
        see what was seen."""
        guilty, explaining = set(), set()
        for one in known:
            run = self._truth.wrong(check, one)
            if run.fails:
                guilty.add(one)
                if self._is(check, run.expected):
                    explaining.add(one)
            yield LOOKED
        return guilty, explaining

    def _is_confirmed(
        self, mistakes: Diagnosis, checks: Sequence[Outline]
    ) -> Generator[bool, None, bool]:
        """Whether one sees with these mistakes together, in every check, what was seen."""
        for check in checks:
            expected = self._truth.together(check, mistakes)
            yield RUN
            if not self._is(check, expected):
                return False
        return True

    def _is(self, check: Outline, expected: Expected) -> bool:
        seen = self._seen[check.name]
        return seen is not None and matches(seen, expected)
