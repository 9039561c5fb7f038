"""What the reference sees in a day's checks, and what it sees with mistakes in it.

It is taken from what is kept, or else observed now, and then kept.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from course.checks.arrays import PRACTICE, eps_of
from course.checks.loading import CORE, Check, Outline, load_checks
from course.checks.observation import Observation, Raised
from course.checks.seeing import CheckRun, see, takes_tensors
from course.curriculum import Day
from course.judging.comparison import identical, is_same, matches
from course.judging.expected import ROUNDINGS, Expected, expect, is_float, magnitude
from course.judging.kept import Frames, Kept
from course.judging.misconceptions import Misconception, module_of

CHECKS = "checks"  # the member that outlines the day's checks
RIGHT = "right/{}"  # of each check: what the reference sees

Diagnosis = tuple[Misconception, ...]
"""What was misunderstood: one thing, several at once, or nothing that is known."""


@dataclass(frozen=True)
class WrongAnswerRun:
    """What is seen in a check with a mistake."""

    expected: Expected
    fails: bool
    """Whether the check tells it from the reference."""


class Truth:
    """What a judge holds observations against, for one day, seed and device."""

    ALL, SOME = "wrong/{}", "some/{}"
    """Of each check: what is seen with every known mistake, or with those tried so far."""

    def __init__(
        self, day: Day, seed: int, device: str, misconceptions: list[Misconception], kept: Kept
    ) -> None:
        """Nothing is observed yet.

        Args:
            day: the day.
            seed: where the inputs come from.
            device: where they lie.
            misconceptions: the known wrong answers, in the order in which they are tried.
            kept: what was observed before.
        """
        self.misconceptions = self.candidates = misconceptions
        self.loading = 0.0
        """Seconds of computing that reading what is at hand took: torch, the day's file, what is kept."""
        self._day = day
        self._seed = seed
        self._device = device
        self._kept = kept
        self._runnable: dict[str, Check] = {}
        self._reference_runs: dict[str, CheckRun] = {}
        self._right: dict[str, Expected] = {}
        self._wrong: dict[str, dict[str, WrongAnswerRun]] = {}
        self._grown: dict[str, Outline] = {}
        self._modules: dict[Diagnosis, ModuleType | None] = {}

    def outlines(self) -> list[Outline]:
        """The day's checks as far as a verdict needs them, in their order."""
        frames = self._kept.read(CHECKS)
        if frames is None:
            checks = list(self._load().values())
            there = self._observed_there(checks)
            told = [check.as_json() | {"there": check.name in there} for check in checks]
            frames = [({"checks": told}, {})]
            self._kept.add(CHECKS, frames)
        return [Outline.from_json(entry) for entry in frames[0][0]["checks"]]

    def check(self, outline: Outline) -> Check:
        """A check itself, to be run: its file, and torch with it, is read when the first one is."""
        return self._load()[outline.name]

    def run(self, check: Outline, answer: Any, file: str | None = None) -> CheckRun:
        """Run a check on an answer in this process.

        Args:
            check: the check.
            answer: a module, or whatever has the definitions.
            file: the answer's file name, by which its own lines are told from others in a traceback.
        """
        return see(self.check(check), answer, self._seed, self._device, file=file)

    def accepts(self, check: Outline, run: CheckRun) -> bool:
        """Whether a run agrees with the reference's: to the last bit, or to rounding."""
        return is_same(run, self.observe_reference(check)) or matches(run, self.right(check))

    def observe_reference(self, check: Outline) -> CheckRun:
        """What the reference sees: all that a verdict needs on what agrees with it to the last bit."""
        if RIGHT.format(check.name) in self._kept:
            return self.right(check).seen
        if check.name not in self._reference_runs:
            self._reference_runs[check.name] = self._run(check, ())
        return self._reference_runs[check.name]

    def right(self, check: Outline) -> Expected:
        """What the reference sees, and how far off a right answer may be."""
        if check.name not in self._right:
            member = RIGHT.format(check.name)
            frames = self._kept.read(member)
            if frames is None:
                module = self._module(())
                self._right[check.name] = right = expect(
                    self.check(check), module, self._seed, self._device
                )
                self._kept.add(member, _of_right(right))
            else:
                self._right[check.name] = _right_of(frames)
        return self._right[check.name]

    def wrong(self, check: Outline, one: Misconception) -> WrongAnswerRun:
        """What is seen with a known mistake."""
        known = self._known(check)
        if one.id not in known:
            known[one.id] = self._run_wrong(check, (one,))
            self._grown[check.name] = check
        return known[one.id]

    def knows(self, check: Outline) -> bool:
        """Whether what is seen with each mistake is at hand, without running anything."""
        return self.ALL.format(check.name) in self._kept or self._is_complete(check)

    def is_possible(self, mistakes: Diagnosis) -> bool:
        """Whether the mistakes can be made together, and be run here."""
        return self._module(mistakes) is not None

    def together(self, check: Outline, mistakes: Diagnosis) -> Expected:
        """What is seen with several mistakes that are possible together."""
        return self._run_wrong(check, mistakes).expected

    def complete(self, checks: Sequence[Outline]) -> Iterator[None]:
        """Observe all that is not known yet, a piece at each step."""
        for check in checks:
            self.right(check)
            yield
        for check in checks:
            if not self.knows(check):
                for one in self.misconceptions:
                    self.wrong(check, one)
                    yield

    def keep(self) -> None:
        """Write down what was observed and not written yet."""
        for check in self._grown.values():
            member = self.ALL if self._is_complete(check) else self.SOME
            frames = _of_wrong(self._wrong[check.name], self.right(check).seen)
            self._kept.add(member.format(check.name), frames)
        self._grown.clear()
        self._kept.write()

    def add_all(self, checks: Sequence[Outline]) -> None:
        """Have the whole of it added to what is kept, though it may stand there: of two processes that
        write at once the file keeps what the later one has."""
        for check in checks:
            for one in self.misconceptions:
                self.wrong(check, one)
            right = self.right(check)
            self._add_right(check, right)
            wrong = _of_wrong(self._wrong.get(check.name, {}), right.seen)
            self._kept.add(self.ALL.format(check.name), wrong)

    def _add_right(self, check: Outline, right: Expected) -> None:
        self._kept.add(RIGHT.format(check.name), _of_right(right))

    def forget(self) -> None:
        """Let go of modules with several mistakes: of those there are too many to keep."""
        for mistakes in [mistakes for mistakes in self._modules if len(mistakes) > 1]:
            del self._modules[mistakes]

    def _observed_there(self, checks: Sequence[Check]) -> set[str]:
        """The names of the checks that are observed on the practice GPU without being asked.

        Of each exercise they are those that are marked, with their first parameters; where none of these is
        of its core, also the first of its core that takes tensors, and in which the reference returns one
        that is there.
        """
        if not self._day.uses_torch:
            return set()
        from course.checks.tensors import missing_device  # torch takes a second to import

        if missing_device(PRACTICE):
            return set()
        marked = {check.function: check for check in reversed(checks) if check.on_devices}
        chosen = {(check.exercise, check.name) for check in marked.values()}
        left = set(self._day.exercises)
        left -= {check.exercise for check in marked.values() if check.tier == CORE}
        for check in checks:
            if check.exercise in left and check.tier == CORE and takes_tensors(check):
                seen = see(check, self._module(()), self._seed, PRACTICE)
                if any(leaf.device == PRACTICE for leaf in seen.observation.values()):
                    chosen.add((check.exercise, check.name))
                    left.remove(check.exercise)
        return {name for _, name in chosen}

    def _load(self) -> dict[str, Check]:
        if not self._runnable:
            with self._while_loading():
                self._runnable = {check.name: check for check in load_checks(self._day)}
        return self._runnable

    @contextlib.contextmanager
    def _while_loading(self) -> Iterator[None]:
        started = time.thread_time()
        yield
        self.loading += time.thread_time() - started

    def _known(self, check: Outline) -> dict[str, WrongAnswerRun]:
        if check.name not in self._wrong:
            right = self.right(check)
            with self._while_loading():
                read = (
                    self._kept.read(member.format(check.name)) for member in (self.ALL, self.SOME)
                )
                frames = next(filter(None, read), None)
                self._wrong[check.name] = _wrong_of(frames, right) if frames else {}
        return self._wrong[check.name]

    def _is_complete(self, check: Outline) -> bool:
        return len(self._wrong.get(check.name, ())) == len(self.misconceptions)

    def _run_wrong(self, check: Outline, mistakes: Diagnosis) -> WrongAnswerRun:
        right = self.right(check)
        seen = self._run(check, mistakes)
        return WrongAnswerRun(_beside(right, seen), not matches(seen, right))

    def _run(self, check: Outline, mistakes: Diagnosis) -> CheckRun:
        return see(self.check(check), self._module(mistakes), self._seed, self._device)

    def _module(self, mistakes: Diagnosis) -> ModuleType | None:
        """The reference with these mistakes, if they can be made together."""
        if mistakes not in self._modules:
            self._modules[mistakes] = module_of(mistakes, self._day)
        return self._modules[mistakes]


def _beside(right: Expected, seen: CheckRun) -> Expected:
    """What a wrong answer sees, with a tolerance in proportion to that of the right one.

    To derive its own as well takes five more runs of each check for each wrong answer.
    """
    tolerance = {}
    for path, leaf in seen.observation.items():
        if is_float(leaf):
            other = right.seen.observation.get(path)
            size = magnitude(other) if other and is_float(other) else 0.0
            growth = max(1.0, magnitude(leaf) / size) if size else 1.0
            rounding = ROUNDINGS * eps_of(leaf.dtype or "float64") * magnitude(leaf)
            tolerance[path] = max(rounding, growth * right.tolerance.get(path, 0.0))
    return Expected(seen, seen.observation, defaultdict(float, tolerance))


# --- As frames ------------------------------------------------------------------------------------


def _of_right(right: Expected) -> Frames:
    return [(_message(right), right.seen.observation), ({}, right.truth)]


def _right_of(frames: Frames) -> Expected:
    (message, observation), (_, truth) = frames
    return _expected(message, observation, truth)


def _of_wrong(known: dict[str, WrongAnswerRun], right: CheckRun) -> Frames:
    """Only what differs from what the reference sees is written out."""
    frames: Frames = [({"same": []}, {})]
    for name, run in known.items():
        seen = run.expected.seen
        if _same(seen, right):
            frames[0][0]["same"].append(name)
        else:
            told = _message(run.expected) | {"id": name, "fails": run.fails}
            frames.append((told, seen.observation))
    return frames


def _wrong_of(frames: Frames, right: Expected) -> dict[str, WrongAnswerRun]:
    (head, _), *others = frames
    known = {name: WrongAnswerRun(_beside(right, right.seen), False) for name in head["same"]}
    for message, observation in others:
        expected = _expected(message, observation, observation)
        known[message["id"]] = WrongAnswerRun(expected, message["fails"])
    return known


def _message(expected: Expected) -> dict[str, Any]:
    seen = expected.seen
    return {
        "raised": asdict(seen.raised) | {"frames": [], "cpu_line": []} if seen.raised else None,
        "damaged": list(seen.damaged),
        "tolerance": dict(expected.tolerance),
        "inputs": expected.inputs,
        "names": list(expected.names),
    }


def _expected(message: dict[str, Any], observation: Observation, truth: Observation) -> Expected:
    raised = Raised(**message["raised"]) if message["raised"] else None
    seen = CheckRun(observation, raised, tuple(message["damaged"]))
    tolerance = defaultdict(float, message["tolerance"])
    return Expected(seen, truth, tolerance, message["inputs"], tuple(message["names"]))


def _same(one: CheckRun, other: CheckRun) -> bool:
    return (
        identical(one.observation, other.observation)
        and one.raised == other.raised
        and one.damaged == other.damaged
    )
