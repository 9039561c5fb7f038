"""Diagnose an answer: find the known wrong answers whose runs agree with it in every check of an exercise.

The search yields after each small piece of work, so that the caller can stop it.
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
from course.judging.expected import ExpectedRun, is_float
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

PATIENCE = 5.0  # seconds of CPU time after which the search gives up
# Maximum number of runs with several mistakes at once for an answer in a batch, on any machine.
MAX_RUNS = 300

# Exceptions of a name that is not there: no known wrong answer has one, and the message says all.
NAMELESS = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError")
# Exceptions of a line of the answer's own that calls what is not there, or wrongly: the rest is not seen.
SLIPS = ("AttributeError", "TypeError")

# Failing checks that a mistake must fully explain before it is reported beside an unknown mistake.
MIN_CHECKS = 2
# Checks that only one of two mistakes fails, and in which the run with both differs from that one's.
MAX_SURPRISES = 2

# A piece of work: a comparison, or a run with several mistakes at once.
COMPARED, RAN = False, True
Pieces = Generator[bool, None, Diagnosis]


@dataclass(frozen=True)
class PartialDiagnosis:
    """A known mistake that explains a part of what is wrong."""

    one: Misconception
    shows: frozenset[str]
    """The failing checks that this mistake alone explains."""
    unexplained: tuple[str, ...]
    """The failing core checks that it does not explain."""


@dataclass(frozen=True)
class _Evidence:
    """The checks of an exercise that an answer fails and passes, and the mistakes that may explain them."""

    failing: list[Outline]
    passing: list[Outline]
    known: list[Misconception]
    absent: list[Outline]
    """The checks that end in a method still to be written: of them nothing was seen."""

    @property
    def checks(self) -> list[Outline]:
        """All checks, the failing ones first, because they distinguish mistakes soonest."""
        return self.failing + self.passing


class Search:
    """The search for a diagnosis of one answer."""

    def __init__(
        self,
        day: Day,
        checks: Sequence[Outline],
        truth: Truth,
        seen: Mapping[str, CheckRun | None],
        wrong: Mapping[str, Collection[str]],
    ) -> None:
        """Create a search that has not begun.

        Args:
            day: the day that is answered.
            checks: the checks that were run, in order.
            truth: the runs of the reference and the known wrong answers.
            seen: the answer's run of each check by name, or None where there is none.
            wrong: the names of the failing checks of each exercise that is wrong.
        """
        self.told: dict[str, Diagnosis] = {}
        """The diagnosis of each exercise so far; empty if none was found."""
        self.partly: dict[str, PartialDiagnosis] = {}
        """The partial diagnosis of each exercise without a full one."""
        self._covered: dict[str, frozenset[str]] = {}
        """The failing checks that the diagnosis of each exercise explains: all of the core, if it fails."""
        self.wanted = any(
            all(map(_has_run, (seen[check.name] for check in checks if check.exercise == exercise)))
            for exercise in wrong
        )
        """Whether there is anything to diagnose: an exercise is wrong, and all its checks could run."""
        self.done = not self.wanted
        """Whether the search is complete."""
        self.runs = 0
        """The number of runs with several mistakes at once so far."""
        self.seconds = 0.0
        """The CPU time that the search has taken so far."""
        self._day = day
        self._checks = checks
        self._outlines = {check.name: check for check in checks}
        self._truth = truth
        self._seen = seen
        self._wrong = wrong
        self._pieces = self._diagnose_all()

    def look(self) -> bool:
        """Search for as long as a learner waits. Returns whether the search is complete."""
        for _ in self.looking():
            pass
        return self.done

    def looking(self) -> Iterator[None]:
        """Do the same, a piece at each step."""
        return self._resumed(PATIENCE, math.inf)

    def look_in_batch(self, max_runs: int = MAX_RUNS) -> int:
        """Search within a number of runs, so that the result is the same on every machine.

        Returns:
            the number of runs with several mistakes at once that this took.
        """
        before = self.runs
        for _ in self._resumed(math.inf, max(1, min(max_runs, MAX_RUNS))):
            pass
        return self.runs - before

    def diagnosed(self, verdicts: Sequence[CheckResult]) -> list[CheckResult]:
        """Return the verdicts with the diagnoses found so far; those of a file that never ran have none."""
        if not any(self._seen.values()):
            return list(verdicts)
        return [
            self._diagnosed(one) if one.status in ("failed", "error") else one for one in verdicts
        ]

    def _diagnosed(self, result: CheckResult) -> CheckResult:
        """Return a failing verdict with its diagnosis, or else with advice where to begin."""
        wrong = self._shown_in(result.exercise, result.name)
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

    def _shown_in(self, exercise: str, check: str) -> Diagnosis:
        """Return the mistakes that show in a check, those first that explain it alone."""
        if exercise in self.partly:
            part = self.partly[exercise]
            return (part.one,) if check in part.shows else ()
        told = self.told.get(exercise, ())
        if check not in self._covered.get(exercise, ()):
            return ()
        if len(told) < 2:
            return told
        outline = self._outlines[check]

        def explains(one: Misconception) -> bool:
            return self._agrees(outline, self._truth.wrong(outline, one).expected)

        return tuple(sorted(told, key=explains, reverse=True))

    def shaky(self, exercise: str) -> list[str]:
        """Return the wrong exercises that this one depends on, in the reference or in its failing checks."""
        failing = (self._outlines[name] for name in self._wrong.get(exercise, ()))
        used = names_used_by(self._day, exercise).union(*(check.uses for check in failing))
        others = (name for name in self._day.exercises if name != exercise)
        return [name for name in others if name in used and name in self._wrong]

    def _to_mend_first(self, check: str) -> tuple[list[str], list[str]]:
        """Return the exercises with a failing core check that a check calls, and those that its exercise
        uses in the reference."""
        outline = self._outlines[check]
        used = names_used_by(self._day, outline.exercise) - outline.uses
        wrong = [
            name
            for name in self._day.exercises
            if name != outline.exercise
            and any(self._outlines[failing].tier == CORE for failing in self._wrong.get(name, ()))
        ]
        called = [name for name in wrong if name in outline.uses]
        return called, [name for name in wrong if name in used]

    def _resumed(self, seconds: float, runs: float) -> Iterator[None]:
        """Search on for so many seconds of this thread's CPU time, without imports, and so many runs."""
        started = time.thread_time() - self._truth.loading - self.seconds
        seconds += self.seconds
        for piece in self._pieces:
            self.runs += piece is RAN
            runs -= piece is RAN
            self.seconds = time.thread_time() - self._truth.loading - started
            if runs <= 0 or self.seconds > seconds:
                return
            yield

    def _diagnose_all(self) -> Generator[bool, None, None]:
        for exercise in self._foundations_first():
            if exercise in self._wrong:
                self.told[exercise] = yield from self._diagnose(exercise)
        self.done = True

    def _foundations_first(self) -> list[str]:
        """Return the day's exercises, each after those that it uses, to find a mistake where it is made."""
        ordered: list[str] = []
        left = list(self._day.exercises)
        while left:
            used = {name: names_used_by(self._day, name) & set(left) - {name} for name in left}
            ordered.append(min(left, key=lambda name: len(used[name])))
            left.remove(ordered[-1])
        return ordered

    def _diagnose(self, exercise: str) -> Pieces:
        """Return what explains the core checks of an exercise, or all if those pass: one known mistake, or
        else two or three at once.

        What goes beyond the core does not hide what is wrong in it: checks of that which fail need not be
        explained. A mistake in a different exercise can show here too, but counts only if it was found there.
        """
        mine = [check for check in self._checks if check.exercise == exercise]
        absent = [check for check in mine if self._stub_in(check)]
        mine = [check for check in mine if check not in absent]
        if not all(_has_run(self._seen[check.name]) for check in mine):
            return ()
        if any(self.told.get(name) == () for name in self.shaky(exercise)):
            return ()  # a dependency is wrong in an unknown way, which would be blamed on this exercise
        failing = [check for check in mine if check.name in self._wrong[exercise]]
        passing = [check for check in mine if check not in failing]
        found = dict.fromkeys(itertools.chain.from_iterable(self.told.values()))
        known = [*found, *(one for one in self._truth.candidates if one.definition == exercise)]
        core = [check for check in failing if check.tier == CORE]
        evidence = _Evidence(core or failing, passing, known, absent)
        beyond = [check for check in failing if check not in evidence.failing]
        alone = yield from self._explaining_all(evidence)
        if (yield from self._told_apart(alone, absent)):
            return ()
        mistakes = (yield from self._best_of(alone, evidence, beyond)) or (
            yield from self._several(exercise, evidence, beyond)
        )
        mistakes = self._first_of_all(mistakes, evidence)
        if mistakes:
            self.partly.pop(exercise, None)
            covered = yield from self._explained_by(mistakes, beyond)
            self._covered[exercise] = frozenset(
                check.name for check in [*evidence.failing, *covered]
            )
        return mistakes

    def _several(self, exercise: str, evidence: _Evidence, beyond: Sequence[Outline]) -> Pieces:
        """Return two or three mistakes that together explain every check. A line that cannot run hides what
        the rest would do, so nothing is made of it."""
        if any(map(self._is_slip, evidence.failing)):
            return ()
        return (
            (yield from self._note_part(exercise, evidence, beyond))
            or (yield from self._pair(evidence))
            or (yield from self._triple(evidence))
        )

    def _is_slip(self, check: Outline) -> bool:
        """Whether the run ended in a line of the answer's own that calls what is not there, or wrongly."""
        seen = self._seen[check.name]
        raised = seen.raised if seen is not None else None
        return raised is not None and raised.kind in SLIPS and bool(raised.frames)

    def _first_of_all(self, mistakes: Diagnosis, evidence: _Evidence) -> Diagnosis:
        """Return the mistakes that some failing check of the evidence sees alone, if there are any: while the
        core fails, a mistake that only shows beyond it can wait."""
        return (
            tuple(
                one
                for one in mistakes
                if any(self._truth.wrong(check, one).fails for check in evidence.failing)
            )
            or mistakes
        )

    def _stub_in(self, check: Outline) -> str:
        """Return the function or method still to be written in which the run ended, or an empty string.

        Such a run says nothing of the code that is there."""
        seen = self._seen[check.name]
        if seen is None or seen.raised is None or not seen.raised.not_started:
            return ""
        return seen.raised.frames[-1][1] if seen.raised.frames else check.exercise

    def _explaining_all(self, evidence: _Evidence) -> Generator[bool, None, list[Misconception]]:
        """Return the mistakes that alone explain every check.

        Where methods are still to be written, those that need none of them come alone.
        """
        left = evidence.known
        for check in evidence.failing:
            _, explaining = yield from self._suspects(check, left)
            left = [one for one in left if one in explaining]
        left = yield from self._unrefuted(left, evidence.passing)
        unwritten = {self._stub_in(check) for check in evidence.absent}
        return [one for one in left if unwritten.isdisjoint(one.parts(self._day))] or left

    def _told_apart(
        self, mistakes: Sequence[Misconception], absent: Sequence[Outline]
    ) -> Generator[bool, None, bool]:
        """Whether checks of which nothing was seen would tell these mistakes apart: none is named then."""
        for check in absent if len(mistakes) > 1 else ():
            first, *others = (self._truth.wrong(check, one) for one in mistakes)
            if not all(matches(first.seen, other.expected) for other in others):
                return True
            yield COMPARED
        return False

    def _best_of(
        self, left: list[Misconception], evidence: _Evidence, beyond: Sequence[Outline]
    ) -> Pieces:
        """Return the mistake of these, which explain every check, that explains most beyond the core.

        If several explain the core equally well, or if no number shows it, a second mistake has to make up
        for what is not explained.
        """
        if not left:
            return ()
        explained = dict.fromkeys(left, 0)
        for check in beyond:
            _, explaining = yield from self._suspects(check, left)
            for one in explaining:
                explained[one] += 1
        most = max(explained.values())
        best = [one for one in left if explained[one] == most]
        if most == len(beyond) or (
            len(best) == 1 and any(map(self._shows_in_numbers, evidence.failing))
        ):
            return (best[0],)
        whole = replace(evidence, failing=[*evidence.failing, *beyond])
        return (yield from self._pair(whole, left))

    def _pair(self, evidence: _Evidence, either: Collection[Misconception] = ()) -> Pieces:
        """Return the first two mistakes that together explain every check, one of them among `either`.

        Most pairs are ruled out without a run: both pass a check that passes, and one of them fails a
        check that fails. If only one of the two fails a check, the pair nearly always fails like it.
        """
        left = yield from self._unrefuted(evidence.known, evidence.passing)
        pairs = itertools.combinations(left, 2)
        surprises = {pair: 0 for pair in pairs if not either or not set(pair).isdisjoint(either)}
        for check in evidence.failing:
            left = list(dict.fromkeys(itertools.chain.from_iterable(surprises)))
            guilty, explaining = yield from self._suspects(check, left)
            for (one, other), count in list(surprises.items()):
                alone = (one in guilty) != (other in guilty)
                count += alone and one not in explaining and other not in explaining
                if (not alone and one not in guilty) or count > MAX_SURPRISES:
                    del surprises[one, other]
                else:
                    surprises[one, other] = count
        for pair in sorted(surprises, key=lambda pair: surprises[pair]):
            if self._is_possible(pair) and (yield from self._is_confirmed(pair, evidence.checks)):
                return pair
        return ()

    def _triple(self, evidence: _Evidence) -> Pieces:
        """Return the first three mistakes that together explain every check.

        At least two of the three each explain some check alone: otherwise there are too many to try.
        """
        left = yield from self._unrefuted(evidence.known, evidence.passing)
        suspects = {}
        for check in evidence.failing:
            suspects[check] = yield from self._suspects(check, left)
        showing = [one for one in left if any(one in seen for _, seen in suspects.values())]
        others = [one for one in left if one not in showing]
        threes = itertools.chain(
            itertools.combinations(showing, 3),
            ((*two, one) for two in itertools.combinations(showing, 2) for one in others),
        )
        for three in threes:
            if (
                all(guilty & set(three) for guilty, _ in suspects.values())
                and self._is_possible(three)
                and (yield from self._is_confirmed(three, evidence.checks))
            ):
                return three
        return ()

    def _unrefuted(
        self, known: Sequence[Misconception], passing: Sequence[Outline]
    ) -> Generator[bool, None, list[Misconception]]:
        """Return the mistakes that pass every check that passes."""
        left = []
        for one in known:
            for check in passing:
                yield COMPARED
                if self._truth.wrong(check, one).fails:
                    break
            else:
                left.append(one)
        return left

    def _explained_by(
        self, mistakes: Diagnosis, checks: Sequence[Outline]
    ) -> Generator[bool, None, list[Outline]]:
        """Return the checks in which the run with these mistakes agrees with the answer's."""
        explained = []
        for check in checks:
            if self._agrees(check, self._truth.together(check, mistakes)):
                explained.append(check)
            yield COMPARED if len(mistakes) == 1 else RAN
        return explained

    def _is_possible(self, mistakes: Diagnosis) -> bool:
        """Whether the mistakes can be made, and be reported, together."""
        pairs = itertools.permutations(mistakes, 2)
        return not any(
            a.id == b.id or contradict(a.tell, b.tell) for a, b in pairs
        ) and self._truth.is_possible(mistakes)

    def _note_part(self, exercise: str, evidence: _Evidence, beyond: Sequence[Outline]) -> Pieces:
        """Note in `partly` the mistake that alone explains several failing checks, if their numbers show it.

        That takes comparisons only, so it is done before two at once are tried. Returns no diagnosis.
        """
        left = yield from self._unrefuted(evidence.known, evidence.passing)
        explaining = {}
        for check in [*evidence.failing, *beyond]:
            _, explaining[check] = yield from self._suspects(check, left)
        shown = defaultdict(set)
        for check, mistakes in explaining.items():
            if len({one.id for one in mistakes}) == 1 and self._shows_in_numbers(check):
                for one in mistakes:
                    shown[one].add(check.name)
        if shown:
            one, names = max(shown.items(), key=lambda entry: len(entry[1]))
            if len(names) >= MIN_CHECKS:
                others = (check for check, mistakes in explaining.items() if one not in mistakes)
                core = tuple(check.name for check in others if check.tier == CORE)
                self.partly[exercise] = PartialDiagnosis(one, frozenset(names), core)
        return ()

    def _shows_in_numbers(self, check: Outline) -> bool:
        """Whether floating-point values differ: two mistakes do not produce equal ones by accident, as they
        may produce equal tokens, types or exceptions."""
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
        """Return the mistakes that fail a check, and those among them whose runs agree with the answer's."""
        guilty, explaining = set(), set()
        for one in known:
            run = self._truth.wrong(check, one)
            if run.fails:
                guilty.add(one)
                if self._agrees(check, run.expected):
                    explaining.add(one)
            yield COMPARED
        return guilty, explaining

    def _is_confirmed(
        self, mistakes: Diagnosis, checks: Sequence[Outline]
    ) -> Generator[bool, None, bool]:
        """Whether the runs with these mistakes together agree with the answer's in every check."""
        for check in checks:
            expected = self._truth.together(check, mistakes)
            yield RAN
            if not self._agrees(check, expected):
                return False
        return True

    def _agrees(self, check: Outline, expected: ExpectedRun) -> bool:
        seen = self._seen[check.name]
        return seen is not None and matches(seen, expected)


def _has_run(seen: CheckRun | None) -> bool:
    """Whether a check has run as far as the answer's names go."""
    return seen is not None and (seen.raised is None or seen.raised.kind not in NAMELESS)
