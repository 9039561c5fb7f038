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

    mistake: Misconception
    shows: frozenset[str]
    """The failing checks that this mistake alone explains."""
    unexplained: tuple[str, ...]
    """The failing core checks that it does not explain."""


@dataclass(frozen=True)
class _Evidence:
    """The checks of an exercise that an answer fails and passes, and the mistakes that may explain them."""

    failing: list[Outline]
    passing: list[Outline]
    candidates: list[Misconception]
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
        runs: Mapping[str, CheckRun | None],
        wrong: Mapping[str, Collection[str]],
    ) -> None:
        """Create a search that has not begun.

        Args:
            checks: the checks that were run, in order.
            truth: the runs of the reference and the known wrong answers.
            runs: the answer's run of each check by name, or None where there is none.
            wrong: the names of the failing checks of each exercise that is wrong.
        """
        self.diagnoses: dict[str, Diagnosis] = {}
        """The diagnosis of each exercise so far; empty if none was found."""
        self.partly: dict[str, PartialDiagnosis] = {}
        """The partial diagnosis of each exercise without a full one."""
        self._covered: dict[str, frozenset[str]] = {}
        """The failing checks that the diagnosis of each exercise explains: all of the core, if it fails."""
        self.needed = any(
            all(map(_has_run, (runs[check.name] for check in checks if check.exercise == exercise)))
            for exercise in wrong
        )
        """Whether there is anything to diagnose: an exercise is wrong, and all its checks could run."""
        self.done = not self.needed
        """Whether the search is complete."""
        self.runs = 0
        """The number of runs with several mistakes at once so far."""
        self.seconds = 0.0
        """The CPU time that the search has taken so far."""
        self._day = day
        self._checks = checks
        self._outlines = {check.name: check for check in checks}
        self._truth = truth
        self._runs = runs
        self._wrong = wrong
        self._pieces = self._diagnose_all()

    @property
    def diagnosed_exercises(self) -> int:
        """Return the number of exercises whose diagnosis is complete, and of partial diagnoses."""
        return len(self.diagnoses) + len(self.partly)

    def run(self) -> bool:
        """Search for as long as a learner waits. Returns whether the search is complete."""
        for _ in self.steps():
            pass
        return self.done

    def steps(self) -> Iterator[None]:
        """Do the same, a piece at each step."""
        return self._resumed(PATIENCE, math.inf)

    def run_in_batch(self, max_runs: int = MAX_RUNS) -> int:
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
        if not any(self._runs.values()):
            return list(verdicts)
        return [
            self._diagnosed(result) if result.status in ("failed", "error") else result
            for result in verdicts
        ]

    def _diagnosed(self, result: CheckResult) -> CheckResult:
        """Return a failing verdict with its diagnosis, or else with advice where to begin."""
        wrong = self._shown_in(result.exercise, result.name)
        if not wrong:
            advice = where_to_begin(*self._to_mend_first(result.name))
            return replace(result, message="\n".join([result.message, *advice]))
        part = self.partly.get(result.exercise)
        alone = part is None and len(wrong) == 1
        sentences = [
            f"{'' if mistake.definition == result.exercise else f'This comes from `{mistake.definition}`. '}"
            f"{mistake.tell if alone else beside_others(mistake.tell)}"
            for mistake in wrong
        ]
        if len(wrong) > 1:
            bullets = (
                f"• {mistake.id}: {words}" for mistake, words in zip(wrong, sentences, strict=True)
            )
            count = "Two" if len(wrong) == 2 else "Three"
            words = f"{count} things at once. {' '.join(bullets)}"
        else:
            words = " ".join([sentences[0], *(something_else(part.unexplained) if part else [])])
        return replace(result, misconception=wrong[0].id, message=f"{words}\n{result.message}")

    def _shown_in(self, exercise: str, check: str) -> Diagnosis:
        """Return the mistakes that show in a check, those first that explain it alone."""
        if exercise in self.partly:
            part = self.partly[exercise]
            return (part.mistake,) if check in part.shows else ()
        diagnosis = self.diagnoses.get(exercise, ())
        if check not in self._covered.get(exercise, ()):
            return ()
        if len(diagnosis) < 2:
            return diagnosis
        outline = self._outlines[check]

        def explains(mistake: Misconception) -> bool:
            return self._agrees(outline, self._truth.wrong(outline, mistake).expected)

        return tuple(sorted(diagnosis, key=explains, reverse=True))

    def shaky(self, exercise: str) -> list[str]:
        """Return the wrong exercises that this one depends on, in the reference or in its failing checks."""
        failing = (self._outlines[name] for name in self._wrong.get(exercise, ()))
        used = names_used_by(self._day, exercise).union(*(check.uses for check in failing))
        other_names = (name for name in self._day.exercises if name != exercise)
        return [name for name in other_names if name in used and name in self._wrong]

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
                self.diagnoses[exercise] = yield from self._diagnose(exercise)
        self.done = True

    def _foundations_first(self) -> list[str]:
        """Return the day's exercises, each after those that it uses, to find a mistake where it is made."""
        ordered: list[str] = []
        remaining = list(self._day.exercises)
        while remaining:
            used = {
                name: names_used_by(self._day, name) & set(remaining) - {name} for name in remaining
            }
            ordered.append(min(remaining, key=lambda name: len(used[name])))
            remaining.remove(ordered[-1])
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
        if not all(_has_run(self._runs[check.name]) for check in mine):
            return ()
        if any(self.diagnoses.get(name) == () for name in self.shaky(exercise)):
            return ()  # a dependency is wrong in an unknown way, which would be blamed on this exercise
        failing = [check for check in mine if check.name in self._wrong[exercise]]
        passing = [check for check in mine if check not in failing]
        named = dict.fromkeys(itertools.chain.from_iterable(self.diagnoses.values()))
        candidates = [
            *named,
            *(mistake for mistake in self._truth.candidates if mistake.definition == exercise),
        ]
        core = [check for check in failing if check.tier == CORE]
        evidence = _Evidence(core or failing, passing, candidates, absent)
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
        run = self._runs[check.name]
        raised = run.raised if run is not None else None
        return raised is not None and raised.kind in SLIPS and bool(raised.frames)

    def _first_of_all(self, mistakes: Diagnosis, evidence: _Evidence) -> Diagnosis:
        """Return the mistakes that some failing check of the evidence sees alone, if there are any: while the
        core fails, a mistake that only shows beyond it can wait."""
        return (
            tuple(
                mistake
                for mistake in mistakes
                if any(self._truth.wrong(check, mistake).fails for check in evidence.failing)
            )
            or mistakes
        )

    def _stub_in(self, check: Outline) -> str:
        """Return the function or method still to be written in which the run ended, or an empty string.

        Such a run says nothing of the code that is there."""
        run = self._runs[check.name]
        if run is None or run.raised is None or not run.raised.not_started:
            return ""
        return run.raised.frames[-1][1] if run.raised.frames else check.exercise

    def _explaining_all(self, evidence: _Evidence) -> Generator[bool, None, list[Misconception]]:
        """Return the mistakes that alone explain every check.

        Where methods are still to be written, those that need none of them come alone.
        """
        candidates = evidence.candidates
        for check in evidence.failing:
            _, explaining = yield from self._suspects(check, candidates)
            candidates = [mistake for mistake in candidates if mistake in explaining]
        candidates = yield from self._unrefuted(candidates, evidence.passing)
        unwritten = {self._stub_in(check) for check in evidence.absent}
        return [
            mistake for mistake in candidates if unwritten.isdisjoint(mistake.parts(self._day))
        ] or candidates

    def _told_apart(
        self, mistakes: Sequence[Misconception], absent: Sequence[Outline]
    ) -> Generator[bool, None, bool]:
        """Whether checks of which nothing was seen would tell these mistakes apart: none is named then."""
        for check in absent if len(mistakes) > 1 else ():
            first, *rest = (self._truth.wrong(check, mistake) for mistake in mistakes)
            if not all(matches(first.run, other.expected) for other in rest):
                return True
            yield COMPARED
        return False

    def _best_of(
        self, candidates: list[Misconception], evidence: _Evidence, beyond: Sequence[Outline]
    ) -> Pieces:
        """Return the mistake of these, which explain every check, that explains most beyond the core.

        If several explain the core equally well, or if no number shows it, a second mistake has to make up
        for what is not explained.
        """
        if not candidates:
            return ()
        explained = dict.fromkeys(candidates, 0)
        for check in beyond:
            _, explaining = yield from self._suspects(check, candidates)
            for mistake in explaining:
                explained[mistake] += 1
        most = max(explained.values())
        best = [candidate for candidate in candidates if explained[candidate] == most]
        if most == len(beyond) or (
            len(best) == 1 and any(map(self._shows_in_numbers, evidence.failing))
        ):
            return (best[0],)
        full = replace(evidence, failing=[*evidence.failing, *beyond])
        return (yield from self._pair(full, candidates))

    def _pair(self, evidence: _Evidence, either: Collection[Misconception] = ()) -> Pieces:
        """Return the first two mistakes that together explain every check, one of them among `either`.

        Most pairs are ruled out without a run: both pass a check that passes, and one of them fails a
        check that fails. If only one of the two fails a check, the pair nearly always fails like it.
        """
        candidates = yield from self._unrefuted(evidence.candidates, evidence.passing)
        pairs = itertools.combinations(candidates, 2)
        surprises = {pair: 0 for pair in pairs if not either or not set(pair).isdisjoint(either)}
        for check in evidence.failing:
            candidates = list(dict.fromkeys(itertools.chain.from_iterable(surprises)))
            guilty, explaining = yield from self._suspects(check, candidates)
            for (mistake, other), count in list(surprises.items()):
                alone = (mistake in guilty) != (other in guilty)
                count += alone and mistake not in explaining and other not in explaining
                if (not alone and mistake not in guilty) or count > MAX_SURPRISES:
                    del surprises[mistake, other]
                else:
                    surprises[mistake, other] = count
        for pair in sorted(surprises, key=lambda pair: surprises[pair]):
            if self._is_possible(pair) and (yield from self._is_confirmed(pair, evidence.checks)):
                return pair
        return ()

    def _triple(self, evidence: _Evidence) -> Pieces:
        """Return the first three mistakes that together explain every check.

        At least two of the three each explain some check alone: otherwise there are too many to try.
        """
        candidates = yield from self._unrefuted(evidence.candidates, evidence.passing)
        suspects = {}
        for check in evidence.failing:
            suspects[check] = yield from self._suspects(check, candidates)
        showing = [
            mistake
            for mistake in candidates
            if any(mistake in explaining for _, explaining in suspects.values())
        ]
        rest = [mistake for mistake in candidates if mistake not in showing]
        threes = itertools.chain(
            itertools.combinations(showing, 3),
            ((*two, third) for two in itertools.combinations(showing, 2) for third in rest),
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
        self, candidates: Sequence[Misconception], passing: Sequence[Outline]
    ) -> Generator[bool, None, list[Misconception]]:
        """Return the mistakes that pass every check that passes."""
        remaining = []
        for mistake in candidates:
            for check in passing:
                yield COMPARED
                if self._truth.wrong(check, mistake).fails:
                    break
            else:
                remaining.append(mistake)
        return remaining

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
        candidates = yield from self._unrefuted(evidence.candidates, evidence.passing)
        explaining = {}
        for check in [*evidence.failing, *beyond]:
            _, explaining[check] = yield from self._suspects(check, candidates)
        shown = defaultdict(set)
        for check, mistakes in explaining.items():
            if len({other.id for other in mistakes}) == 1 and self._shows_in_numbers(check):
                for mistake in mistakes:
                    shown[mistake].add(check.name)
        if shown:
            mistake, names = max(shown.items(), key=lambda entry: len(entry[1]))
            if len(names) >= MIN_CHECKS:
                unexplained = (
                    check for check, mistakes in explaining.items() if mistake not in mistakes
                )
                core = tuple(check.name for check in unexplained if check.tier == CORE)
                self.partly[exercise] = PartialDiagnosis(mistake, frozenset(names), core)
        return ()

    def _shows_in_numbers(self, check: Outline) -> bool:
        """Whether floating-point values differ: two mistakes do not produce equal ones by accident, as they
        may produce equal tokens, types or exceptions."""
        run = self._runs[check.name]
        if run is None or run.raised is not None:
            return False
        difference = compare(run.observation, self._truth.right(check))
        return (
            difference is not None
            and difference.stage in ("nan", "values")
            and is_float(difference.expected)
        )

    def _suspects(
        self, check: Outline, candidates: Sequence[Misconception]
    ) -> Generator[bool, None, tuple[set[Misconception], set[Misconception]]]:
        """Return the mistakes that fail a check, and those among them whose runs agree with the answer's."""
        guilty, explaining = set(), set()
        for mistake in candidates:
            run = self._truth.wrong(check, mistake)
            if run.fails:
                guilty.add(mistake)
                if self._agrees(check, run.expected):
                    explaining.add(mistake)
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
        run = self._runs[check.name]
        return run is not None and matches(run, expected)


def _has_run(run: CheckRun | None) -> bool:
    """Whether a check has run as far as the answer's names go."""
    return run is not None and (run.raised is None or run.raised.kind not in NAMELESS)
