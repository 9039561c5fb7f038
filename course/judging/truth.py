"""What the reference sees in a day's checks, and what it sees with mistakes in it, run when asked."""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

from course.checks.loading import Check
from course.curriculum import Day
from course.judging.expected import Expected, expect, expect_roughly
from course.judging.misconceptions import Misconception, load_misconceptions, module_of

Diagnosis = tuple[Misconception, ...]
"""What was misunderstood: one thing, two at once, or nothing that is known."""

RIGHT: Diagnosis = ()  # the reference, as it is


class Truth(Protocol):
    """What a judge holds observations against, for one day, seed and device."""

    @property
    def misconceptions(self) -> list[Misconception]:
        """The known wrong answers, in the order in which they are tried."""

    def is_possible(self, wrong: Diagnosis) -> bool:
        """Whether it is known what is seen by who makes these mistakes together."""

    def exactly(self, wrong: Diagnosis, check: Check) -> Expected:
        """What is seen with these mistakes, and how far off who makes them, too, may be."""

    def roughly(self, wrong: Diagnosis, check: Check) -> Expected:
        """The same, perhaps with a tolerance that only tells what is far off."""

    def forget(self) -> None:
        """Let go of what there is too much of to keep."""


class Reference:
    """The reference, run. It remembers what it has computed."""

    def __init__(self, day: Day, seed: int, device: str) -> None:
        self._day = day
        self._seed = seed
        self._device = device
        self._misconceptions: list[Misconception] | None = None
        self._exact: dict[tuple[Diagnosis, str], Expected] = {}
        self._rough: dict[tuple[Diagnosis, str], Expected] = {}
        self._modules: dict[Diagnosis, ModuleType | None] = {}

    @property
    def misconceptions(self) -> list[Misconception]:
        if self._misconceptions is None:
            self._misconceptions = load_misconceptions(self._day)
        return self._misconceptions

    def is_possible(self, wrong: Diagnosis) -> bool:
        return self._module(wrong) is not None

    def exactly(self, wrong: Diagnosis, check: Check) -> Expected:
        key = wrong, check.name
        if key not in self._exact:
            module = self._module(wrong)
            self._exact[key] = expect(check, module, self._seed, self._device)
        return self._exact[key]

    def roughly(self, wrong: Diagnosis, check: Check) -> Expected:
        """The same from one run, to tell what is far off."""
        key = wrong, check.name
        if key in self._exact:
            return self._exact[key]
        if key not in self._rough:
            module = self._module(wrong)
            self._rough[key] = expect_roughly(check, module, self._seed, self._device)
        return self._rough[key]

    def forget(self) -> None:
        """Let go of what two wrong answers at once see: of those there are too many to keep."""
        for kept in (self._exact, self._rough):
            for wrong, name in [key for key in kept if len(key[0]) > 1]:
                del kept[wrong, name]
        for wrong in [wrong for wrong in self._modules if len(wrong) > 1]:
            del self._modules[wrong]

    def _module(self, wrong: Diagnosis) -> ModuleType | None:
        """The reference with these mistakes, if they can be made together."""
        if wrong not in self._modules:
            self._modules[wrong] = module_of(wrong, self._day)
        return self._modules[wrong]
