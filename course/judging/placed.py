"""What answers are held against on the practice GPU: what the reference sees on the CPU, over there.

The practice GPU computes the CPU's numbers. So what was observed on the CPU, or recorded, is all that is
needed, and for each check the device of each tensor that the reference returns.
"""

from __future__ import annotations

from dataclasses import replace

from course.checks.arrays import PRACTICE
from course.checks.loading import Check, Outline
from course.checks.seeing import CheckRun
from course.curriculum import Day
from course.judging.expected import Expected
from course.judging.kept import Kept
from course.judging.misconceptions import Misconception
from course.judging.truth import Truth, WrongAnswerRun

PLACES = (
    "places/{}"  # the member with the device of each tensor that the reference returns in a check
)


class Placed(Truth):
    """What a judge holds observations against, for one day and seed, on the practice GPU."""

    ALL, SOME = "wrong there/{}", "some there/{}"

    def __init__(
        self, day: Day, seed: int, misconceptions: list[Misconception], kept: Kept
    ) -> None:
        there = [one for one in misconceptions if one.device == PRACTICE]
        on_cpu = [one for one in misconceptions if one.device != PRACTICE]
        super().__init__(day, seed, PRACTICE, there, kept)
        self._on_cpu = Truth(day, seed, "cpu", on_cpu, kept)
        self.candidates = [*there, *on_cpu]

    def outlines(self) -> list[Outline]:
        return self._on_cpu.outlines()

    def observe_reference(self, check: Outline) -> CheckRun:
        if check.name not in self._reference_runs:
            frames = self._kept.read(PLACES.format(check.name))
            if frames is None:
                self._reference_runs[check.name] = self._observed(check)
            else:
                places = frames[0][0]["places"]
                seen = self._on_cpu.observe_reference(check)
                there = {
                    path: replace(leaf, device=places.get(path))
                    for path, leaf in seen.observation.items()
                }
                self._reference_runs[check.name] = replace(seen, observation=there)
        return self._reference_runs[check.name]

    def right(self, check: Outline) -> Expected:
        if check.name not in self._right:
            right = self._on_cpu.right(check)
            self._right[check.name] = replace(right, seen=self.observe_reference(check))
        return self._right[check.name]

    def wrong(self, check: Outline, one: Misconception) -> WrongAnswerRun:
        if one.device == PRACTICE:
            return super().wrong(check, one)
        run = self._on_cpu.wrong(check, one)
        places = {
            path: leaf.device for path, leaf in self.observe_reference(check).observation.items()
        }
        seen = run.expected.seen
        there = {
            path: replace(leaf, device=places.get(path, leaf.device and PRACTICE))
            for path, leaf in seen.observation.items()
        }
        expected = replace(run.expected, seen=replace(seen, observation=there))
        return replace(run, expected=expected)

    def knows(self, check: Outline) -> bool:
        return super().knows(check) and self._on_cpu.knows(check)

    def keep(self) -> None:
        self._on_cpu.keep()
        super().keep()

    def _add_right(self, check: Outline, right: Expected) -> None:
        """The recording has what is seen on the CPU."""

    def _observed(self, check: Outline) -> CheckRun:
        """What the reference sees there, whose places are then known."""
        seen = self._run(check, ())
        if seen.raised is not None:  # its places are not known
            return seen
        places = {path: leaf.device for path, leaf in seen.observation.items() if leaf.device}
        self._kept.add(PLACES.format(check.name), [({"places": places}, {})])
        return seen

    def _load(self) -> dict[str, Check]:
        return self._on_cpu._load()
