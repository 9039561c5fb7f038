"""Runs on the practice GPU, made from those on the CPU.

The practice GPU computes the same numbers as the CPU. So the runs on the CPU, or their recording, are enough,
together with the device of each tensor that the reference returns in a check.
"""

from __future__ import annotations

from dataclasses import replace

from course.checks.arrays import PRACTICE
from course.checks.loading import Check, Outline
from course.checks.seeing import CheckRun
from course.curriculum import Day
from course.judging.expected import ExpectedRun
from course.judging.misconceptions import Misconception
from course.judging.observation_cache import ObservationCache
from course.judging.truth import Truth, WrongAnswerRun

# The member with the device of each tensor that the reference returns in a check
PLACES = "places/{}"


class PracticeTruth(Truth):
    """The runs that answers are compared with on the practice GPU, for one day and seed."""

    ALL, SOME = "wrong there/{}", "some there/{}"

    def __init__(
        self, day: Day, seed: int, misconceptions: list[Misconception], cache: ObservationCache
    ) -> None:
        on_practice = [mistake for mistake in misconceptions if mistake.device == PRACTICE]
        on_cpu = [mistake for mistake in misconceptions if mistake.device != PRACTICE]
        super().__init__(day, seed, PRACTICE, on_practice, cache)
        self._on_cpu = Truth(day, seed, "cpu", on_cpu, cache)
        self.candidates = [*on_practice, *on_cpu]

    def outlines(self) -> list[Outline]:
        return self._on_cpu.outlines()

    def observe_reference(self, check: Outline) -> CheckRun:
        if check.name not in self._reference_runs:
            frames = self._cache.read(PLACES.format(check.name))
            if frames is None:
                self._reference_runs[check.name] = self._observed(check)
            else:
                places = frames[0][0]["places"]
                run = self._on_cpu.observe_reference(check)
                observation = {
                    path: replace(leaf, device=places.get(path))
                    for path, leaf in run.observation.items()
                }
                self._reference_runs[check.name] = replace(run, observation=observation)
        return self._reference_runs[check.name]

    def right(self, check: Outline) -> ExpectedRun:
        if check.name not in self._right:
            right = self._on_cpu.right(check)
            self._right[check.name] = replace(right, run=self.observe_reference(check))
        return self._right[check.name]

    def wrong(self, check: Outline, mistake: Misconception) -> WrongAnswerRun:
        if mistake.device == PRACTICE:
            return super().wrong(check, mistake)
        run = self._on_cpu.wrong(check, mistake)
        places = {
            path: leaf.device for path, leaf in self.observe_reference(check).observation.items()
        }
        cpu_run = run.run
        observation = {
            path: replace(leaf, device=places.get(path, leaf.device and PRACTICE))
            for path, leaf in cpu_run.observation.items()
        }
        practice_run = replace(cpu_run, observation=observation)
        return WrongAnswerRun(
            practice_run, run.fails, lambda: replace(run.expected, run=practice_run)
        )

    def knows(self, check: Outline) -> bool:
        return super().knows(check) and self._on_cpu.knows(check)

    def keep(self) -> None:
        self._on_cpu.keep()
        super().keep()

    def _add_right(self, check: Outline, right: ExpectedRun) -> None:
        """Add nothing: the recording has the run on the CPU."""

    def _observed(self, check: Outline) -> CheckRun:
        """Run a check on the reference there, and cache the devices of its tensors."""
        run = self._run(check, ())
        if run.raised is not None:  # its places are not known
            return run
        places = {path: leaf.device for path, leaf in run.observation.items() if leaf.device}
        self._cache.add(PLACES.format(check.name), [({"places": places}, {})])
        return run

    def _load(self) -> dict[str, Check]:
        return self._on_cpu._load()
