"""Runs of a day's checks on the reference and on known wrong answers, which are cached."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from course.checks.arrays import PRACTICE, eps_of
from course.checks.loading import CORE, Check, Outline, load_checks
from course.checks.observation import Leaf, Observation, Raised
from course.checks.seeing import CheckRun, see, takes_tensors
from course.curriculum import Day
from course.judging.comparison import identical, is_same, matches
from course.judging.expected import ROUNDINGS, ExpectedRun, expect, is_float, magnitude
from course.judging.misconceptions import Misconception, may_show, module_with
from course.judging.observation_cache import Frames, ObservationCache

CHECKS = "checks"  # the member with the outlines of the day's checks
RIGHT = "right/{}"  # a member for each check: the reference's run

DIGITS = 16  # of a wrong answer's numbers in a recording: mistakes differ by more

ALONE = threading.RLock()
"""Held while anything runs or is imported here: torch's generators, threads and defaults are the whole
process's, and `watch` runs wrong answers in a thread while the next verdict is made."""

Diagnosis = tuple[Misconception, ...]
"""One known mistake, several at once, or none."""


@dataclass(frozen=True)
class WrongAnswerRun:
    """A run of a check on the reference with a mistake in it."""

    run: CheckRun
    """The run itself."""
    fails: bool
    """Whether the check fails it."""
    expect: Callable[[], ExpectedRun]
    """Returns what an answer with the mistake is compared with. That needs the reference's tolerances, which
    take six runs: of a mistake that makes no difference nobody asks for it."""

    @functools.cached_property
    def expected(self) -> ExpectedRun:
        """The run with which an answer with the mistake is compared."""
        return self.expect()


class Truth:
    """The runs with which answers are compared, for one day, seed and device."""

    ALL, SOME = "wrong/{}", "some/{}"
    """Members for each check: the runs with every known mistake, or with those tried so far."""

    def __init__(
        self,
        day: Day,
        seed: int,
        device: str,
        misconceptions: list[Misconception],
        cache: ObservationCache,
    ) -> None:
        """Create the store without running anything.

        Args:
            misconceptions: the known wrong answers, in the order in which they are tried.
        """
        self.misconceptions = self.candidates = misconceptions
        self.loading = 0.0
        """Seconds of CPU time spent on imports of torch and the day's file, and on reading the cache."""
        self._day = day
        self._seed = seed
        self._device = device
        self._cache = cache
        self._runnable: dict[str, Check] = {}
        self._reference_runs: dict[str, CheckRun] = {}
        self._right: dict[str, ExpectedRun] = {}
        self._wrong: dict[str, dict[str, WrongAnswerRun]] = {}
        self._grown: dict[str, Outline] = {}
        self._modules: dict[Diagnosis, ModuleType | None] = {}

    def outlines(self) -> list[Outline]:
        """Return the day's checks as far as a verdict needs them, in order."""
        frames = self._cache.read(CHECKS)
        if frames is None:
            checks = list(self._load().values())
            with ALONE:
                on_practice = self._marked_for_practice(checks)
            entries = [
                check.as_json() | {"on_practice": check.name in on_practice} for check in checks
            ]
            frames = [({"checks": entries}, {})]
            self._cache.add(CHECKS, frames)
        return [Outline.from_json(entry) for entry in frames[0][0]["checks"]]

    def check(self, outline: Outline) -> Check:
        """Return a check to be run. The first call imports the day's file, and torch with it."""
        return self._load()[outline.name]

    def run(self, check: Outline, answer: Any, file: str | None = None) -> CheckRun:
        """Run a check on an answer in this process.

        Args:
            answer: a module, or any object that has the definitions.
            file: the answer's file name, which tells its own lines from others in a traceback.
        """
        return see(self.check(check), answer, self._seed, self._device, file=file)

    def accepts(self, check: Outline, run: CheckRun) -> bool:
        """Return whether a run agrees with the reference's, to the last bit or up to rounding."""
        return is_same(run, self.observe_reference(check)) or matches(run, self.right(check))

    def passes(self, check: Outline, answer: Any) -> bool:
        """Return whether an answer in this process passes a check."""
        return self.accepts(check, self.run(check, answer))

    def observe_reference(self, check: Outline) -> CheckRun:
        """Return the reference's run, which is enough to pass answers that agree to the last bit."""
        if check.name in self._right or RIGHT.format(check.name) in self._cache:
            return self.right(check).run
        if check.name not in self._reference_runs:
            self._reference_runs[check.name] = self._run(check, ())
        return self._reference_runs[check.name]

    def right(self, check: Outline) -> ExpectedRun:
        """Return the reference's run, and how far off a right answer may be."""
        if check.name not in self._right:
            member = RIGHT.format(check.name)
            frames = self._cache.read(member)
            if frames is None:
                with ALONE:
                    module = self._module(())
                    self._right[check.name] = right = expect(
                        self.check(check), module, self._seed, self._device
                    )
                self._cache.add(member, _of_right(right))
            else:
                self._right[check.name] = _right_of(frames)
        return self._right[check.name]

    def wrong(self, check: Outline, mistake: Misconception) -> WrongAnswerRun:
        """Return the run with a known mistake."""
        runs = self._known(check)
        if mistake.key not in runs:
            shown = (mistake,) if may_show(mistake, check, self._day) else ()
            runs[mistake.key] = self._run_wrong(check, shown)
            self._grown[check.name] = check
        return runs[mistake.key]

    def knows(self, check: Outline) -> bool:
        """Return whether the run with each mistake is cached."""
        return self.ALL.format(check.name) in self._cache or self._is_complete(check)

    def is_possible(self, mistakes: Diagnosis) -> bool:
        """Return whether the mistakes can be combined here."""
        return self._module(mistakes) is not None

    def together(self, check: Outline, mistakes: Diagnosis) -> ExpectedRun:
        """Return the run with several mistakes that are possible together."""
        if len(mistakes) == 1:  # which an edition has recorded, without the reference
            return self.wrong(check, mistakes[0]).expected
        shown = tuple(mistake for mistake in mistakes if may_show(mistake, check, self._day))
        if len(shown) == 1:
            return self.wrong(check, shown[0]).expected
        return self._run_wrong(check, shown).expected

    def complete(self, checks: Sequence[Outline]) -> Iterator[None]:
        """Compute the runs that are not cached yet, a piece at each step."""
        for check in checks:
            self.right(check)
            yield
        for check in checks:
            if not self.knows(check):
                for mistake in self.misconceptions:
                    self.wrong(check, mistake)
                    yield

    def keep(self) -> None:
        """Write new runs to the cache."""
        for check in self._grown.values():
            member = self.ALL if self._is_complete(check) else self.SOME
            frames = _of_wrong(self._wrong[check.name], self.observe_reference(check))
            self._cache.add(member.format(check.name), frames)
        self._grown.clear()
        self._cache.write()

    def add_all(self, checks: Sequence[Outline]) -> None:
        """Add all runs to the cache, including those that it already has: if two processes write at
        once, the later one wins."""
        for check in checks:
            for mistake in self.misconceptions:
                self.wrong(check, mistake)
            right = self.right(check)
            self._add_right(check, right)
            runs = self._wrong.get(check.name, {})
            wrong = _of_wrong({name: _rounded(run, right) for name, run in runs.items()}, right.run)
            self._cache.add(self.ALL.format(check.name), wrong)

    def _add_right(self, check: Outline, right: ExpectedRun) -> None:
        self._cache.add(RIGHT.format(check.name), _of_right(right))

    def forget(self) -> None:
        """Drop the modules with several mistakes, of which there are too many to store."""
        for mistakes in [mistakes for mistakes in self._modules if len(mistakes) > 1]:
            del self._modules[mistakes]

    def _marked_for_practice(self, checks: Sequence[Check]) -> set[str]:
        """Return the names of the checks that also run on the practice GPU by default.

        These are each exercise's marked checks, with their first parameters. If none of them is a core
        check, they include the first core check that takes tensors, and whose result has one.
        """
        if not self._day.uses_torch:
            return set()
        from course.checks.tensors import missing_device  # torch takes a second to import

        if missing_device(PRACTICE):
            return set()
        marked = {check.function: check for check in reversed(checks) if check.on_devices}
        chosen = {(check.exercise, check.name) for check in marked.values()}
        remaining = set(self._day.exercises)
        remaining -= {check.exercise for check in marked.values() if check.tier == CORE}
        for check in checks:
            if check.exercise in remaining and check.tier == CORE and takes_tensors(check):
                run = see(check, self._module(()), self._seed)
                if any(leaf.device for leaf in run.observation.values()):
                    chosen.add((check.exercise, check.name))
                    remaining.remove(check.exercise)
        return {name for _, name in chosen}

    def _load(self) -> dict[str, Check]:
        with ALONE:
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
            with self._while_loading():
                read = (
                    self._cache.read(member.format(check.name)) for member in (self.ALL, self.SOME)
                )
                frames = next(filter(None, read), None)
            self._wrong[check.name] = self._wrong_of(check, frames) if frames else {}
        return self._wrong[check.name]

    def _wrong_of(self, check: Outline, frames: Frames) -> dict[str, WrongAnswerRun]:
        (head, _), *rest = frames
        runs = {name: self._without_effect(check) for name in head["same"]}
        for message, observation in rest:
            expected = _expected(message, observation, observation)
            runs[message["id"]] = _known_run(expected, message["fails"])
        return runs

    def _without_effect(self, check: Outline) -> WrongAnswerRun:
        """Return the run with a mistake that the check does not see."""
        run = self.observe_reference(check)
        return WrongAnswerRun(run, False, lambda: _with_tolerance(self.right(check), run))

    def _is_complete(self, check: Outline) -> bool:
        return len(self._wrong.get(check.name, ())) == len(self.misconceptions)

    def _run_wrong(self, check: Outline, mistakes: Diagnosis) -> WrongAnswerRun:
        if not mistakes:
            return self._without_effect(check)
        run = self._run(check, mistakes)
        if _same(run, self.observe_reference(check)):
            return self._without_effect(check)
        right = self.right(check)
        return _known_run(_with_tolerance(right, run), not matches(run, right))

    def _run(self, check: Outline, mistakes: Diagnosis) -> CheckRun:
        with ALONE:
            runnable, module = self.check(check), self._module(mistakes)
            if mistakes and self._device not in ("cpu", PRACTICE):
                # An index out of range, which raises on the CPU, would end all use of a GPU by this process.
                on_cpu = see(runnable, module, self._seed)
                if on_cpu.raised:
                    return on_cpu
            return see(runnable, module, self._seed, self._device)

    def _module(self, mistakes: Diagnosis) -> ModuleType | None:
        """Return the reference with these mistakes, if they can be made together."""
        if mistakes not in self._modules:
            self._modules[mistakes] = module_with(mistakes, self._day)
        return self._modules[mistakes]


def _with_tolerance(right: ExpectedRun, run: CheckRun) -> ExpectedRun:
    """Return a wrong answer's run with a tolerance in proportion to the right one's.

    To derive its own tolerance would take five more runs of each check for each wrong answer.
    """
    tolerance = {}
    for path, leaf in run.observation.items():
        if is_float(leaf):
            other = right.run.observation.get(path)
            size = magnitude(other) if other and is_float(other) else 0.0
            growth = max(1.0, magnitude(leaf) / size) if size else 1.0
            rounding = ROUNDINGS * eps_of(leaf.dtype or "float64") * magnitude(leaf)
            tolerance[path] = max(rounding, growth * right.tolerance.get(path, 0.0))
    return ExpectedRun(run, run.observation, defaultdict(float, tolerance))


def _rounded(run: WrongAnswerRun, right: ExpectedRun) -> WrongAnswerRun:
    """Return a wrong answer's run with `DIGITS` binary digits, and a tolerance for that: fewer bytes.

    What is near the right answer keeps all digits, because in these lies the mistake, such as a dtype's.
    """
    if _same(run.run, right.run):
        return run
    tolerance, observation = dict(run.expected.tolerance), dict(run.run.observation)
    for path, leaf in observation.items():
        other = right.run.observation.get(path)
        if leaf.is_array and is_float(leaf) and not (other and _is_near(leaf, other)):
            mantissa, exponent = np.frexp(np.asarray(leaf.value, np.float64))
            near = np.ldexp(np.trunc(mantissa * 2**DIGITS) / 2**DIGITS, exponent)
            observation[path] = replace(leaf, value=near.astype(np.asarray(leaf.value).dtype))
            tolerance[path] = tolerance.get(path, 0.0) + 2 * magnitude(leaf) / 2**DIGITS
    rounded = replace(run.run, observation=observation)
    return _known_run(ExpectedRun(rounded, observation, defaultdict(float, tolerance)), run.fails)


def _is_near(leaf: Leaf, right: Leaf) -> bool:
    if not (right.is_array and is_float(right)) or np.shape(leaf.value) != np.shape(right.value):
        return False
    value, other = (np.asarray(both.value, np.float64) for both in (leaf, right))
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, and not near
        return bool((abs(value - other) <= magnitude(right) / 2 ** (DIGITS - 4)).all())


# --- As frames ------------------------------------------------------------------------------------


def _of_right(right: ExpectedRun) -> Frames:
    return [(_message(right), right.run.observation), ({}, right.truth)]


def _right_of(frames: Frames) -> ExpectedRun:
    (message, observation), (_, truth) = frames
    return _expected(message, observation, truth)


def _of_wrong(known: dict[str, WrongAnswerRun], right: CheckRun) -> Frames:
    """Pack the runs with mistakes; those equal to the reference's by name alone."""
    frames: Frames = [({"same": []}, {})]
    for name, run in known.items():
        check_run = run.run
        if _same(check_run, right):
            frames[0][0]["same"].append(name)
        else:
            message = _message(run.expected) | {"id": name, "fails": run.fails}
            frames.append((message, check_run.observation))
    return frames


def _known_run(expected: ExpectedRun, fails: bool) -> WrongAnswerRun:
    return WrongAnswerRun(expected.run, fails, lambda: expected)


def _message(expected: ExpectedRun) -> dict[str, Any]:
    run = expected.run
    return {
        "raised": asdict(run.raised) | {"frames": [], "cpu_line": []} if run.raised else None,
        "damaged": list(run.damaged),
        "drawn_at": run.drawn_at,
        "tolerance": dict(expected.tolerance),
        "inputs": expected.inputs,
        "names": list(expected.names),
    }


def _expected(message: dict[str, Any], observation: Observation, truth: Observation) -> ExpectedRun:
    raised = Raised(**message["raised"]) if message["raised"] else None
    damaged = tuple(message["damaged"])
    run = CheckRun(observation, raised, damaged, drawn_at=message["drawn_at"])
    tolerance = defaultdict(float, message["tolerance"])
    return ExpectedRun(run, truth, tolerance, message["inputs"], tuple(message["names"]))


def _same(run: CheckRun, other: CheckRun) -> bool:
    return (
        identical(run.observation, other.observation)
        and run.raised == other.raised
        and run.damaged == other.damaged
    )
